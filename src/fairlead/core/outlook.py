"""The picture that a policy function is shown: the state at the instant of a snapshot, in plain values.

Called by `runtime.policies` and `sim.play` right after the snapshot was taken, while the state still is what
it was. What is the same as in the last picture is the same object. Must not change the state.
"""

from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairlead.core.inventory import Ints
from fairlead.core.labels import Constraints, NodeClasses, constraints
from fairlead.core.live import Group
from fairlead.core.profile import Share
from fairlead.core.running import began, expected_end, shares
from fairlead.core.snapshot import Request, Snapshot
from fairlead.core.snapshot import Task as Wanted
from fairlead.core.state import State
from fairlead.model.outside import Held, Nodes, Running, Task, View, Waiting

_T = TypeVar("_T", bound=np.generic)
_KEPT = 256
"""Different constraints on nodes whose rows in `View.feasible` are remembered."""


class Look(NamedTuple):
    """The picture, and the snapshot with everybody in it who waits."""

    view: View
    snapshot: Snapshot


class _Columns(NamedTuple):
    """The nodes, and where in them each row of the inventory is; `rows` None: all are there."""

    key: tuple[int, int]
    classes: NodeClasses
    nodes: Nodes
    rows: Ints | None
    place: tuple[int, ...]


def id_of(request: Request) -> str:
    """What a function calls the request: its group, and which pod if it is one that joins it."""
    return f"{request.group}+{request.tasks[0].uids[0]}" if request.growth else request.group


class Outlook:
    """Pictures of one state."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._columns: _Columns | None = None
        self._waiting: dict[int, tuple[Request, Waiting]] = {}
        self._running: dict[str, tuple[tuple[Share, ...], Running]] = {}
        self._limits: dict[Constraints, int] = {}

    def look(self, snapshot: Snapshot) -> Look:
        """The picture at the instant of the snapshot, which must have been taken from this state just now."""
        state = self._state
        if not snapshot.freed:  # then it has only those whom no plan has seen
            everybody = tuple([request for _, _, request in state.line])
            snapshot = snapshot._replace(waiting=everybody, freed=True)
        columns = self._nodes(snapshot)
        waiting = self._queue(snapshot)
        masks = [snapshot.classes.now(limits) for limits in self._limits]
        feasible = np.array(masks, dtype=bool).reshape(len(masks), len(snapshot.names))
        free = snapshot.free
        if columns.rows is not None:
            feasible, free = feasible[:, columns.rows], free[:, columns.rows]
        view = View(
            now=snapshot.now,
            nodes=columns.nodes,
            free=_frozen(free),
            feasible=_frozen(feasible),
            waiting=waiting,
            running=self._started(columns),
            queues=snapshot.settings.queues,
            match=snapshot.settings.match,
        )
        return Look(view, snapshot)

    def _nodes(self, snapshot: Snapshot) -> _Columns:
        key = (self._state.nodes_at, len(snapshot.resources))
        known = self._columns
        if known is not None and known.key == key and known.classes is snapshot.classes:
            return known
        self._running.clear()
        if known is not None and known.key[1] != key[1]:
            self._waiting.clear()
        classes = snapshot.classes
        rows = np.flatnonzero(classes.present)
        capacity = snapshot.capacity[:, rows]
        labels = [node.labels if node is not None else {} for node in classes.nodes]
        found: list[int] = rows.tolist()
        nodes = Nodes(
            names=tuple([classes.names[row] for row in found]),
            labels=tuple([labels[row] for row in found]),
            resources=tuple(snapshot.resources),
            capacity=_frozen(capacity),
        )
        place = [-1] * len(classes.names)
        for i, row in enumerate(found):
            place[row] = i
        everywhere = len(found) == len(place)
        self._columns = _Columns(key, classes, nodes, None if everywhere else rows, tuple(place))
        return self._columns

    def _queue(self, snapshot: Snapshot) -> tuple[Waiting, ...]:
        if len(self._limits) > _KEPT:
            self._limits.clear()
            self._waiting.clear()
        known = self._waiting
        found: dict[int, tuple[Request, Waiting]] = {}
        for request in snapshot.waiting:
            entry = known.get(id(request))
            if entry is None:
                group = self._state.groups[request.group]
                entry = (request, self._waits(group, request, snapshot))
            found[id(request)] = entry  # the request is kept, so its id stays taken
        self._waiting = found
        return tuple([waiting for _, waiting in found.values()])

    def _waits(self, group: Group, request: Request, snapshot: Snapshot) -> Waiting:
        return Waiting(
            id=id_of(request),
            namespace=group.namespace,
            name=group.name,
            queue=request.queue,
            priority=group.priority,
            submitted=group.first_seen,
            walltime=request.duration,
            joins=request.growth,
            labels=self._labels(request.tasks[0].uids[0]),
            tasks=tuple([self._task(task, snapshot) for task in request.tasks]),
        )

    def _task(self, task: Wanted, snapshot: Snapshot) -> Task:
        amounts = [0] * len(snapshot.resources)
        for row, amount in snapshot.vectors[task.shape.requests].pairs:
            amounts[row] = amount
        row = self._limits.setdefault(constraints(task.shape), len(self._limits))
        return Task(len(task.uids), tuple(amounts), row)

    def _labels(self, uid: str) -> dict[str, str]:
        pod = self._state.pods.get(uid)
        return {} if pod is None else pod.labels

    def _started(self, columns: _Columns) -> tuple[Running, ...]:
        known = self._running
        found: dict[str, tuple[tuple[Share, ...], Running]] = {}
        for gid in self._state.started:
            group = self._state.groups[gid]
            held = shares(self._state, group)
            until = expected_end(began(group), group.duration, self._state.now) if group.duration else 0
            entry = known.get(gid)
            if entry is None or entry[0] is not held or entry[1].until != until:
                entry = (held, self._runs(group, until, held, columns))
            found[gid] = entry
        self._running = found
        return tuple([running for _, running in found.values()])

    def _runs(self, group: Group, until: int, held: tuple[Share, ...], columns: _Columns) -> Running:
        return Running(
            id=group.id,
            namespace=group.namespace,
            name=group.name,
            queue=group.queue,
            priority=group.priority,
            started=began(group),
            until=until,
            labels=self._labels(next(iter(group.pods), "")),
            held=tuple([_held(share, columns) for share in held]),
        )


def _held(share: Share, columns: _Columns) -> Held:
    amounts = [0] * len(columns.nodes.resources)
    for row, amount in share.vector.pairs:
        amounts[row] = amount
    nodes: list[int] = []
    for row, times in zip(share.rows.tolist(), share.times.tolist(), strict=True):
        if columns.place[row] >= 0:  # it may be gone
            nodes += [columns.place[row]] * times
    return Held(tuple(amounts), tuple(nodes))


def _frozen(array: NDArray[_T]) -> NDArray[_T]:
    """The same, which nobody can change."""
    view = array.view()
    view.flags.writeable = False
    return view
