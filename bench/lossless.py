"""Nothing lost: pods created, bound and finished as fast as they can, the recorder killed and restarted.

Run: python -m bench.lossless [--pods N] [--kills N] [--nodes N]. On a local control plane of its own, with
the embedded PostgreSQL. What the ledger has in the end is compared with what a second, plain watch has seen,
by (uid, event); the command fails if they differ.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor

from bench.recorded import Hands, Recording, Said, SecondWatch, come_and_go, names_of, wait_until
from bench.report import report
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up
from fairlead.store.embedded import running_postmaster

SCHEDULERS = ("default-scheduler", "volcano", "somebody", "fairlead")
BATCH = 500
SPACE = "recorded"
CATCH_UP = 300.0
"""Seconds that the recorder has for the rest, after the last pod."""


@contextlib.contextmanager
def _plane(nodes: int) -> Generator[Cluster]:
    name = f"lossless-{uuid.uuid4().hex[:8]}"
    try:
        yield bring_up(UpOptions(name=name, nodes=nodes))
    finally:
        bring_down(name)


@contextlib.contextmanager
def _folder() -> Generator[pathlib.Path]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fairlead-bench-"))
    folder.chmod(0o711)
    try:
        yield folder / "data"
    finally:
        if (pid := running_postmaster(folder / "data")) is not None:
            os.kill(pid, signal.SIGQUIT)
            wait_until(lambda: running_postmaster(folder / "data") is None, "PostgreSQL to end")
        shutil.rmtree(folder, ignore_errors=True)


def _kill(recorder: Recording, watch: SecondWatch, working: "Future[None]", pods: int, kills: int) -> None:
    """At even steps of the way; every second time while it is still starting."""
    for number in range(1, kills + 1):
        threshold = number * pods // (kills + 1)
        wait_until(
            lambda threshold=threshold: working.done() or watch.count(SPACE, "Created") >= threshold,
            "pods to come",
            CATCH_UP * 4,
        )
        recorder.kill()
        recorder.start()
        if number % 2:
            recorder.wait_ready()


def _differences(recorder: Recording, expected: Said) -> tuple[Said, Said]:
    said = recorder.said(SPACE)
    return expected - said, said - expected


def measure(pods: int, kills: int, nodes: int) -> tuple[list[dict[str, str]], str]:
    """One row per event, and the whole; and how long it took, with the gaps that the recorder told."""
    with _plane(nodes) as cluster, _folder() as data, Hands(cluster, SPACE) as hands:
        names = [f"p{number}" for number in range(pods)]
        recorder = Recording(cluster.kubeconfig, data)
        with recorder, SecondWatch(cluster) as watch, ThreadPoolExecutor(1) as aside:
            began = time.monotonic()
            working = aside.submit(come_and_go, hands, names, names_of(cluster), watch, SCHEDULERS, BATCH)
            _kill(recorder, watch, working, pods, kills)
            working.result()
            took = time.monotonic() - began
            recorder.wait_ready()
            with contextlib.suppress(AssertionError):
                wait_until(
                    lambda: not any(_differences(recorder, watch.expected(SPACE))), "the ledger", CATCH_UP
                )
            caught_up = time.monotonic() - began - took
            expected = watch.expected(SPACE)
            missing, doubled = _differences(recorder, expected)
            gaps = recorder.rows("SELECT coalesce(extra->>'kind', '') FROM change WHERE event = 'Gap'")
    told = ", ".join(kind for (kind,) in gaps) or "none"
    notes = f"It took {took:.0f} s; the ledger had all {caught_up:.1f} s later. Gaps that it told: {told}."
    return _rows(expected, missing, doubled), notes


def _rows(expected: Said, missing: Said, doubled: Said) -> list[dict[str, str]]:
    def by_event(said: Said) -> Counter[str]:
        return sum((Counter({event: count}) for (_, event), count in said.items()), Counter[str]())

    counts = [by_event(each) for each in (expected, missing, doubled)]
    lines = [(event, *(each[event] for each in counts)) for event in counts[0]]
    lines.append(("all", *(sum(each.values()) for each in counts)))
    return [
        {"event": event, "second watch": f"{seen:,}", "missing": str(lost), "too often": str(twice)}
        for event, seen, lost, twice in lines
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Nothing lost while the recorder is killed again and again.")
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--nodes", type=int, default=200)
    given = parser.parse_args()
    rows, notes = measure(given.pods, given.kills, given.nodes)
    command = f"python -m bench.lossless --pods {given.pods} --kills {given.kills} --nodes {given.nodes}"
    report(
        "lossless",
        command,
        rows,
        "Pods created, bound and finished as fast as they can, half of them deleted, the recorder killed"
        " (SIGKILL) and restarted meanwhile. Counted by (uid, event) in the ledger and by a second watch. "
        + notes,
    )
    if rows[-1]["missing"] != "0" or rows[-1]["too often"] != "0":
        raise SystemExit("the ledger differs from the second watch")


if __name__ == "__main__":
    main()
