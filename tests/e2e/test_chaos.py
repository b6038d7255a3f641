"""Real processes are killed at random over hundreds of groups; an independent checker judges what came of it.

The seed is the same in each run and printed. FAIRLEAD_CHAOS_SEED names another one, and
FAIRLEAD_CHAOS_ROUNDS goes on for longer.
"""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos import (
    BLOWS,
    SEED,
    Chaos,
    Stream,
    Work,
    broken_promises,
    differences,
    drawn_work,
    kept,
    queue,
    rounds,
    wait_complete,
)
from checker import half_started, killed, moved, not_once, overcommitted
from checker_watch import Recorder

from conftest import unique_name
from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_down, bring_up
from live import Kubectl, Scheduler, job, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ROUNDS = rounds(5)
GROUPS_PER_ROUND = 35
HALF_STARTED = 30.0
"""Seconds within which a group that was half started has to be whole (design.md, 5)."""
SPACE, QUIET = "chaos", "quiet"
CPU, NODES = "8", 6


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    """Six nodes of 8 cpu that nobody else uses, and two namespaces."""
    name = unique_name()
    try:
        cluster = bring_up(UpOptions(name=name, nodes=NODES, shape=NodeShape(cpu=CPU)))
        for space in (SPACE, QUIET):
            Kubectl(cluster, "default")("create", "namespace", space)
        yield cluster
    finally:
        bring_down(name)


@pytest.mark.timeout(600)
def test_L1_order_first_sight_and_promises_outlive_every_kill(plane: Cluster, data: Path) -> None:
    """Nothing ends or comes meanwhile, so each look at the queue must say what the one before said."""
    draw = random.Random(SEED)
    kubectl = Kubectl(plane, QUIET)
    scheduler = Scheduler(plane.kubeconfig, data, "--policy", "conservative")
    chaos = Chaos(plane, scheduler, draw)
    hour = {"fairlead.dev/duration": "1h"}
    names = [f"w{i:02}" for i in range(12)]
    with scheduler:
        kubectl.create(job("blocker", pods=NODES, cpu=CPU, run="1h", annotations=hour))
        scheduler.wait_state(QUIET, "blocker", "running")
        for name in names:
            kubectl.create(job(name, pods=draw.randint(1, 6), cpu=str(draw.randint(1, 8)), annotations=hour))
        before = until(lambda: promised(scheduler, names), "all to be promised a start")
        until(lambda: kept(scheduler, QUIET) >= {"blocker", *names}, "all to be in the store")
        for parts in draw.sample([*dict.fromkeys(BLOWS)], 3):
            chaos.strike(*parts)
            after = until(lambda: promised(scheduler, names), "all to be promised a start again")
            told = [*differences(before, after, names), *broken_promises(before, after)]
            assert told == [], f"seed {SEED}: {chaos.blows}"
        print(f"seed {SEED}: {', '.join(chaos.blows)}")
        kubectl("delete", "jobs", "--all", "--cascade=foreground", "--timeout=100s")


def promised(scheduler: Scheduler, names: list[str]) -> dict[str, Any] | None:
    """The queue, once all of these wait in it and are promised a start."""
    page = queue(scheduler)
    ready = {row["name"] for row in page["groups"] if row["position"] and row["estimate"]}
    return page if ready == set(names) else None


@pytest.mark.timeout(600 + 60 * ROUNDS)
def test_L1_D4_own_nodes_are_never_overcommitted_and_nothing_is_lost(plane: Cluster, data: Path) -> None:
    draw = random.Random(SEED)
    works = [drawn_work(draw, i, SPACE, 4, walltime="10m") for i in range(ROUNDS * GROUPS_PER_ROUND)]
    sizes = {f"{SPACE}/{work.name}": work.size for work in works}
    scheduler = Scheduler(plane.kubeconfig, data, "--policy", "conservative")
    chaos = Chaos(plane, scheduler, draw)
    told: list[str] = []
    with Recorder(plane.state.ports.apiserver, plane.files.pki) as recorder:
        scheduler.start()
        try:
            chaos.wait_up()
            with Stream(plane, works, draw, pause=0.1):
                for _ in range(ROUNDS):
                    known, before = kept(scheduler, SPACE), queue(scheduler)
                    chaos.strike()
                    told += differences(before, queue(scheduler), known)
            chaos.calm()
            wait_complete(recorder, scheduler, sizes)
            with contextlib.suppress(AssertionError):
                until(lambda: not (uncompleted(scheduler, works) or used(scheduler)), "it to know that", 100)
            left = uncompleted(scheduler, works)
            up, free = chaos.up, used(scheduler)
        finally:
            scheduler.stop()
        recorder.catch_up()
    history = recorder.history
    summary = f"seed {SEED}: {', '.join(chaos.blows)}; {len(works)} groups, {len(history)} moments"
    print(f"{summary}, {recorder.gaps} gaps, {recorder.unseen} not seen into")
    assert overcommitted(history) == [], summary
    assert moved(history) == [], summary
    assert killed(history, sizes) == [], summary
    assert not_once(history, sizes) == [], summary
    assert half_started(history, sizes, up, HALF_STARTED) == [], summary
    assert told == [], summary
    assert left == {}, summary
    assert free == {}, summary
    assert "Traceback" not in scheduler.log, summary


def uncompleted(scheduler: Scheduler, works: list[Work]) -> dict[str, str]:
    """Groups that the scheduler does not call completed."""
    rows = scheduler.groups(SPACE)
    states = {work.name: rows.get(work.name, {}).get("state", "unknown") for work in works}
    return {name: state for name, state in states.items() if state != "completed"}


def used(scheduler: Scheduler) -> dict[str, int]:
    """What the scheduler thinks is taken, by node and resource."""
    status, page = scheduler.get("/api/v1/nodes")
    assert status == 200
    return {
        f"{node['name']} {use['name']}": use["used"]
        for node in page["nodes"]
        for use in node["resources"]
        if use["used"]
    }
