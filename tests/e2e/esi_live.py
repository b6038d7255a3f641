"""What end-to-end tests of external schedulers share: members of a Testbed, ESI's objects, their states."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed import control_plane

from fairlead.localcluster import Cluster
from live import Kubectl, until

Object = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
LABEL = "tuberlin.de/scheduler-slots"
SLOT = {"cpu": "600m", "memory": "1.75Gi"}
NODES = ("m0", "m1")
"""Nodes of two slots each."""


def node(name: str, labels: dict[str, str]) -> Object:
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "30"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": status,
    }


@contextlib.contextmanager
def plane_with(folder: Path, *crds: Path, kube_scheduler: bool = False) -> Iterator[Cluster]:
    """Two members of a Testbed, one node for drivers; CRDs of ESI and these; the priority of executors."""
    file = folder / "nodes.json"
    nodes = [*(node(name, {LABEL: str(n)}) for n, name in enumerate(NODES)), node("other", {})]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}), encoding="utf-8")
    with control_plane(node_file=str(file), kube_scheduler=kube_scheduler) as cluster:
        kubectl = Kubectl(cluster, "default")
        files = [*crds, *(ROOT / "deploy" / "crds").glob("*.yaml")]
        kubectl("create", *[f"--filename={path}" for path in files])
        until(lambda: len(_served(kubectl)) == len(files), "all kinds to be served")
        level = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
        kubectl.create({**level, "metadata": {"name": "high-priority"}})
        yield cluster


def _served(kubectl: Kubectl) -> list[str]:
    """Kinds of CRDs that can be asked for by now."""
    own = {each["spec"]["names"]["kind"] for each in kubectl.get("crds")}
    return [line for line in kubectl("api-resources", "--no-headers").splitlines() if line.split()[-1] in own]


def namespace_of(plane: Cluster, test: str) -> Kubectl:
    """A namespace of the test's own."""
    name = test.lower().replace("_", "-")[:60].rstrip("-")
    Kubectl(plane, "default")("create", "namespace", name)
    return Kubectl(plane, name)


def _object(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": "esi.tu-berlin.de/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def batch_job(name: str, **spec: Any) -> Object:
    return _object("BatchJob", name, spec)


def members(name: str) -> Object:
    """A Testbed of both nodes."""
    spec = {"nodeLabel": LABEL, "slotsPerNode": 2, "resourcesPerSlot": SLOT}
    return _object("Testbed", name, spec)


def scheduling(kubectl: Kubectl, name: str, testbed: str, *jobs: str) -> Object:
    """A queue."""
    of = {"namespace": kubectl.namespace}
    queue = [{**of, "name": job} for job in jobs]
    return _object("Scheduling", name, {"testbed": {**of, "name": testbed}, "queueBased": queue})


def wait_state(kubectl: Kubectl, kind: str, name: str, state: str) -> Object:
    """Its status once it is in this state."""
    seen: Object = {}

    def there() -> bool:
        seen.update(kubectl.get(kind, name)[0].get("status", {}))
        return seen.get("state") == state

    try:
        until(there, f"{kind} {name} to be {state}", pause=0.2)
    except AssertionError as error:
        raise AssertionError(f"{error}; it is {json.dumps(seen)[:2000]}") from None
    return seen


def pods_of(kubectl: Kubectl, selector: str, number: int = 2) -> list[Object]:
    """These pods, once there are so many."""

    def there() -> list[Object] | None:
        found = kubectl.get("pods", f"-l{selector}")
        return found if len(found) == number else None

    return until(there, f"{number} pods of {selector}", pause=0.2)


def slots_of(pods: list[Object]) -> list[str]:
    """Where bound pods are, each on the node of its slot."""
    for pod in pods:
        assert pod["metadata"]["annotations"]["fairlead.dev/slot"].split("/")[0] == pod["spec"]["nodeName"]
    return sorted(pod["metadata"]["annotations"]["fairlead.dev/slot"] for pod in pods)
