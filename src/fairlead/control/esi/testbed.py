"""What users see of a Testbed, and its ghost pods.

Called by `control.esi.drive`. Level-triggered and without states of its own: all comes from the slots that
`core.esi.slots` keeps.

    RUNNING      a slot is occupied
    IN_PROGRESS  none is, one is reserved
    ERROR        neither, and something is wrong: with the spec, a node, or a ghost pod that cannot be made
    SUCCESS      none of these; also without nodes

With `holdCapacity: pods` a free slot has a ghost pod, so that schedulers that do not ask Fairlead see it as
taken. Ghosts that are in the way of nobody stay; who starts a pod in a slot deletes its ghost
(`control.esi.placing`). Must never delete a pod that is not a ghost of that very Testbed.
"""

from hashlib import sha256
from typing import Any

from fairlead.control.esi.terms import Round, no_class
from fairlead.control.esi.writing import asks, create, delete, forget
from fairlead.core.esi.feed import is_ghost
from fairlead.core.esi.numbering import read
from fairlead.core.esi.table import Slot, SlotTable
from fairlead.core.refs import of_pod
from fairlead.model.command import ObjectRef
from fairlead.model.esi import (
    GHOST_LABEL,
    GHOST_PRIORITY,
    GROUP,
    ID_LABEL,
    LONGEST_LABEL,
    NODE_LABEL,
    PREFIX,
    SLOT,
    TESTBED_LABEL,
    VERSION,
    HoldCapacity,
    SlotState,
    SlotStatus,
    Testbed,
    TestbedState,
    TestbedStatus,
)
from fairlead.model.pod import Pod
from fairlead.model.quantity import show

OBSERVED = f"{PREFIX}slots-latest-observed-resource-version"
"""Annotation of ghost pods: the Testbed's generation that they were made for (ESI's key)."""
_LONGEST_NAME = 253
IMAGE = "registry.k8s.io/pause:3.10"


def move(round: Round) -> None:
    """Let every Testbed say how its slots are, and have the ghost pods that it wants."""
    round.each([each for each in round.esi.testbeds.values() if not each.deleting], _move)


def _move(round: Round, testbed: Testbed) -> None:
    table = round.esi.tables.get(testbed.uid)
    _ghosts(round, testbed, table)
    round.set(testbed.uid, status_of(round, testbed, table))


def status_of(round: Round, testbed: Testbed, table: SlotTable | None) -> TestbedStatus:
    """How it is now."""
    slots = list(table.slots.values()) if table is not None else []
    problems = [text for text in (read(testbed).problem, _ghost_problem(round, testbed)) if text]
    wrong = {node: list(texts) for node, texts in table.problems.items()} if table is not None else {}
    return TestbedStatus(
        state=_state([slot.state for slot in slots], bool(problems or wrong)),
        node_problems=wrong,
        problems=problems,
        slots=[_shown(round, slot) for slot in slots],
        observed_generation=testbed.generation,
    )


def _state(slots: list[SlotState], wrong: bool) -> TestbedState:
    if SlotState.OCCUPIED in slots:
        return TestbedState.RUNNING
    if SlotState.RESERVED in slots:
        return TestbedState.IN_PROGRESS
    return TestbedState.ERROR if wrong else TestbedState.SUCCESS


def _shown(round: Round, slot: Slot) -> SlotStatus:
    pods = round.state.pods
    pod, ghost = pods.get(slot.pod), pods.get(slot.ghost)
    inside = pod if slot.state is SlotState.OCCUPIED else ghost
    waited_for = pod.name if pod is not None and slot.state is SlotState.RESERVED else ""
    return SlotStatus(
        position=slot.position,
        node_id=slot.node_id,
        node_name=slot.node,
        slot_position_on_node=slot.index,
        state=slot.state,
        pod_name=inside.name if inside is not None else "",
        pod_u_id=inside.uid if inside is not None else "",
        reserved_for=waited_for,
    )


# -- ghost pods --------------------------------------------------------------------------------------------


