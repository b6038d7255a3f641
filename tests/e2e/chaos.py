"""Blows against a running control plane and scheduler, and the work that has to survive them.

`Chaos` kills drawn parts with SIGKILL at drawn moments and starts them again in a drawn order; `Stream` is
the work, created whether the API server listens or not. One seed draws all of it. Processes are known by
their ids, and they are the test's own: a cluster and a data folder made for it.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import psycopg
from checker import Interval, lost, unended
from checker_watch import Recorder

from fairlead.localcluster import Cluster
from fairlead.store.embedded import running_postmaster
from live import FAIRLEAD, Scheduler, job, pod, until

Object = dict[str, Any]
PARTS = ("scheduler", "database", "kube-apiserver")
BLOWS = ((PARTS[0],), (PARTS[0],), (PARTS[1],), (PARTS[2],), PARTS[:2], PARTS[1:], PARTS[::2], PARTS)
SEED = int(os.environ.get("FAIRLEAD_CHAOS_SEED") or 6)
"""What is submitted and killed, in which order; tests print it. The moments still differ from run to run."""


def rounds(usual: int) -> int:
    """How many blows: `usual`, unless $FAIRLEAD_CHAOS_ROUNDS says more."""
    return int(os.environ.get("FAIRLEAD_CHAOS_ROUNDS") or usual)


# -- the work ------------------------------------------------------------------------------------------


class Work(NamedTuple):
    """One group: its name, how many members, its objects, and where they are posted."""

    name: str
    size: int
    path: str
    objects: list[Object]


def drawn_work(draw: random.Random, number: int, space: str, most_cpu: int, walltime: str = "") -> Work:
    """A Job or bare pods, a gang of 2 to 6 or a single one, that runs for a second or less."""
    size = draw.choice((1, 1, draw.randint(2, 6)))
    more: Object = {"cpu": str(draw.randint(1, most_cpu)), "run": f"{draw.randint(1, 10) * 100}ms"}
    more["annotations"] = {"fairlead.dev/duration": walltime} if walltime else {}
    name = f"g{number:04}"
    if draw.random() < 0.6:
        path = f"/apis/batch/v1/namespaces/{space}/jobs"
        return Work(name, size, path, [job(name, pods=size, **more)])
    path = f"/api/v1/namespaces/{space}/pods"
    if size == 1:
        return Work(name, 1, path, [pod(name, **more)])
    labels = {"fairlead.dev/group": name, "fairlead.dev/group-size": str(size)}
    return Work(name, size, path, [pod(f"{name}-{i}", labels=labels, **more) for i in range(size)])


def theirs(work: Work) -> Work:
    """The same for the cluster's other scheduler: it places pod by pod."""
    for each in work.objects:
        spec = each["spec"]["template"]["spec"] if each["kind"] == "Job" else each["spec"]
        spec["schedulerName"] = "default-scheduler"
        each["metadata"].pop("labels", None)
    return work


class Stream:
    """Creates groups one after the other in a thread; what cannot be created now is tried until it is."""

    def __init__(self, cluster: Cluster, works: Iterable[Work], draw: random.Random, pause: float) -> None:
        self._cluster, self._works, self._pause = cluster, list(works), pause
        self._pauses = [draw.uniform(0, 2 * pause) for _ in self._works]
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="stream", daemon=True)

    def __enter__(self) -> "Stream":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.join()

    def join(self) -> None:
        self._thread.join(600)
        assert not self._thread.is_alive(), "the stream of work did not come to its end"
        assert self.error is None, self.error

    def _run(self) -> None:
        try:
            for work, pause in zip(self._works, self._pauses, strict=True):
                for each in work.objects:
                    create(self._cluster, work.path, each)
                time.sleep(pause)
        except BaseException as error:
            self.error = error


def create(cluster: Cluster, path: str, thing: Object, patience: float = 300.0) -> None:
    """Post it until the server says that it is there; a post whose answer was lost may have arrived."""

    def posted() -> bool:
        answer = cluster.client.post(path, thing)
        sure = answer.status in (201, 409)
        assert sure or answer.status in (0, 429) or answer.status >= 500, answer.reason()
        return sure

    until(posted, f"{path} to take {thing['metadata']['name']}", patience, pause=0.05)


# -- the blows -----------------------------------------------------------------------------------------


