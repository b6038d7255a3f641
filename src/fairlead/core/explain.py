"""Why a request cannot be placed, in words: never, or not now. Sound bounds only.

Called by `core.cycle` for groups that were not placed, and once for every group that arrives. A Reject
may only rest on `unsatisfiable`, which never calls possible what is not, nor the reverse: it compares
whole nodes' capacities with what is asked, task by task and in sum.
"""

from functools import lru_cache

import numpy as np

from fairlead.core.confine import too_apart, too_wide
from fairlead.core.crowd import Company
from fairlead.core.inventory import Ints, Vector, how_many
from fairlead.core.labels import Mask, constraints
from fairlead.core.snapshot import Request, Snapshot, Task
from fairlead.core.tenancy import PLACES, WHOLE
from fairlead.model import quantity
from fairlead.model.pod import Amounts, Shape

POSSIBLE = ("", "")


def possibility(snapshot: Snapshot, request: Request) -> tuple[str, str]:
    """Why it can never be held, and why not while nodes are down; "" each if it can. Known by its kind."""
    known = snapshot.possible.get(request.kind)
    if known is None:
        never = unsatisfiable(snapshot, request)
        known = (never, never or unsatisfiable(snapshot, request, present=True))
        if request.kind:
            snapshot.possible[request.kind] = known
    return known


def unsatisfiable(snapshot: Snapshot, request: Request, present: bool = False) -> str:
    """Why empty nodes could not hold the request; "" if they might.

    `present` asks about the nodes that may be used now; otherwise about all that are nominally there,
    be they gone, cordoned or not ready.
    """
    whole = snapshot.capacity
    for task in request.tasks:
        mask = _mask(snapshot, task.shape, present)
        vector = snapshot.vectors[task.shape.requests]
        if whole.shape[1] == 1 and mask[0]:  # plain numbers are quicker than columns of one
            held = all(whole.item(row, 0) >= amount * len(task.uids) for row, amount in vector.pairs)
        else:
            held = int(how_many(whole, vector)[mask].sum()) >= len(task.uids)
        if not held:
            return _too_large(snapshot, task, mask, vector)
        if text := too_apart(snapshot, task, mask, describe):
            return text
    text = _too_much(snapshot, request, present) if len(request.tasks) > 1 else ""
    if text or not request.layout.required:
        return text
    masks = [_mask(snapshot, task.shape, present) for task in request.tasks]
    return too_wide(snapshot, request, masks, describe)


def _too_much(snapshot: Snapshot, request: Request, present: bool) -> str:
    """Why all tasks together are more than the nodes have in sum; "" if they are not."""
    whole = snapshot.capacity
    total = np.zeros(len(whole), dtype=np.int64)
    union = np.zeros(whole.shape[1], dtype=bool)
    for task in request.tasks:
        vector = snapshot.vectors[task.shape.requests]
        total[vector.rows] += vector.amounts * len(task.uids)
        union |= _mask(snapshot, task.shape, present)
    short = np.flatnonzero(whole[:, union].sum(axis=1) < total)
    if len(short):
        name = list(snapshot.resources)[int(short[0])]
        have = int(whole[short[0], union].sum())
        if name == PLACES:
            return f"needs more nodes for itself than the {have // WHOLE} that match"
        need = quantity.show(name, int(total[short[0]]))
        return f"needs {name}={need} in all, the nodes have {quantity.show(name, have)}"
    return ""


def blocked(snapshot: Snapshot, free: Ints, request: Request, company: Company | None = None) -> str:
    """What the request is short of, for the task that is worst off, when this much is free.

    Where amounts are not what it is short of, what keeps it off nodes in the present company, or where its
    members are to lie.
    """
    worst: tuple[int, str] | None = None
    for task in request.tasks:
        mask = _mask(snapshot, task.shape, present=True)
        vector = snapshot.vectors[task.shape.requests]
        room = int(how_many(free, vector)[mask].sum())
        lack = max(len(task.uids) - room, 0)
        if worst is None or lack > worst[0]:
            scarce = _scarce(snapshot, vector, free[:, mask])
            text = f"needs {describe(task)}, room for {min(room, len(task.uids))} now (short of {scarce})"
            worst = (lack, text)
    if worst is None or worst[0]:
        return worst[1] if worst else ""
    wanted = " + ".join([describe(task) for task in request.tasks])
    if text := _minding(snapshot, free, request, company):
        return text
    if request.layout.required:
        return f"needs {wanted} within one {request.layout.required}: no single one has room for all of it"
    return f"needs {wanted}: there is room for each of them, but not for all together"


