"""A bad line to the API server, an API server and an etcd that die or come back from a backup, a full disk:
every gang runs exactly once, and in the end the scheduler's picture is the cluster's.

Where the trouble is comes from drawn moments, the same ones in each run; no hook in the product says when.
"""

import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from line import Line

from fairlead.localcluster import Cluster
from fairlead.model import quantity
from live import (
    Kubectl,
    Scheduler,
    Sight,
    Witness,
    assert_never_over,
    assert_one_node_each,
    end_database,
    job,
    succeeded,
    until,
)

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
CPU = 8000
GANGS = 16


def gangs(seed: int, number: int = GANGS) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        job(f"gang-{i:02}", draw.randint(2, 5), str(draw.randint(2, 4)), f"{draw.randint(2, 12) * 100}ms")
        for i in range(number)
    ]


class Submitter(threading.Thread):
    """Creates the Jobs one by one, past the bad line, again where the API server is away."""

    def __init__(self, kubectl: Kubectl, jobs: list[dict[str, Any]], pause: float = 0.4) -> None:
        super().__init__(name="submitter", daemon=True)
        self._kubectl, self._jobs, self._pause = kubectl, jobs, pause

    def run(self) -> None:
        path = f"/apis/batch/v1/namespaces/{self._kubectl.namespace}/jobs"
        for each in self._jobs:
            until(lambda each=each: self._create(path, each), f"{each['metadata']['name']} to be created")
            time.sleep(self._pause)

    def _create(self, path: str, each: dict[str, Any]) -> bool:
        try:
            return self._kubectl.cluster.client.post(path, each).status in (201, 409)
        except OSError:
            return False


def picture(scheduler: Scheduler) -> dict[str, tuple[int, int]]:
    """(cpu in milli, pods) in use on each node, as the scheduler sees it."""
    _, page = scheduler.get("/api/v1/nodes")
    used = {}
    for row in (page or {"nodes": []})["nodes"]:
        if row["present"]:
            cpu = next(each for each in row["resources"] if each["name"] == "cpu")
            used[row["name"]] = (cpu["capacity"] - cpu["free"], row["pods"])
    return used


