"""Nodes shared with the real kube-scheduler, which binds without asking, while parts are killed at random.

Fairlead never binds where what it had learned did not fit. Where both bind within a moment, it sees that on
the watch, counts it and gives way. An independent checker judges; seeds as in test_chaos.py.
"""

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos import SEED, Chaos, Stream, Work, create, drawn_work, rounds, theirs, wait_complete
from checker import excesses, half_started, knowingly, left_over, moved
from checker_watch import Recorder

from conftest import unique_name
from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_down, bring_up
from live import DIRECT, Kubectl, Scheduler, address, job, pod, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
ROUNDS = rounds(3)
GROUPS_PER_ROUND = 40
HALF_STARTED = 30.0
STALE = 10.0
"""Seconds within which what is on the watch is surely learned, on a busy machine too."""
REST = 2.0
OURS, THEIRS, FULL = "ours", "theirs", "full"


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    """Six nodes of 8 cpu, and kube-scheduler beside Fairlead."""
    name = unique_name()
    try:
        cluster = bring_up(UpOptions(name=name, nodes=6, shape=NodeShape(cpu="8"), kube_scheduler=True))
        for space in (OURS, THEIRS, FULL):
            Kubectl(cluster, "default")("create", "namespace", space)
        yield cluster
    finally:
        bring_down(name)


