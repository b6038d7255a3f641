"""A scenario file played on a real cluster: the same nodes, the same submissions at the same times.

Used by `test_same_as_simulated.py`. The file is played in the simulator first, which also reads it; what it
submits there is created here as pods and Jobs that run just as long (KWOK). What comes of it is asked of the
API, as the same rows of the queue that the simulated engine gives. What a line expects is for the simulator;
`completes` is too, as here the Job controller says when a Job is complete.
"""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fairlead.core import durations
from fairlead.core.views import queue_page
from fairlead.localcluster import Cluster
from fairlead.model import quantity
from fairlead.model.pod import Amounts
from fairlead.model.settings import Settings
from fairlead.sim import scenario
from fairlead.sim.stage import Entry
from live import PATIENCE, Kubectl, Scheduler, until

RESOURCES = {"gpu": "nvidia.com/gpu"}
FOREVER = "24h"
BEGIN = "fairlead.dev/begin-time"
Rows = dict[str, dict[str, Any]]


class Decided(NamedTuple):
    """What became of one group. Times are seconds since the scenario's 00:00, None where there is none."""

    name: str
    state: str
    why: str
    nodes: tuple[str, ...]
    granted: float | None
    ended: float | None
    promised: float | None
    promised_last: float | None


def decided(rows: Rows, zero: int) -> dict[str, Decided]:
    """The decisions in rows of the queue, in the order of the starts, then of the names."""

    def since(at: int) -> float | None:
        return (at - zero) / 1000 if at else None

    found = [
        Decided(
            name, row["state"], row["text"] if row["state"] == "rejected" else row["why"],
            tuple(sorted(row["nodes"])), since(row["granted_at"]),
            None if row["state"] == "rejected" else since(row["ended_at"]),
            since(row["promised"]), since(row["promised_last"]),
        )
        for name, row in rows.items()
    ]  # fmt: skip
    found.sort(key=lambda each: (each.granted is None, each.granted or 0, each.name))
    return {each.name: each for each in found}


class Played:
    """The scenario as the simulator plays it; raises ScenarioError where that is not what the file says."""

    def __init__(self, path: Path) -> None:
        self.scenario = scenario.read(path)
        report = scenario.Report(self.scenario)
        self.stage = report.stage
        self.nodes = tuple(report.world.nodes.values())
        for step in self.scenario.steps:
            report.play(step)
        world = report.world
        page = queue_page(
            world.engine.state, world.now, ended=tuple(world.groups.values()), include_ended=True, limit=0
        )
        self.rows: Rows = {row.name: msgspec.to_builtins(row) for row in page.groups}
        self.settings: Settings = world.settings

    def decided(self) -> dict[str, Decided]:
        return decided(self.rows, self.stage.zero)

    def configuration(self) -> str:
        """The scenario's first line as a configuration file (JSON is YAML)."""
        queue = self.settings.queues[0]
        entry: dict[str, Any] = {"name": queue.name, "policy": queue.policy}
        if queue.policy == "hybrid":
            entry["reservation-depth"] = queue.depth
        for key, limit in (("default-walltime", queue.walltime), ("max-walltime", queue.longest)):
            if limit:
                entry[key] = durations.show(limit)
        return msgspec.json.encode({"match": self.settings.match, "queues": [entry]}).decode()


# -- what the simulator has, as Kubernetes objects ---------------------------------------------------


def _quantities(amounts: Amounts) -> dict[str, str]:
    return {RESOURCES.get(name, name): quantity.show(name, amount) for name, amount in amounts}


def _node(node: Any) -> dict[str, Any]:
    assert not node.taints, f"{node.name}: taints are not played"
    size = _quantities(node.allocatable)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": node.labels,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": size, "allocatable": size},
    }