def truth(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """The same, as the API server says."""
    used = {node["metadata"]["name"]: [0, 0] for node in cluster.client.get("/api/v1/nodes").json()["items"]}
    for pod in cluster.client.get("/api/v1/pods").json()["items"]:
        node = pod["spec"].get("nodeName")
        if node in used and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            wanted = (
                c.get("resources", {}).get("requests", {}).get("cpu", "0") for c in pod["spec"]["containers"]
            )
            used[node][0] += sum(quantity.milli(each) for each in wanted)
            used[node][1] += 1
    return {name: (cpu, pods) for name, (cpu, pods) in used.items()}


def same_picture(scheduler: Scheduler, cluster: Cluster) -> None:
    until(lambda: picture(scheduler) == truth(cluster), "the scheduler's picture to be the cluster's")


def exactly_once(kubectl: Kubectl, witness: Witness, jobs: list[dict[str, Any]]) -> None:
    """As many pods as members, all bound, none twice, no node ever over."""
    sizes = {each["metadata"]["name"]: each["spec"]["parallelism"] for each in jobs}
    extra = surplus(witness.of(kubectl.namespace), sizes)
    pods = {group: len(set(uids) - extra) for group, uids in witness.pods(kubectl.namespace).items()}
    assert pods == sizes
    binds = witness.binds(kubectl.namespace)
    assert Counter(sight.group for sight in binds if sight.uid not in extra) == sizes
    assert_one_node_each(witness.sights)
    assert_never_over(witness.sights, CPU)


def surplus(sights: list[Sight], sizes: dict[str, int]) -> set[str]:
    """Pods that went while the group had all its members without them: a Job's controller that is not told of
    a pod it has made makes another, and takes one of them away again."""
    there: dict[str, set[str]] = defaultdict(set)
    found: set[str] = set()
    for sight in sorted(sights, key=lambda each: each.version):
        others = there[sight.group]
        if sight.kind != "DELETED" and not sight.leaving:
            others.add(sight.uid)
            continue
        others.discard(sight.uid)
        if len(others) >= sizes[sight.group]:
            found.add(sight.uid)
    return found


def run_through(
    kubectl: Kubectl, data: Path, kubeconfig: Path, trouble: Callable[[threading.Thread], None], seed: int
) -> None:
    """Gangs are submitted while there is trouble; when it is over all of them have run once."""
    jobs, cluster = gangs(seed), kubectl.cluster
    names = [each["metadata"]["name"] for each in jobs]
    with Witness(cluster) as witness, Scheduler(kubeconfig, data) as scheduler:
        pid = scheduler.pid
        submitting = Submitter(kubectl, jobs)
        submitting.start()
        trouble(submitting)
        submitting.join(120)
        # KWOK says once that a pod has ended. Where an API server that dies does not keep it, the pod runs
        # for ever; and for pods that it asked of a server which died before it answered, the Job controller
        # waits for five minutes. New ones look at everything, as a kubelet does.
        struck(cluster, "kwok", "kube-controller-manager")

        def complete() -> bool:
            return back(cluster) and succeeded(kubectl, *names)

        try:
            until(complete, "all gangs to complete", patience=300, pause=0.5)
        except AssertionError as error:
            pods = [
                (p["metadata"]["name"], p["spec"].get("nodeName"), p["status"]) for p in kubectl.get("pods")
            ]
            rows = {name: row["state"] for name, row in scheduler.groups(kubectl.namespace).items()}
            raise AssertionError(f"{error}: {rows} {pods} {scheduler.log[-3000:]}") from None
        rows = until(lambda: ended(scheduler, kubectl.namespace, names), "all to be known as completed")
        assert set(rows.values()) == {"completed"}
        same_picture(scheduler, cluster)
        assert scheduler.pid == pid and scheduler.running and "Traceback" not in scheduler.log
        until(lambda: len(witness.binds(kubectl.namespace)) >= sum(e["spec"]["parallelism"] for e in jobs))
    exactly_once(kubectl, witness, jobs)


def struck(cluster: Cluster, *parts: str) -> None:
    """Killed, unless it has ended of the last blow."""
    for each in parts:
        if cluster.alive(each):
            cluster.kill(each)


def back(cluster: Cluster) -> bool:
    """Whether the API server answers. What has ended is started again, as a kubelet would: one may end long
    after what it could not bear."""
    for each in cluster.components:
        cluster.launch(each)
    return cluster.healthy("kube-apiserver")


def ended(scheduler: Scheduler, namespace: str, names: list[str]) -> dict[str, str] | None:
    rows = scheduler.groups(namespace)
    found = {name: rows[name]["state"] for name in names if name in rows and rows[name]["ended_at"]}
    return found if len(found) == len(names) else None


# -- a bad line --------------------------------------------------------------------------------------


def flapping(line: Line, draw: random.Random, submitting: threading.Thread) -> None:
    while submitting.is_alive():
        time.sleep(draw.uniform(0.2, 2.0))
        line.cut()


def trickling(line: Line, _: random.Random, submitting: threading.Thread) -> None:
    line.trickle = 200
    submitting.join(120)
    line.trickle = 0


def late(line: Line, _: random.Random, submitting: threading.Thread) -> None:
    line.delay = 0.15
    submitting.join(120)
    line.delay = 0.0


def freezing(line: Line, draw: random.Random, submitting: threading.Thread) -> None:
    while submitting.is_alive():
        time.sleep(draw.uniform(0.2, 1.0))
        line.freeze(True)
        time.sleep(draw.uniform(0.5, 2.0))
        line.freeze(False)


def half_open(line: Line, draw: random.Random, submitting: threading.Thread) -> None:
    """The connections of one moment never pass a byte again, and never end; new ones are well."""
    time.sleep(draw.uniform(1.0, 2.0))
    line.freeze(True, new_ones=False)
    submitting.join(120)


def all_of_it(line: Line, draw: random.Random, submitting: threading.Thread) -> None:
    while submitting.is_alive():
        line.delay, line.trickle = draw.choice([(0.0, 0), (0.05, 0), (0.0, 500)])
        time.sleep(draw.uniform(0.2, 1.0))
        line.cut() if draw.random() < 0.5 else line.freeze(draw.random() < 0.5, new_ones=False)
    line.delay, line.trickle = 0.0, 0
    line.freeze(False)


@pytest.mark.parametrize("trouble", [flapping, trickling, late, freezing, half_open, all_of_it])
@pytest.mark.timeout(420)
def test_L3_on_a_bad_line_nothing_is_lost_and_nothing_done_twice(
    trouble: Any, small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    draw = random.Random(7)
    with Line.to(small_cluster.state.ports.apiserver) as line:
        data.mkdir(mode=0o711)
        kubeconfig = line.kubeconfig(small_cluster, data.parent)
        run_through(kubectl, data, kubeconfig, lambda thread: trouble(line, draw, thread), 7)
        assert line.opened > 1


# -- the API server and etcd -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "victims", [("kube-apiserver",), ("etcd",), ("etcd", "kube-apiserver")], ids="+".join
)
@pytest.mark.timeout(420)
def test_L3_killed_and_started_again_in_the_middle(
    victims: tuple[str, ...], small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    draw = random.Random(11)

    def trouble(_: threading.Thread) -> None:
        for _round in range(2):
            time.sleep(draw.uniform(1.0, 2.5))
            struck(small_cluster, *victims)
            time.sleep(draw.uniform(0.0, 1.0))
            until(lambda: back(small_cluster), "the API server to be back")

    run_through(kubectl, data, small_cluster.kubeconfig, trouble, 11)


@pytest.mark.timeout(420)
def test_L3_an_etcd_restored_from_a_backup_is_learned_anew(
    make_cluster: Callable[..., Cluster], data: Path
) -> None:
    """Its versions go back below those that the scheduler knows: what was made since the backup is gone, what
    was deleted since is there again, and what happens from then on is heard."""
    cluster = make_cluster(nodes=4)
    kubectl = Kubectl(cluster, "default")
    etcd, backup = cluster.files.etcd_data, data.parent / "backup"

    def stopped(work: Callable[[], object]) -> None:
        others = ("kwok", "kube-controller-manager", "kube-apiserver", "etcd")
        for each in others:
            cluster.stop(each)
        work()
        for each in reversed(others):
            cluster.start(each)

    kubectl.create(job("old", pods=4, cpu="2", run="1h"))
    with Scheduler(cluster.kubeconfig, data) as scheduler:
        scheduler.wait_state("default", "old", "running")
        stopped(lambda: shutil.copytree(etcd, backup))
        until(lambda: picture(scheduler) == truth(cluster), "to be caught up")
        kubectl("delete", "job", "old", "--cascade=foreground", "--timeout=100s")
        for number in range(20):
            kubectl.create(job(f"new-{number}", pods=4, cpu="1", run="1h"))
        scheduler.wait_state("default", "new-19", "running")
        same_picture(scheduler, cluster)

        def restore() -> None:
            shutil.rmtree(etcd)
            shutil.copytree(backup, etcd)

        stopped(restore)
        names = {
            each["metadata"]["name"] for each in cluster.client.get("/apis/batch/v1/jobs").json()["items"]
        }
        assert names == {"old"}
        same_picture(scheduler, cluster)
        assert "versions went back" in scheduler.log
        kubectl.create(job("after", pods=4, cpu="2", run="500ms"))
        scheduler.wait_state("default", "after", "completed")
        same_picture(scheduler, cluster)
        assert scheduler.running and "Traceback" not in scheduler.log


# -- a full disk -------------------------------------------------------------------------------------


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A data folder on a file system of 128 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    top = Path(tempfile.mkdtemp(prefix="fairlead-e2e-"))
    top.chmod(0o711)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128m,mode=0711", "tmpfs", str(top)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        top.rmdir()
        pytest.skip(f"mount is not permitted here: {mounted.stderr.strip()}")
    try:
        yield top
    finally:
        end_database(top / "data")
        subprocess.run(["umount", "-l", str(top)], check=True)
        top.rmdir()


def fill(disk: Path, leave: int = 0) -> Path:
    """Take all the room, or all but so many bytes."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for piece in (1 << 16, 1 << 10):
            while shutil.disk_usage(disk).free > leave:
                try:
                    file.write(bytes(piece))
                except OSError:
                    break
    return ballast


def not_ready(scheduler: Scheduler) -> list[str] | None:
    status, page = scheduler.get("/readyz")
    return page["reasons"] if status == 503 else None


@pytest.mark.timeout(300)
def test_F5_on_a_full_disk_the_scheduler_stays_up_places_nothing_and_goes_on_by_itself(
    small_cluster: Cluster, kubectl: Kubectl, small_disk: Path
) -> None:
    ballast = fill(small_disk, leave=1 << 20)
    scheduler = Scheduler(small_cluster.kubeconfig, small_disk / "data")
    scheduler.start()
    try:
        until(
            lambda: any("No space left" in each for each in not_ready(scheduler) or ()), "/readyz to say why"
        )
        kubectl.create(job("first", pods=2, run="200ms"))
        until(lambda: len(kubectl.get("pods")) == 2, "the pods of the Job")
        until(lambda: picture(scheduler), "the watch to go on all the while")
        assert scheduler.get("/healthz")[0] == 200 and not_ready(scheduler)
        assert all("nodeName" not in each["spec"] for each in kubectl.get("pods"))
        ballast.unlink()
        scheduler.wait_ready()
        scheduler.wait_state(kubectl.namespace, "first", "completed")
        # And in the middle: whatever is written next does not fit.
        names = [f"later-{number}" for number in range(40)]
        ballast = fill(small_disk)
        kubectl.create(*(job(name, pods=2, run="100ms") for name in names))
        # Whatever the database gives back meanwhile is taken, too.
        until(lambda: fill(small_disk) and not_ready(scheduler), "the disk to be full")
        assert scheduler.get("/healthz")[0] == 200
        ballast.unlink()
        scheduler.wait_ready()
        for name in names:
            scheduler.wait_state(kubectl.namespace, name, "completed")
        assert scheduler.running and "Traceback" not in scheduler.log
    finally:
        scheduler.stop()
