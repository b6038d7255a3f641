#!/usr/bin/env python3
"""An external scheduler for ESI's REST interface: measures which jobs go well together, and uses it.

    scheduler.py http://127.0.0.1:8080 -p profiler-slots -s scheduler-slots

Two parts, each in a thread of its own: -p runs every pair of jobs on a testbed and keeps the run times
(profiler.py), -s places all jobs on another testbed, each beside the one that slows it down least. Standard
library only; it knows no Kubernetes. What it posted it deletes, also when it is interrupted.
"""

import argparse
import random
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

import profiler
from esi_client import Esi, EsiError, Shape
from profiler import Matrix

ERRORS = 5
"""So many errors in a row, and a part gives up."""


def queue(matrix: Matrix, testbed: Shape, chance: random.Random) -> list[str]:
    """Which job in which slot. Slots are numbered round robin: the first of every node, then the second ones.

    First pass: a random job for each node. In every later one each node gets, of the jobs that this pass has
    not used, the one beside which its first job runs shortest.
    """
    nodes, names = testbed["numberOfNodes"], list(matrix.names)
    if not nodes or not names:
        raise EsiError(f"{testbed['name']} has {nodes} nodes, and there are {len(names)} jobs")
    chance.shuffle(names)
    first = [names[node % len(names)] for node in range(nodes)]
    slots = list(first)
    for _ in range(1, testbed["numberOfSlotsPerNode"]):
        unused = list(names)
        for job in first:
            # Itself beside itself is no company; a pair without a measurement is tried before a slow one.
            others = [name for name in unused if name != job] or [name for name in names if name != job]
            best = min(others, key=lambda other: matrix[job, other].seconds, default=job)
            slots.append(best)
            if best in unused:
                unused.remove(best)
    return slots


def schedule(esi: Esi, testbed: str, chance: random.Random, patience: float) -> str:
    """Place all jobs once and wait until they are done; says how it went."""
    matrix = Matrix(esi.jobs())
    found = esi.testbed(testbed)
    plan = queue(matrix, found, chance)
    try:
        esi.post({"name": "example-scheduling", "testBed": testbed, "queue": plan})
        esi.wait("schedulings", "example-scheduling", profiler.completed, patience)
    finally:
        esi.delete("example-scheduling")
    return f"completed: {', '.join(plan)}"


class Part(threading.Thread):
    """Does one thing again and again until `enough` says so, or until it has failed too often in a row."""

    def __init__(
        self, esi: Esi, name: str, once: Callable[[int], str], enough: Callable[[int], bool]
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._esi, self._once, self._enough = esi, once, enough
        self.failed = False

    def run(self) -> None:
        done = errors = 0
        while not self._esi.closed.is_set() and not self.failed:
            try:
                if self._enough(done):
                    return
                said = self._once(done)
                done, errors = done + 1, 0
                print(f"{self.name}: {said}", flush=True)
            except EsiError as error:
                errors += 1
                self.failed = errors >= ERRORS
                if not self._esi.closed.wait(0 if self.failed else 2.0 ** (errors - 1)):
                    print(f"{self.name}: {error}", file=sys.stderr, flush=True)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="An external scheduler for ESI's REST interface.",
        epilog="Example: scheduler.py http://127.0.0.1:8080 -p profiler-slots -s scheduler-slots",
    )
    parser.add_argument("url", help="where the interface is, such as http://127.0.0.1:8080")
    parser.add_argument("-p", metavar="TESTBED", help="measure pairs of jobs on this testbed")
    parser.add_argument("-s", metavar="TESTBED", help="place all jobs on this testbed")
    parser.add_argument("--just-print", action="store_true", help="print what was measured, and end")
    parser.add_argument(
        "--rounds",
        type=int,
        default=0,
        help="end after so many samples of each pair and Schedulings; 0: never",
    )
    parser.add_argument("--token", default="", help="bearer token, if the interface asks for one")
    parser.add_argument("--namespace", default="", help="where the jobs are, if not in the default one")
    parser.add_argument("--patience", type=float, default=3600, help="longest wait for one thing, in seconds")
    parser.add_argument("--seed", type=int, default=None, help="for the same random choices again")
    found = parser.parse_args()
    if not (found.p or found.s or found.just_print):
        parser.error("say what to do: -p TESTBED, -s TESTBED, both, or --just-print")
    return found


def parts(esi: Esi, given: argparse.Namespace) -> list[Part]:
    """The threads that were asked for."""
    chance, rounds = random.Random(given.seed), given.rounds

    def measure(number: int) -> str:
        return profiler.measure(esi, given.p, number, given.patience)

    def measured(_: int) -> bool:
        return 0 < rounds <= Matrix(esi.jobs()).full

    def place(_: int) -> str:
        return schedule(esi, given.s, chance, given.patience)

    def placed(done: int) -> bool:
        return 0 < rounds <= done

    found = [Part(esi, "profiler", measure, measured)] if given.p else []
    return [*found, Part(esi, "scheduler", place, placed)] if given.s else found


def main() -> int:
    given = options()
    esi = Esi(given.url, given.token, given.namespace)
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell in the background ignores the first
        signal.signal(number, interrupted)
    running = [] if given.just_print else parts(esi, given)
    try:
        for part in running:
            part.start()
        for part in running:
            part.join()
        print(Matrix(esi.jobs()))
    except EsiError as error:
        print(f"scheduler.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        try:
            esi.close()
        except EsiError as error:
            print(f"scheduler.py: may have left a Scheduling behind: {error}", file=sys.stderr)
    return 1 if any(part.failed for part in running) else 0


def interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
