"""Real processes are killed at random over hundreds of groups; an independent checker judges what came of it.

Another seed in each run, printed; FAIRLEAD_CHAOS_SEED and FAIRLEAD_CHAOS_ROUNDS repeat one and prolong it.
"""

import contextlib
import random
from pathlib import Path

import pytest
from chaos import SEED, Chaos, Stream, Work, differences, drawn_work, queue, rounds
from checker import half_started, killed, lost, moved, not_once, overcommitted
from checker_watch import Recorder

from fairlead.localcluster import Cluster, NodeShape
from live import Kubectl, Scheduler, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ROUNDS = rounds(6)
GROUPS_PER_ROUND = 35
HALF_STARTED = 30.0
"""Seconds within which a group that was half started has to be whole (design.md, 5)."""
SPACE = "chaos"


@pytest.fixture
def plane(make_cluster) -> Cluster:
    cluster = make_cluster(nodes=6, shape=NodeShape(cpu="8"))
    Kubectl(cluster, "default")("create", "namespace", SPACE)
    return cluster


@pytest.mark.timeout(120 + 60 * ROUNDS)
def test_L1_D4_own_nodes_are_never_overcommitted_and_nothing_is_lost(plane: Cluster, data: Path) -> None:
    draw = random.Random(SEED)
    works = [drawn_work(draw, i, SPACE, 4, walltime="30s") for i in range(ROUNDS * GROUPS_PER_ROUND)]
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
                    before = queue(scheduler)
                    chaos.strike()
                    told += differences(before, queue(scheduler))
            until(lambda: not lost(recorder.history, sizes), "all work to complete", 300, pause=1)
            with contextlib.suppress(AssertionError):
                until(lambda: not unended(scheduler, works), "the scheduler to know it", 60, pause=0.5)
            left = unended(scheduler, works)
            up, free = chaos.up, used(scheduler)
        finally:
            scheduler.stop()
        recorder.catch_up()
    history = recorder.history
    summary = f"seed {SEED}: {', '.join(chaos.blows)}; {len(works)} groups, {len(history)} moments"
    print(f"{summary}, {recorder.gaps} gaps, {recorder.unseen} not seen into")
    assert overcommitted(history) == [], summary
    assert moved(history) == [], summary
    assert killed(history) == [], summary
    assert not_once(history, sizes) == [], summary
    assert half_started(history, sizes, up, HALF_STARTED) == [], summary
    assert told == [], summary
    assert left == {}, summary
    assert free == {}, summary
    assert "Traceback" not in scheduler.log, summary


def unended(scheduler: Scheduler, works: list[Work]) -> dict[str, str]:
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