def _pod(entry: Entry, number: int, later: int) -> dict[str, Any]:
    """One member, or the template of a Job's; so many seconds later than in the simulator."""
    shape, template = entry.shapes[number], entry.template
    plain = not (shape.selector or shape.tolerations or shape.unsupported or template.priority)
    assert plain and not template.gated, f"{entry.name}: only sizes and times are played on a cluster"
    asked = _quantities(tuple((name, amount) for name, amount in shape.requests if name != "pods"))
    run = durations.show(entry.run_time) if entry.run_time else FOREVER
    notes = {**template.annotations, "fairlead.dev/run-time": run}
    if begin := notes.get(BEGIN):
        notes[BEGIN] = (datetime.fromisoformat(begin) + timedelta(seconds=later)).isoformat()
    container = {"name": "main", "image": "none", "resources": {"requests": asked, "limits": asked}}
    spec: dict[str, Any] = {"schedulerName": "fairlead", "restartPolicy": "Never", "containers": [container]}
    if template.walltime:
        spec["activeDeadlineSeconds"] = template.walltime // 1000
    alone = len(entry.shapes) == 1 and not entry.labelled
    name = entry.name if alone else f"{entry.name}-{number}"
    metadata = {"name": name, "labels": template.labels, "annotations": notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _objects(entry: Entry, later: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where to post it, the object) of all that is submitted under a name."""
    if entry.owner is None:
        for number in range(len(entry.shapes)):
            yield "api/v1/{}/pods", _pod(entry, number, later)
        return
    assert entry.owner.kind == "Job" and not entry.owner.suspended, f"{entry.name}: only Jobs are played"
    template = _pod(entry, 0, later)
    del template["metadata"]["name"]
    spec: dict[str, Any] = {
        "parallelism": entry.owner.size,
        "completions": entry.owner.size,
        "template": {"metadata": template["metadata"], "spec": template["spec"]},
    }
    if entry.owner.deadline:
        spec["activeDeadlineSeconds"] = entry.owner.deadline // 1000
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": entry.name}, "spec": spec}
    yield "apis/batch/v1/{}/jobs", job


# -- playing -----------------------------------------------------------------------------------------


class Live:
    """The scenario on a cluster that has no nodes but those it brings."""

    def __init__(self, cluster: Cluster, namespace: str, played: Played) -> None:
        self.cluster, self.namespace, self.played = cluster, namespace, played
        self.kubectl = Kubectl(cluster, namespace)
        self.zero = 0

    def __enter__(self) -> "Live":
        self._create("api/v1/namespaces", {"metadata": {"name": self.namespace}})
        for node in self.played.nodes:
            self._create("api/v1/nodes", _node(node))
        return self

    def __exit__(self, *_: object) -> None:
        self.kubectl("delete", "jobs,pods", "--all", "--cascade=foreground", "--timeout=100s")
        self.kubectl("delete", "nodes", "--all")

    def play(self, scheduler: Scheduler) -> dict[str, Decided]:
        """All lines at their times, until every group is where the simulator left it."""
        until(lambda: self._ready(scheduler), "the nodes to be ready")
        steps = self.played.scenario.steps
        self.zero = (int(time.time()) + 1) * 1000  # begin times are whole seconds
        for step in steps:
            at = self.zero + step.at
            until(
                lambda at=at: time.time_ns() // 1_000_000 >= at, "a time to come", step.at + PATIENCE, 0.005
            )
            for _, action in step.actions:
                self._do(*action.split())
        wanted = {name: row["state"] for name, row in self.played.rows.items()}
        until(lambda: self._states(scheduler) == wanted, f"the groups to be {wanted}")
        return decided(scheduler.groups(self.namespace), self.zero)

    def _ready(self, scheduler: Scheduler) -> bool:
        status, page = scheduler.get("/api/v1/nodes")
        ready = [node for node in page["nodes"] if node["ready"]] if status == 200 else []
        return len(ready) == len(self.played.nodes)

    def _states(self, scheduler: Scheduler) -> dict[str, str]:
        return {name: row["state"] for name, row in scheduler.groups(self.namespace).items()}

    def _do(self, verb: str, name: str = "", *words: str) -> None:
        if verb == "submit":
            for path, manifest in self._objects(name):
                self._create(path.format(f"namespaces/{self.namespace}"), manifest)
        elif verb == "burst":
            for number in range(int(words[0])):
                self._do("submit", f"{name}{number}")
        elif verb == "delete":
            for path, manifest in self._objects(name):
                place = path.format(f"namespaces/{self.namespace}")
                answer = self.cluster.client.request("DELETE", f"/{place}/{manifest['metadata']['name']}")
                assert answer.ok, answer.reason()
        else:
            assert verb in ("later", "completes"), f"{verb} is not played on a cluster"

    def _objects(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        later = self.zero // 1000 - self.played.stage.zero // 1000
        return _objects(self.played.stage.entries[name], later)

    def _create(self, path: str, manifest: dict[str, Any]) -> None:
        answer = self.cluster.client.post(f"/{path}", manifest)
        assert answer.ok, answer.reason()
