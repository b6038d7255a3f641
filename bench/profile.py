"""How long the earliest start takes on a large machine: 5,000 nodes of 4 resources, 1,000 releases.

Run: python -m bench.profile [--nodes N] [--releases N] [--rounds N]. Each release is on up to 64 nodes.
The reference beside it is a search in plain Python, node by node, over lists made ready for it; both
answer the same question in the same run, and the answers are equal (asserted). The first question
includes bringing the events into columns, which each cycle pays once. Medians of processor time.
"""

import argparse
import bisect
import random
import statistics
import time
from collections.abc import Callable

import numpy as np

from bench.report import report
from fairlead.core.inventory import Vector
from fairlead.core.profile import Profile, Release, Share, Want

NOW = 1_700_000_000_000
HOUR = 3_600_000
CAPACITY = (64_000, 256, 4, 110)
WHOLE = Vector(np.arange(4), np.array([64_000, 64, 4, 1]), ((0, 64_000), (1, 64), (2, 4), (3, 1)))
Events = list[list[tuple[int, tuple[int, ...]]]]
"""Per node: (time, what is released there)."""


def machine(nodes: int, releases: int, seed: int) -> tuple[np.ndarray, list[Release]]:
    """Nodes with running work on them, each piece on up to 64 nodes."""
    chance = random.Random(seed)
    free = np.repeat(np.array(CAPACITY, dtype=np.int64)[:, None], nodes, axis=1)
    found: list[Release] = []
    for _ in range(releases):
        amounts = (chance.randrange(1, 17) * 1000, chance.randrange(1, 33), chance.randrange(2), 1)
        pairs = tuple((i, a) for i, a in enumerate(amounts) if a)
        vector = Vector(np.array([i for i, _ in pairs]), np.array([a for _, a in pairs]), pairs)
        chosen = chance.sample(range(nodes), chance.randrange(1, 65))
        rows = np.array([r for r in chosen if all(free[i, r] >= a for i, a in pairs)], dtype=np.int64)
        free[vector.rows[:, None], rows] -= vector.amounts[:, None]
        until = NOW + chance.randrange(1, 48 * HOUR)
        found.append(Release(until, Share(vector, rows, np.ones(len(rows), dtype=np.int64))))
    return free, found


def prepare(releases: list[Release], nodes: int) -> Events:
    """The same as lists, for the plain search; not part of its time."""
    events: Events = [[] for _ in range(nodes)]
    for until, share in releases:
        amounts = [0] * len(CAPACITY)
        for resource, amount in share.vector.pairs:
            amounts[resource] = amount
        for row in share.rows.tolist():
            events[row].append((until, tuple(amounts)))
    for each in events:
        each.sort()
    return events


def plain(free: list[list[int]], events: Events, want: Want) -> int:
    """Node by node, when does each copy find room; then the time of the copy that is wanted."""
    found: list[int] = []
    for row, each in enumerate(events):
        level = [column[row] for column in free]
        had = 0
        for at, released in [(NOW, (0,) * len(level)), *each]:
            level = [a + b for a, b in zip(level, released, strict=True)]
            fits = max(min([level[r] // a for r, a in want.vector.pairs]), 0)
            for _ in range(fits - had):
                bisect.insort(found, at)
                if len(found) > want.copies:
                    found.pop()
            had = max(fits, had)
    return found[-1] if len(found) == want.copies else 0


def cpu_time(what: Callable[[], int]) -> tuple[float, int]:
    """Milliseconds of processor time, and the answer."""
    begin = time.process_time()
    answer = what()
    return (time.process_time() - begin) * 1000, answer


def measure(nodes: int, releases: int, copies: int, rounds: int) -> tuple[list[float], int]:
    """Median milliseconds of (plain, first question, second one, one among promises); the start found."""
    free, running = machine(nodes, releases, 1)
    events, columns = prepare(running, nodes), [list(map(int, column)) for column in free]
    promise = Share(WHOLE, np.arange(64), np.ones(64, dtype=np.int64))
    want = Want(WHOLE, np.ones(nodes, dtype=bool), copies)
    runs: list[list[float]] = []
    start = 0
    for _ in range(rounds):
        profile = Profile(free, NOW, running)

        def ask(profile: Profile = profile) -> int:
            return next(profile.candidates([want], HOUR, NOW))

        plain_ms, start = cpu_time(lambda: plain(columns, events, want))
        first_ms, first = cpu_time(ask)
        second_ms, second = cpu_time(ask)
        assert start == first == second, (start, first, second)
        for i in range(16):  # promises in the way, which the plain search knows nothing of
            profile.take([promise], NOW + (3 * i + 1) * HOUR, NOW + (3 * i + 2) * HOUR)
        among_ms, among = cpu_time(ask)
        assert among >= start
        runs.append([plain_ms, first_ms, second_ms, among_ms])
    return [statistics.median(column) for column in zip(*runs, strict=True)], start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--releases", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rows: list[dict[str, str]] = []
    for copies in (64, options.nodes // 2, options.nodes - 1):
        (plain_ms, first, second, among), start = measure(
            options.nodes, options.releases, copies, options.rounds
        )
        rows.append(
            {
                "whole nodes": str(copies),
                "start": f"+{(start - NOW) / HOUR:.1f} h",
                "first ms": f"{first:.1f}",
                "again ms": f"{second:.1f}",
                "among 16 promises ms": f"{among:.1f}",
                "plain Python ms": f"{plain_ms:.0f}",
                "ratio first": f"{plain_ms / first:.0f}",
                "ratio again": f"{plain_ms / second:.0f}",
            }
        )
    command = f"python -m bench.profile --nodes {options.nodes} --releases {options.releases}"
    report("profile", command, rows)


if __name__ == "__main__":
    main()