def races(scheduler: Scheduler) -> float:
    """How many races it has counted since it was started."""
    found = address.read(scheduler.data)
    assert found is not None
    with DIRECT.open(f"{found.url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return sum(float(n) for n in re.findall(r"^fairlead_races_total(?:\{.*\})? (\S+)$", text, re.M))


def broken(scheduler: Scheduler, *spaces: str) -> list[str]:
    """Groups that are flagged broken, as namespace/name."""
    rows = ((space, row) for space in spaces for row in scheduler.groups(space).values())
    return [f"{space}/{row['name']}" for space, row in rows if row["broken"]]


def test_L5_D4_a_job_gives_way_and_a_bare_pod_stays_and_says_so(plane: Cluster, data: Path) -> None:
    """Somebody binds a large pod to the node that ours has just been given: each time the same."""
    kubectl = Kubectl(plane, FULL)
    with (
        Recorder(plane.state.ports.apiserver, plane.files.pki) as recorder,
        Scheduler(plane.kubeconfig, data) as scheduler,
    ):
        crowd(kubectl, recorder, job("gives-way", cpu="3", run="1h"), "gives-way")
        until(lambda: races(scheduler) >= 1, "the race to be counted")
        until(lambda: placed_again(recorder, "gives-way"), "the Job's pod to be placed anew")
        crowd(kubectl, recorder, pod("stays", cpu="6", run="1h"), "stays")
        until(lambda: broken(scheduler, FULL) == [f"{FULL}/stays"], "the bare pod's group to be flagged")
        until(lambda: races(scheduler) >= 2, "that race to be counted")
        assert races(scheduler) == 2
        recorder.catch_up()
        history = recorder.history
        kubectl("delete", "jobs,pods", "--all", "--cascade=foreground", "--timeout=100s")
    over = excesses(history)
    assert len({excess.node for excess in over}) == 2
    assert left_over(history, REST, [f"{FULL}/stays"]) == []
    gone = {m.name for m in history if m.deleting and m.scheduler == "fairlead"}
    assert len(gone) == 1 and "stays" not in gone


def crowd(kubectl: Kubectl, recorder: Recorder, ours: dict[str, Any], name: str) -> None:
    """As soon as ours is bound, a pod for all of that node is put there without asking."""
    kubectl.create(ours)
    group = f"{FULL}/{name}"
    node = until(lambda: max((m.node for m in recorder.history if m.group == group), default=""), pause=0.01)
    beside = pod(f"beside-{name}", cpu="8", run="1h", spec={"nodeName": node, "schedulerName": "nobody"})
    path = f"/api/v1/namespaces/{FULL}/pods"
    create(kubectl.cluster, path, beside)


def placed_again(recorder: Recorder, name: str) -> bool:
    """Another pod runs in place of the first, which may have been evicted before it ran: it was 30 ms old."""
    ours = [m for m in recorder.history if m.group == f"{FULL}/{name}"]
    return any(m.uid != ours[0].uid and m.phase == "Running" for m in ours)


@pytest.mark.timeout(600)
def test_L5_D4_a_race_for_the_last_places_is_counted_and_given_up(plane: Cluster, data: Path) -> None:
    """Both fill the same nodes at once with pods that stay: at rest no node holds too much."""
    with (
        Recorder(plane.state.ports.apiserver, plane.files.pki) as recorder,
        Scheduler(plane.kubeconfig, data) as scheduler,
    ):
        pods = [*both(24, "1"), *both(12, "2")]
        random.Random(SEED).shuffle(pods)
        with (
            Stream(plane, pods[::2], random.Random(SEED), 0.0),
            Stream(plane, pods[1::2], random.Random(1), 0.0),
        ):
            pass
        history = at_rest(recorder)
        counted, stay = races(scheduler), broken(scheduler, FULL)
        left = left_over(history, REST, stay)
        print(f"seed {SEED}: {len(excesses(history))} excesses, {counted:g} races counted")
        Kubectl(plane, FULL)("delete", "jobs,pods", "--all", "--cascade=foreground", "--timeout=100s")
    assert knowingly(history, "fairlead", STALE) == []
    assert moved(history) == []
    assert left == [], f"seed {SEED}: of {stay} broken"
    assert counted >= len({excess.node for excess in excesses(history)})
    assert "Traceback" not in scheduler.log


def both(number: int, cpu: str) -> list[Work]:
    """As many of ours as of theirs, together more than the nodes hold; of ours, a fourth are bare pods."""
    jobs, bare = f"/apis/batch/v1/namespaces/{FULL}/jobs", f"/api/v1/namespaces/{FULL}/pods"
    names = [f"{cpu}-{i}" for i in range(2 * number)]
    made = [Work(name, 1, jobs, [job(name, cpu=cpu, run="1h")]) for name in names]
    made[1::8] = [Work(name, 1, bare, [pod(name, cpu=cpu, run="1h")]) for name in names[1::8]]
    return [each if i % 2 else theirs(each) for i, each in enumerate(made)]


def at_rest(recorder: Recorder) -> Any:
    """The history once nothing has happened for a while."""

    def quiet() -> bool:
        recorder.catch_up()
        return time.monotonic() - recorder.history[-1].at > 2 * REST

    until(quiet, "the cluster to be at rest", 200, pause=0.5)
    return recorder.history


@pytest.mark.timeout(600 + 60 * ROUNDS)
def test_L1_L5_D4_shared_nodes_under_kills(plane: Cluster, data: Path) -> None:
    draw = random.Random(SEED)
    ours = [drawn_work(draw, i, OURS, 4, walltime="10m") for i in range(ROUNDS * GROUPS_PER_ROUND)]
    others = [theirs(drawn_work(draw, i, THEIRS, 3)) for i in range(ROUNDS * GROUPS_PER_ROUND // 2)]
    sizes = {f"{OURS}/{work.name}": work.size for work in ours}
    scheduler = Scheduler(plane.kubeconfig, data, "--policy", "easy")
    chaos = Chaos(plane, scheduler, draw)
    with Recorder(plane.state.ports.apiserver, plane.files.pki) as recorder:
        scheduler.start()
        try:
            chaos.wait_up()
            with Stream(plane, ours, draw, 0.1), Stream(plane, others, draw, 0.2):
                for _ in range(ROUNDS):
                    time.sleep(draw.uniform(0, 2))
                    chaos.strike()
            chaos.calm()
            wait_complete(recorder, scheduler, sizes | members(others))
            up, history = chaos.up, at_rest(recorder)
            left = left_over(history, REST, broken(scheduler, OURS))
        finally:
            scheduler.stop()
    over = excesses(history)
    summary = f"seed {SEED}: {', '.join(chaos.blows)}; {len(ours)} groups of ours, {len(others)} of theirs"
    print(f"{summary}, {len(over)} excesses, {recorder.gaps} gaps, {recorder.unseen} not seen into")
    assert knowingly(history, "fairlead", STALE) == [], summary
    assert left == [], summary
    assert moved(history) == [], summary
    assert half_started(history, sizes, up, HALF_STARTED) == [], summary
    assert without_a_cause(history) == [], summary
    assert "Traceback" not in scheduler.log, summary


def members(works: list[Work]) -> dict[str, int]:
    """How many pods of each name come to an end; bare ones of theirs are nobody's group."""
    return {
        f"{THEIRS}/{each['metadata']['name']}": work.size if each["kind"] == "Job" else 1
        for work in works
        for each in work.objects
    }


def without_a_cause(history: Any) -> list[str]:
    """Pods of ours that were evicted though their node had not held too much since they were bound."""
    over = excesses(history)
    found: dict[str, str] = {}
    for now in history:
        evicted = now.scheduler == "fairlead" and now.disrupted and now.node
        if evicted and not any(e.node == now.node and e.since <= now.at for e in over):
            found[now.uid] = f"{now.namespace}/{now.name} on {now.node}"
    return list(found.values())
