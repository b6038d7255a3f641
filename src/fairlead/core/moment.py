"""The state as it is between two batches, held still: what an audit looks at while the engine goes on.

Taken by `runtime.audit` in one step, read by `core.audit`. Shallow copies: pods, nodes, owners and things are
never changed, only replaced. Must not change the state.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.esi.invariants import expected_holds
from fairlead.core.esi.table import Thing as EsiThing
from fairlead.core.rebuild import STEP, Holding, Mark, Picture, Row, Tally, implied, picture, row
from fairlead.core.state import State
from fairlead.core.steps import Steps
from fairlead.core.surroundings import Shelf
from fairlead.core.tenancy import Tenant, takes, with_places
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import Amounts, Pod
from fairlead.model.thing import Thing


class Stored(NamedTuple):
    """A thing with the version it was seen at."""

    version: int
    thing: Thing


Known = Pod | Node | Owner | Stored | EsiThing


class Columns(NamedTuple):
    """What is counted as events come: amounts [resource, node] and who holds what."""

    resources: tuple[str, ...]
    capacity: NDArray[np.int64]
    free: NDArray[np.int64]
    held: dict[str, tuple[str, Amounts]]


class Moment(NamedTuple):
    """Everything by uid. `tenants` says what the groups of pods are where places are counted, else None.

    `set_aside` are pods that are kept otherwise than they were seen (`core.poison`).
    """

    pods: dict[str, Pod]
    nodes: dict[str, Node]
    node_rows: dict[str, int]
    owners: dict[str, Owner]
    things: dict[str, Shelf]
    esi: dict[str, dict[str, EsiThing]]
    """What external schedulers are about: kind -> uid -> object."""
    intents: dict[str, str]
    columns: Columns
    tombstones: dict[str, int]
    group_of: dict[str, str]
    tenants: dict[str, Tenant] | None
    set_aside: frozenset[str]
    holds: dict[str, tuple[str, Amounts]]
    """What free slots of Testbeds should hold, by what is in them: key, node and amounts."""

    def asked(self, pod: Pod) -> Amounts:
        """What the pod takes from its node."""
        if self.tenants is None:
            return pod.shape.requests
        tenant = self.tenants.get(self.group_of.get(pod.uid, ""))
        return with_places(pod.shape.requests, takes(pod, tenant))

    def known(self, kind: str) -> Mapping[str, Known]:
        """All objects of a kind by uid."""
        if kind == "Pod":
            return self.pods
        if kind == "Node":
            return self.nodes
        if kind in self.things:
            shelf = self.things[kind]
            return {
                uid: Stored(version, shelf.things[name]) for uid, (name, version) in shelf.records.items()
            }
        if kind in self.esi:
            return self.esi[kind]
        return {uid: owner for uid, owner in self.owners.items() if owner.kind == kind}

    def marks(self) -> Iterator[Mark]:
        """All that is neither a pod nor a node."""
        for owner in self.owners.values():
            yield owner.kind, owner.uid, owner.version
        for kind, shelf in self.things.items():
            for uid, (_, version) in shelf.records.items():
                yield kind, uid, version
        for kind, found in self.esi.items():
            for uid, thing in found.items():
                yield kind, uid, thing.version


def take(state: State) -> Moment:
    """Some milliseconds at 50,000 pods."""
    inventory, n = state.inventory, len(state.inventory)
    there = {
        node.uid: (node, at)
        for at, node in enumerate(inventory.nodes)
        if node is not None and not inventory.gone_at[at]
    }
    tenants = None
    if state.tenancy:
        tenants = {gid: Tenant(group.layout, group.source) for gid, group in state.groups.items()}
    columns = Columns(
        tuple(inventory.resources),
        inventory.capacity[:, :n].copy(),
        inventory.free[:, :n].copy(),
        inventory.held.copy(),
    )
    return Moment(
        pods=state.pods.copy(),
        nodes={uid: node for uid, (node, _) in there.items()},
        node_rows={node.name: at for node, at in there.values()},
        owners=state.owners.copy(),
        things=state.surroundings.shelves(),
        esi=state.esi.things(),
        intents={uid: intent.node for uid, intent in state.intents.items()},
        columns=columns,
        tombstones=state.tombstones.copy(),
        group_of=state.group_of.copy() if tenants is not None else {},
        tenants=tenants,
        set_aside=frozenset(state.poisoned),
        holds={
            key: each
            for table in state.esi.tables.values()
            for key, each in expected_holds(state, table).items()
        },
    )


def picturing(moment: Moment) -> Steps[Picture]:
    """The picture as the columns have it: nothing is counted here."""
    tally, columns = Tally(), moment.columns
    on: dict[str, list[Holding]] = {name: [] for name in moment.node_rows}
    for count, (uid, (where, amounts)) in enumerate(columns.held.items()):
        pod = moment.pods.get(uid)
        if where in on:
            on[where].append((uid, pod.version if pod is not None else 0, amounts))
        if not count % STEP:
            yield
    for count, pod in enumerate(moment.pods.values()):
        if columns.held.get(pod.uid, ("",))[0] not in on:
            tally.add(("Pod", pod.uid, pod.version))
        if not count % STEP:
            yield
    for count, mark in enumerate(moment.marks()):
        tally.add(mark)
        if not count % STEP:
            yield
    rows: list[Row] = []
    for node in moment.nodes.values():
        rows.append(_read(columns, moment.node_rows[node.name], node, on[node.name]))
        yield
    return picture(rows, tally)


def _read(columns: Columns, at: int, node: Node, pods: list[Holding]) -> Row:
    """The row as the columns have it."""
    cells = sorted(
        zip(columns.resources, columns.capacity[:, at].tolist(), columns.free[:, at].tolist(), strict=False)
    )
    told = [(name, whole, left) for name, whole, left in cells if whole != left or whole != implied(name)]
    return row(
        node,
        tuple([(name, whole) for name, whole, _ in told if whole]),
        tuple([(name, whole - left) for name, whole, left in told if whole != left]),
        tuple([(name, left) for name, whole, left in told if whole or left]),
        pods,
    )