def _ghosts(round: Round, testbed: Testbed, table: SlotTable | None) -> None:
    """Delete those that hold nothing that they should, make those that are missing."""
    right: dict[str, None] = {}
    wanted, lacks = _wants_ghosts(testbed), round.esi.lacks(GHOST_PRIORITY)
    for slot in table.slots.values() if table is not None and wanted else ():
        ghost = round.state.pods.get(slot.ghost)
        if ghost is not None and table is not None and _fits(table, ghost) and slot.fits:
            if slot.state is not SlotState.OCCUPIED:  # else a pod has come beside it: there was room to spare
                right[ghost.uid] = None
        elif ghost is None and slot.state is SlotState.FREE and not lacks:
            _make(round, testbed, slot)
    for uid in round.esi.pods.get(testbed.ref, {}):
        pod = round.state.pods.get(uid)
        if pod is None or not _his_ghost(pod, testbed):
            continue
        forget(round, testbed.uid, pod.name)  # it is there: if it goes, another one is asked for at once
        if uid not in right and not pod.deleting:
            ref = of_pod(pod)
            delete(round, ObjectRef(ref.kind, ref.namespace, ref.name, ref.uid), grace=0)


def _wants_ghosts(testbed: Testbed) -> bool:
    return testbed.spec is not None and testbed.spec.fairlead.hold_capacity is HoldCapacity.PODS


def _his_ghost(pod: Pod, testbed: Testbed) -> bool:
    return is_ghost(pod) and pod.owner is not None and pod.owner.uid == testbed.uid


def _fits(table: SlotTable, ghost: Pod) -> bool:
    """Whether it holds what a slot has."""
    if ghost.ended:
        return False
    held = dict(ghost.shape.requests)
    return all(held.get(name, 0) == amount for name, amount in table.amounts)


def _make(round: Round, testbed: Testbed, slot: Slot) -> None:
    name = name_of(testbed, slot)
    if ("Pod", testbed.namespace, name) in round.esi.failures:
        return  # until the Testbed changes
    if asks(round, testbed.uid, name):
        create(round, ghost_pod(testbed, slot))


def name_of(testbed: Testbed, slot: Slot) -> str:
    """While it is no longer than a pod's may be; else the node's is cut, and told apart by a digest."""
    head, tail = f"ghostpod-{testbed.name}-on-", f"-{slot.index}"
    room = _LONGEST_NAME - len(head) - len(tail)
    if len(slot.node) <= room:
        return f"{head}{slot.node}{tail}"
    digest = sha256(slot.node.encode()).hexdigest()[:10]
    return f"{head}{slot.node[: room - len(digest) - 1].rstrip('-.')}-{digest}{tail}"


def ghost_pod(testbed: Testbed, slot: Slot) -> dict[str, Any]:
    """The manifest. It names its node itself: no scheduler has to be asked, and none may refuse."""
    labels = {TESTBED_LABEL: testbed.name, GHOST_LABEL: "true", ID_LABEL: str(slot.index)}
    if len(slot.node) <= LONGEST_LABEL:
        labels[NODE_LABEL] = slot.node
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Testbed",
        "name": testbed.name,
        "uid": testbed.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    requests = {name: show(name, amount) for name, amount in _amounts(testbed).items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name_of(testbed, slot),
            "namespace": testbed.namespace,
            "labels": labels,
            "annotations": {SLOT: slot.key, OBSERVED: str(testbed.generation)},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": slot.node,
            "priorityClassName": GHOST_PRIORITY,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "container", "image": IMAGE, "resources": _resources(requests)}],
        },
    }


def _amounts(testbed: Testbed) -> dict[str, int]:
    return {name: amount for name, amount in read(testbed).amounts if name != "pods"}


def _resources(requests: dict[str, str]) -> dict[str, Any]:
    """What cannot be overcommitted must have a limit that equals the request."""
    limits = {
        name: amount for name, amount in requests.items() if "/" in name or name.startswith("hugepages-")
    }
    return {"requests": requests, **({"limits": limits} if limits else {})}


def _ghost_problem(round: Round, testbed: Testbed) -> str:
    """Why ghost pods are missing, if the cluster refuses them or would."""
    if _wants_ghosts(testbed) and round.esi.lacks(GHOST_PRIORITY):
        return no_class(GHOST_PRIORITY)
    prefix = f"ghostpod-{testbed.name}-on-"
    failed = [
        each
        for (kind, namespace, name), each in round.esi.failures.items()
        if kind == "Pod"
        and namespace == testbed.namespace
        and name.startswith(prefix)
        and each.verb == "create"
    ]
    if not failed:
        return ""
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return f"ghost pod {failed[0].name}{more} cannot be created: {failed[0].text}"
