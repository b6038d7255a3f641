"""Capacity and free amounts of all nodes as columns [resource, node], and who holds what.

Owned by `core.state`; changed by `core.reduce` only; read by snapshots and verification. A holder is a
pod uid: a pod seen on a node, or an intent not yet seen bound. `free` is signed, for a node may shrink
below what it holds. Row numbers never leave the engine: events and plans name nodes.

Invariant (`check`): free + sum of what is held = capacity, on every node and resource.
"""

from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fairlead.core.labels import ImageTable, NodeClasses, image_table
from fairlead.core.outline import Need
from fairlead.core.tenancy import PLACES, WHOLE
from fairlead.model.node import Node
from fairlead.model.pod import Amounts
from fairlead.model.rules import EVERY_ADDRESS

Ints = NDArray[np.int64]


class Vector(NamedTuple):
    """A request as resource rows and amounts; both of length k."""

    rows: Ints
    amounts: Ints
    pairs: tuple[tuple[int, int], ...]
    """The same as Python integers, for the steps that touch one node only."""


def how_many(free: Ints, vector: Vector) -> Ints:
    """[node] how often the request fits into these free amounts ([resource, node])."""
    result = np.full(free.shape[1], 1 << 40, dtype=np.int64)
    for resource, amount in vector.pairs:
        np.minimum(result, free[resource] // amount, out=result)
    return np.maximum(result, 0)


class Inventory:
    """Columns over nodes. Grows by doubling; a node that is gone keeps its row as nominal capacity."""

    def __init__(self) -> None:
        self.resources: dict[str, int] = {}
        self.rows: dict[str, int] = {}
        self.nodes: list[Node | None] = []
        self.gone_at: list[int] = []
        self.capacity: Ints = np.zeros((8, 64), dtype=np.int64)
        self.free: Ints = np.zeros((8, 64), dtype=np.int64)
        self.metadata_version = 0
        """Moves when any node's labels, taints or presence change."""
        self.nominal_version = 0
        """Moves when the nominal cluster may have grown, so that a rejection must be looked at again."""
        self.held: dict[str, tuple[str, Amounts]] = {}
        self._by_node: dict[str, dict[str, Amounts]] = {}
        self.uses: dict[Amounts, int] = {}
        """How many holders there are of each request."""
        self.vectors: dict[Amounts, Vector] = {}
        self.needs: dict[tuple[int, ...], dict[int, Need]] = {}
        """Resource rows -> kind of request -> what it needs of these (`core.pool`); new with `possible`."""
        self.possible: dict[int, tuple[str, str]] = {}
        """Verdicts of `core.cycle` on kinds of requests; a new one begins whenever any node changes."""
        self._classes: NodeClasses | None = None
        self._images: ImageTable | None = None

    # -- reading -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.nodes)

    def classes(self) -> NodeClasses:
        """Masks over the present state of the node metadata."""
        if self._classes is None:
            self._classes = NodeClasses(self.nodes, [at > 0 for at in self.gone_at])
        return self._classes

    def images(self) -> ImageTable:
        """Where which images are. Not changed once given out."""
        if self._images is None:
            self._images = image_table([(row, node.images) for row, node in enumerate(self.nodes) if node])
        return self._images

    def node(self, name: str) -> Node | None:
        """The node of this name if it is present now."""
        row = self.rows.get(name)
        return None if row is None or self.gone_at[row] else self.nodes[row]

    def vector(self, amounts: Amounts) -> Vector:
        """The request as rows and amounts; unknown resources get a row (with no capacity anywhere)."""
        vector = self.vectors.get(amounts)
        if vector is None:
            pairs = tuple((self._resource(name), n) for name, n in amounts)
            rows = np.array([row for row, _ in pairs], dtype=np.int64)
            vector = Vector(rows, np.array([n for _, n in pairs], dtype=np.int64), pairs)
            self.vectors[amounts] = vector
        return vector

    def holders(self, name: str) -> dict[str, Amounts]:
        """Pod uid -> amounts held on the node."""
        return self._by_node.get(name, {})

    def fits(self, name: str, amounts: Amounts, times: int = 1) -> bool:
        """Whether `times` such requests fit on the node now (capacity only)."""
        row = self.rows.get(name)
        if row is None or self.gone_at[row]:
            return False
        return all(self.free[resource, row] >= need * times for resource, need in self.vector(amounts).pairs)

    def over(self, name: str) -> dict[int, int]:
        """Resource row -> by how much more is held on the node than it has. A node that is gone has none.

        Places do not count: they keep others off, but whoever comes all the same can run.
        """
        row = self.rows.get(name)
        if row is None or self.gone_at[row]:
            return {}
        found = {int(r): -int(self.free[r, row]) for r in np.flatnonzero(self.free[:, row] < 0)}
        found.pop(self.resources.get(PLACES, -1), None)
        return found

    def check(self) -> list[str]:
        """Every way in which `free + held = capacity` does not hold; empty when all is well."""
        used = np.zeros_like(self.capacity)
        for name, amounts in self.held.values():
            row = self.rows.get(name)
            if row is not None:
                vector = self.vector(amounts)
                np.add.at(used, (vector.rows, np.full(len(vector.rows), row)), vector.amounts)
        wrong = np.argwhere(self.free + used != self.capacity)
        names = {i: n for n, i in self.resources.items()}
        return [
            f"node {self._name(int(n))} {names.get(int(r), r)}: free {self.free[r, n]} + held {used[r, n]}"
            f" != capacity {self.capacity[r, n]}"
            for r, n in wrong
        ]

    # -- changing ------------------------------------------------------------------------------------

    def put(self, node: Node) -> bool:
        """Add or replace a node. Returns whether anything that matters for placing changed."""
        row = self.rows.get(node.name)
        old = None if row is None else self.nodes[row]
        if node.images != (old.images if old is not None else ()):
            self._images = None
        if row is None:
            row = self._new_row(node)
        elif old is not None and not self.gone_at[row] and _same(old, node):
            self.nodes[row] = node
            return False
        back = self.gone_at[row] > 0
        self.possible, self.needs = {}, {}
        self.nodes[row], self.gone_at[row] = node, 0
        self._set_capacity(row, node.allocatable)
        if old is None or back or _metadata(old) != _metadata(node):
            self.metadata_version += 1
            self._classes = None
        if old is None or _metadata(old)[:2] != _metadata(node)[:2] or old.allocatable != node.allocatable:
            self.nominal_version += 1
        return True

    def remove(self, name: str, now: int) -> None:
        """The node is gone: nothing may be placed on it; its capacity stays nominal."""
        row = self.rows.get(name)
        if row is not None and not self.gone_at[row]:
            self.gone_at[row] = max(now, 1)
            self.metadata_version += 1
            self._classes = None
            self.possible, self.needs = {}, {}

    def forget_versions(self) -> None:
        """Whatever is told next of a node is newer than what is known."""
        self.nodes = [None if node is None else replace(node, version=-1) for node in self.nodes]

    def hold(self, uid: str, node: str, amounts: Amounts) -> bool:
        """Let the pod hold these amounts on the node and nothing elsewhere. Returns whether that is new."""
        old = self.held.get(uid)
        if old == (node, amounts):
            return False
        if old is not None:
            self.release(uid)
        self.held[uid] = (node, amounts)
        self.uses[amounts] = self.uses.get(amounts, 0) + 1
        self._by_node.setdefault(node, {})[uid] = amounts
        row = self.rows.get(node)
        vector = self.vector(amounts)
        if row is not None:
            self.free[vector.rows, row] -= vector.amounts
        return True

    def release(self, uid: str) -> bool:
        """Give back what the pod holds, if anything. Returns whether it held something."""
        old = self.held.pop(uid, None)
        if old is None:
            return False
        node, amounts = old
        if self.uses[amounts] == 1:
            del self.uses[amounts]
        else:
            self.uses[amounts] -= 1
        holders = self._by_node[node]
        del holders[uid]
        if not holders:
            del self._by_node[node]
        row = self.rows.get(node)
        if row is not None:
            vector = self.vector(amounts)
            self.free[vector.rows, row] += vector.amounts
        return True

    def recount(self) -> None:
        """Count everything anew from the nodes and from what each pod holds, and forget what rests on it."""
        self._by_node, self.uses = {}, {}
        for row, node in enumerate(self.nodes):
            self._set_capacity(row, node.allocatable if node is not None else ())
        self.free[:] = self.capacity
        held, self.held = self.held, {}
        for uid, (name, amounts) in held.items():
            self.hold(uid, name, amounts)
        self.metadata_version += 1
        self.nominal_version += 1
        self.possible, self.needs, self._classes, self._images = {}, {}, None, None

    # -- inside --------------------------------------------------------------------------------------

    def _name(self, row: int) -> str:
        node = self.nodes[row] if row < len(self.nodes) else None
        return node.name if node else f"row {row}"

    def _resource(self, name: str) -> int:
        row = self.resources.get(name)
        if row is None:
            row = self.resources[name] = len(self.resources)
            if row == len(self.capacity):
                self.capacity = np.vstack([self.capacity, np.zeros_like(self.capacity)])
                self.free = np.vstack([self.free, np.zeros_like(self.free)])
            self.capacity[row, : len(self.nodes)] = _everywhere(name)
            self.free[row, : len(self.nodes)] = _everywhere(name)
        return row

    def _new_row(self, node: Node) -> int:
        row = len(self.nodes)
        if row == self.capacity.shape[1]:
            self.capacity = np.hstack([self.capacity, np.zeros_like(self.capacity)])
            self.free = np.hstack([self.free, np.zeros_like(self.free)])
        self.rows[node.name] = row
        self.nodes.append(None)
        self.gone_at.append(0)
        for amounts in self._by_node.get(node.name, {}).values():
            vector = self.vector(amounts)
            self.free[vector.rows, row] -= vector.amounts
        return row

    def _set_capacity(self, row: int, allocatable: Amounts) -> None:
        for name, _ in allocatable:
            self._resource(name)
        capacity = np.zeros(len(self.capacity), dtype=np.int64)
        for name, resource in self.resources.items():
            capacity[resource] = _everywhere(name)
        for name, n in allocatable:
            capacity[self.resources[name]] = n
        self.free[:, row] += capacity - self.capacity[:, row]
        self.capacity[:, row] = capacity


def _everywhere(name: str) -> int:
    """How much every node has without saying so: its ports, each once on each address, and its places."""
    if name == PLACES:
        return WHOLE
    return 0 if not name.startswith("port:") else 1 if "@" in name else EVERY_ADDRESS


def _metadata(node: Node) -> tuple[object, ...]:
    return node.labels, node.taints, node.unschedulable, node.ready, node.deleting, node.features


def _same(a: Node, b: Node) -> bool:
    return a.uid == b.uid and a.allocatable == b.allocatable and _metadata(a) == _metadata(b)
