"""A node agent for tests: it plays kubelet for nodes of its own, and refuses pods as a kubelet does.

KWOK's nodes take every pod that is bound to them. These admit pods in the order in which they arrive, by what
the node has and what runs there already; what does not fit is Failed with reason OutOfcpu, and stays so. The
cluster's KWOK must be stopped: it would start the pods too.
"""

import contextlib
import heapq
import http.client
import json
import re
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, NamedTuple

from checker import effective, quantity
from checker_watch import Api

from fairlead.localcluster import Cluster

Object = dict[str, Any]
ENDED = ("Succeeded", "Failed")
RUN_TIME = "fairlead.dev/run-time"
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class Tenant(NamedTuple):
    """A pod that was admitted: where, and what it takes."""

    node: str
    amounts: Mapping[str, Fraction]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def seconds(text: str) -> float | None:
    """How long "1.5s" or "1m30s" is; None for a pod that runs for ever."""
    parts = re.findall(r"([0-9.]+)(ms|s|m|h)", text)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts) if parts else None


class Agent:
    """Nodes (name -> cpu) and the threads that run pods on them; `refused` has the names of refused pods."""

    def __init__(self, cluster: Cluster, nodes: Mapping[str, str]) -> None:
        self.cluster = cluster
        self.refused: list[str] = []
        self._nodes = {name: {"cpu": cpu, "memory": "64Gi", "pods": "110"} for name, cpu in nodes.items()}
        self._api = Api(cluster.state.ports.apiserver, cluster.files.pki)
        self._tenants: dict[str, Tenant] = {}
        self._met: set[str] = set()
        self._lock = threading.Lock()
        self._ends: list[tuple[float, str, Object]] = []
        self._stopped = threading.Event()
        threads = (self._watch_all, self._end_all)
        self._threads = [threading.Thread(target=each, name=each.__name__, daemon=True) for each in threads]

    def __enter__(self) -> "Agent":
        for name, amounts in self._nodes.items():
            self._join(name, amounts)
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join(30)

    def occupy(self, node: str, cpu: str) -> None:
        """Something runs there that the API server does not show, as a pod does whose end hangs."""
        with self._lock:
            self._tenants[f"hidden on {node}"] = Tenant(node, {"cpu": quantity(cpu)})

    def vacate(self, node: str) -> None:
        """What was hidden there has ended."""
        with self._lock:
            self._tenants.pop(f"hidden on {node}", None)

    # -- nodes -------------------------------------------------------------------------------------------

    def _join(self, name: str, amounts: Mapping[str, str]) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "test node agent",
                 "lastHeartbeatTime": _now(), "lastTransitionTime": _now()}  # fmt: skip
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        labels = {"kubernetes.io/hostname": name}
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        answer = self.cluster.client.post("/api/v1/nodes", {**manifest, "status": status})
        assert answer.ok, answer.reason()

    # -- pods --------------------------------------------------------------------------------------------

    def _watch_all(self) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                self._watch()
            self._stopped.wait(0.1)

    def _watch(self) -> None:
        version, pods = self._api.list("/api/v1/pods")
        for pod in sorted(pods, key=lambda each: int(each["metadata"]["resourceVersion"])):
            self._see("ADDED", pod)
        answer, held = self._api.open(f"/api/v1/pods?watch=1&resourceVersion={version}", 5)
        with contextlib.closing(held):
            while not self._stopped.is_set() and (line := answer.readline()):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                self._see(event["type"], event["object"])

    def _see(self, kind: str, pod: Object) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        if node not in self._nodes:
            return
        if kind == "DELETED" or pod["status"].get("phase") in ENDED:
            with self._lock:
                self._tenants.pop(uid, None)
            if kind == "DELETED" or "deletionTimestamp" not in pod["metadata"]:
                return
        if "deletionTimestamp" in pod["metadata"]:
            self._remove(pod)
        elif uid not in self._met:  # once: what is told of it may be older than its end
            self._met.add(uid)
            self._admit(pod, node)

    def _admit(self, pod: Object, node: str) -> None:
        wanted = effective(pod["spec"])
        with self._lock:
            short = self._short(node, wanted)
            if short is None:
                self._tenants[pod["metadata"]["uid"]] = Tenant(node, wanted)
        if short is not None:
            self.refused.append(pod["metadata"]["name"])
            self._report(pod, {"phase": "Failed", "reason": f"OutOf{short[0]}", "message": short[1]})
            return
        condition = {"type": "Ready", "status": "True", "lastTransitionTime": _now()}
        self._report(pod, {"phase": "Running", "startTime": _now(), "conditions": [condition]})
        length = seconds((pod["metadata"].get("annotations") or {}).get(RUN_TIME, ""))
        if length is not None:
            with self._lock:
                heapq.heappush(self._ends, (time.monotonic() + length, pod["metadata"]["uid"], pod))

    def _short(self, node: str, wanted: Mapping[str, Fraction]) -> tuple[str, str] | None:
        """The first resource that does not suffice and the kubelet's words for it; None if all do."""
        for name, want in wanted.items():
            here = (each.amounts for each in self._tenants.values() if each.node == node)
            used = sum((each.get(name, Fraction(0)) for each in here), Fraction(0))
            have = quantity(self._nodes[node].get(name, "0"))
            if used + want > have:
                told = f"requested: {float(want):g}, used: {float(used):g}, capacity: {float(have):g}"
                return name, f"Node didn't have enough resource: {name}, {told}"
        return None

    def _end_all(self) -> None:
        while not self._stopped.wait(0.02):
            due: list[Object] = []
            with self._lock:
                while self._ends and self._ends[0][0] <= time.monotonic():
                    _, uid, pod = heapq.heappop(self._ends)
                    if self._tenants.pop(uid, None) is not None:
                        due.append(pod)
            for pod in due:
                self._report(pod, {"phase": "Succeeded"})

    def _report(self, pod: Object, status: Object) -> None:
        """Patch the status of this very pod; one that has gone needs none."""
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        path, content = f"{_path(pod)}/status", "application/strategic-merge-patch+json"
        for _ in range(50):
            answer = self.cluster.client.request("PATCH", path, body, content)
            if answer.ok or answer.status in (404, 409):
                return
            time.sleep(0.2)

    def _remove(self, pod: Object) -> None:
        with self._lock:
            self._tenants.pop(pod["metadata"]["uid"], None)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self.cluster.client.request("DELETE", _path(pod), options)