def _minding(snapshot: Snapshot, free: Ints, request: Request, company: Company | None) -> str:
    """What other pods, volumes or features keep its members off, in kube-scheduler's words; "" if nothing.

    Only nodes that would do otherwise are told of.
    """
    for task in request.tasks if company is not None else ():
        if company is not None and task.like is not None and company.crowd.concerns(task.like):
            fits = how_many(free, snapshot.vectors[task.shape.requests]) > 0
            text = company.lack(task.like, fits & _mask(snapshot, task.shape, present=True))
            if text:
                return f"needs {describe(task)}: {text}"
    return ""


def describe(task: Task) -> str:
    """What people call the request: "4 × cpu=8 memory=1Gi"."""
    return f"{len(task.uids)} × {amounts_text(task.shape.requests)}"


@lru_cache(maxsize=4_096)
def amounts_text(amounts: Amounts) -> str:
    said = [(n, a) for n, a in amounts if n != PLACES]
    shown = [(n, a) for n, a in said if n != "pods"] or said
    whole = {name.partition("@")[0] for name, _ in shown if "@" in name}  # told with their addresses
    text = " ".join(_amount_text(name, amount) for name, amount in shown if name not in whole)
    return f"{text} on a node of its own" if (PLACES, WHOLE) in amounts else text


def _amount_text(name: str, amount: int) -> str:
    return _port(name) or f"{name}={quantity.show(name, amount)}"


def _port(resource: str) -> str:
    """What people call a host port; "" for all else."""
    if not resource.startswith("port:"):
        return ""
    protocol, _, port = resource.removeprefix("port:").partition("/")
    number, _, address = port.partition("@")
    return f"hostPort={number}/{protocol}" + (f" on {address}" if address else "")


def _mask(snapshot: Snapshot, shape: Shape, present: bool) -> Mask:
    limits = constraints(shape)
    return snapshot.classes.now(limits) if present else snapshot.classes.nominal(limits)


def _scarce(snapshot: Snapshot, vector: Vector, free: Ints) -> str:
    """The resource that alone allows the fewest copies."""
    names = list(snapshot.resources)
    room = [
        (int(np.maximum(free[resource] // amount, 0).sum()), names[int(resource)])
        for resource, amount in zip(vector.rows, vector.amounts, strict=True)
    ]
    return spoken(min(room)[1], vector) if room else "nothing"


def spoken(resource: str, vector: Vector) -> str:
    """What people call a resource that a request is short of."""
    if resource != PLACES:
        return _port(resource) or resource
    return "empty nodes" if int(vector.amounts.max()) >= WHOLE else "nodes that no group has for itself"


def _too_large(snapshot: Snapshot, task: Task, mask: Mask, vector: Vector) -> str:
    need = f"needs {describe(task)}"
    if not mask.any():
        return f"{need}, no node matches its nodeSelector, affinity and tolerations"
    capacity = snapshot.capacity[:, mask]
    names = list(snapshot.resources)
    room = int(how_many(capacity, vector).sum())
    if room:
        scarce = _scarce(snapshot, vector, capacity)
        return f"{need}, {int(mask.sum())} matching nodes hold {room} at most (short of {scarce})"
    for resource, amount in zip(vector.rows, vector.amounts, strict=True):
        largest = int(capacity[resource].max())
        if largest < amount:
            name = names[int(resource)]
            return f"{need}, the largest matching node has {name}={quantity.show(name, largest)}"
    return f"{need}, no matching node has all of it"