class Chaos:
    """Kills and restarts; keeps when everything was up."""

    def __init__(self, cluster: Cluster, scheduler: Scheduler, draw: random.Random) -> None:
        self.cluster, self.scheduler, self._draw = cluster, scheduler, draw
        self.blows: list[str] = []
        self._up: list[Interval] = []
        self._since = time.monotonic()
        self._kubelet_waits = False

    @property
    def up(self) -> list[Interval]:
        """From when to when all parts were up, the present included."""
        return [*self._up, (self._since, time.monotonic())]

    def strike(self, *parts: str) -> None:
        """One blow: these, or drawn parts, die within a moment and come back in any order."""
        draw = self._draw
        parts = parts or draw.choice(BLOWS)
        victims = draw.sample(parts, len(parts))
        self.blows.append("+".join(victims))
        self._up.append((self._since, time.monotonic()))
        for part in victims:
            self._kill(part)
            time.sleep(draw.choice((0.0, draw.uniform(0, 0.5))))
        time.sleep(draw.uniform(0, 1.5))
        for part in draw.sample(victims, len(victims)):
            self._restart(part)
            time.sleep(draw.uniform(0, 1.0))
        self.wait_up()

    def wait_up(self) -> None:
        """Until API server, store and scheduler say that they are; a scheduler that gave up is started again,
        as whatever keeps it in a cluster would do."""

        starts = iter(range(5))

        def ready() -> bool:
            if not self.scheduler.running:
                assert next(starts, None) is not None, "the scheduler ends again and again"
                self.scheduler.start()
            return self.scheduler.get("/readyz")[0] == 200

        until(lambda: self.cluster.healthy("kube-apiserver"), "the API server to be ready", 120)
        self._wake_kubelet()
        try:
            until(ready, f"the scheduler to be ready after {self.blows[-1:]}", 180)
        except AssertionError as error:
            said = f"{self.scheduler.get('/readyz')}\n{self.scheduler.log[-6000:]}"
            raise AssertionError(f"{error}: {said}") from error
        self._since = time.monotonic()

    def _wake_kubelet(self) -> None:
        """The fake kubelet begins anew after the API server: by itself it would try again later and later,
        and pods would run for a minute or more. Not before: one that finds no server for 15 s gives up."""
        if self._kubelet_waits:
            self.cluster.stop("kwok")
            self.cluster.start("kwok")
        self._kubelet_waits = False

    def calm(self) -> None:
        """After the last blow the controller manager begins anew: for pods that it asked of a server which
        died before it answered it would wait five minutes, and so would their Jobs."""
        self.cluster.kill("kube-controller-manager")
        self.cluster.start("kube-controller-manager")

    def _kill(self, part: str) -> None:
        if part == "scheduler":
            self.scheduler.kill()
        elif part == "database":
            postmaster = running_postmaster(self.scheduler.data)
            if postmaster is not None:  # the scheduler may be starting it at this moment
                with contextlib.suppress(ProcessLookupError):
                    os.kill(postmaster, signal.SIGKILL)
        else:
            self.cluster.kill(part)

    def _restart(self, part: str) -> None:
        """The database is the scheduler's own: it starts it again."""
        if part == "scheduler":
            self.scheduler.start()
        elif part != "database":
            self.cluster.launch(part)
            self._kubelet_waits = True


def wait_complete(
    recorder: Recorder, scheduler: Scheduler, sizes: dict[str, int], patience: float = 300.0
) -> None:
    """Until as many pods of each group (namespace/name) as it has members have come to a good end, and no pod
    is on its way to one: a controller that was cut off may have made more."""

    def over() -> bool:
        history = recorder.history
        return not lost(history, sizes) and not unended(history, sizes)

    try:
        until(over, "all work to complete", patience, pause=0.5)
    except AssertionError as error:
        left = [*lost(recorder.history, sizes), *unended(recorder.history, sizes)]
        rows = {space: scheduler.groups(space) for space in {group.split("/")[0] for group in left}}
        told = [rows[space].get(name) for space, name in (each.split(":")[0].split("/") for each in left)]
        raise AssertionError(f"{error}: {left}, {told}\n{scheduler.log[-4000:]}") from error


# -- what must be the same afterwards --------------------------------------------------------------------


def queue(scheduler: Scheduler) -> Object:
    """What `fairlead queue -o json` prints, ended groups left out."""
    command = [FAIRLEAD, "queue", "--limit", "0", "-o", "json", "--data-dir", str(scheduler.data)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def kept(scheduler: Scheduler, namespace: str) -> set[str]:
    """Groups that the store has by now, once it answers: it may be about to be killed again."""

    def look() -> list[set[str]]:
        with contextlib.suppress(psycopg.OperationalError):
            return [{*scheduler.kept(namespace)}]
        return []

    (found,) = until(look, "the store to answer")
    return found


def differences(before: Object, after: Object, known: Collection[str]) -> list[str]:
    """First sights and places in the queue that are not the same in two looks with a restart between them.

    `known`: groups that the store had before the restart; they are written behind.
    """
    old = {row["id"]: row for row in before["groups"] if row["first_seen"] and row["name"] in known}
    new = {row["id"]: row for row in after["groups"]}
    both = [name for name in old if name in new]
    found = [
        f"{name}: first seen at {old[name]['first_seen']}, now at {new[name]['first_seen']}"
        for name in both
        if new[name]["first_seen"] != old[name]["first_seen"]
    ]
    wait = [name for name in both if old[name]["position"] and new[name]["position"]]
    ranks = [sorted(wait, key=lambda name, rows=rows: rows[name]["position"]) for rows in (old, new)]
    if ranks[0] != ranks[1]:
        found.append(f"the order was {ranks[0]}, now it is {ranks[1]}")
    return found


def broken_promises(before: Object, after: Object) -> list[str]:
    """Who was promised a start and has none now, or a later one, though all that runs went on as it did."""
    new = {row["id"]: row["estimate"] for row in after["groups"]}
    return [
        f"{row['name']}: promised {row['estimate']}, now {new.get(row['id'], 0)}"
        for row in before["groups"]
        if row["estimate"] and not 0 < new.get(row["id"], 0) <= row["estimate"]
    ]
