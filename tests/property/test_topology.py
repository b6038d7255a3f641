"""Domains and regions of nodes against a walk that looks at one node at a time."""

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core.labels import NodeClasses
from fairlead.core.topology import HOST, Topology, of
from fairlead.model.layout import Layout
from fairlead.model.node import Node

ZONE, BLOCK, RACK = KEYS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/block", "example.com/rack")
OTHER = "example.com/switch"
POLICIES = ("first", "pack", "spread")


class Case(NamedTuple):
    """Nodes by their labels, and per task how many fit on each of them."""

    labels: list[dict[str, str]]
    counts: list[list[int]]
    wanted: list[int]
    load: list[int]

    def topology(self) -> Topology:
        nodes = [Node(f"u{i}", f"n{i}", 1, (), labels) for i, labels in enumerate(self.labels)]
        return of(NodeClasses(nodes, [False] * len(nodes)), KEYS)

    def regions(self, layout: Layout, policy: str) -> list[list[int]]:
        masks = self.topology().regions(
            layout, [np.array(each) for each in self.counts], self.wanted, policy, np.array(self.load)
        )
        return [np.flatnonzero(mask).tolist() for mask in masks]

    def domain(self, key: str, row: int) -> object:
        """What the node's place at this level is; None if it has none."""
        if key == HOST:
            return row
        labels = self.labels[row]
        if key not in labels:
            return None
        return (
            labels[key] if key == OTHER else tuple(labels.get(each) for each in KEYS[: KEYS.index(key) + 1])
        )

    def domains(self, key: str) -> list[list[int]]:
        """The node rows of each domain, in the order of their first rows."""
        found: dict[object, list[int]] = {}
        for row in range(len(self.labels)):
            where = self.domain(key, row)
            if where is not None:
                found.setdefault(where, []).append(row)
        return list(found.values())

    def holds(self, rows: list[int]) -> bool:
        """Whether every task alone has room on these nodes."""
        return all(
            sum(count[row] for row in rows) >= want
            for count, want in zip(self.counts, self.wanted, strict=True)
        )

    def spread_over(self, key: str, rows: list[int]) -> int:
        return len({self.domain(key, row) for row in rows} - {None})

    def fewest(self, key: str, rows: list[int]) -> int:
        """How many domains of the level one task needs within these nodes; 0 where they do not hold it."""
        inside = [[row for row in each if row in rows] for each in self.domains(key)]
        rooms = sorted((sum(self.counts[0][row] for row in each) for each in inside), reverse=True)
        for number in range(1, len(rooms) + 1):
            if sum(rooms[:number]) >= self.wanted[0]:
                return number
        return 0


@st.composite
def cases(draw: st.DrawFn, most_tasks: int = 3) -> Case:
    size = draw(st.integers(1, 14))
    label = st.fixed_dictionaries({}, optional={key: st.sampled_from("ab") for key in (*KEYS, OTHER)})
    tasks = draw(st.integers(1, most_tasks))
    row = st.lists(st.integers(0, 5), min_size=size, max_size=size)
    return Case(
        draw(st.lists(label, min_size=size, max_size=size)),
        [draw(row) for _ in range(tasks)],
        [draw(st.integers(1, 12)) for _ in range(tasks)],
        draw(st.lists(st.integers(0, 1_000_000), min_size=size, max_size=size)),
    )


@given(cases(), st.sampled_from([*KEYS, OTHER, HOST]))
def test_domains_are_the_paths_of_label_values(case: Case, key: str) -> None:
    codes, count = case.topology().codes(key)
    if key == HOST:
        assert codes.tolist() == list(range(len(case.labels)))
        return
    found: list[list[int]] = [[] for _ in range(count)]
    for row, domain in enumerate(codes.tolist()):
        if domain >= 0:
            found[domain].append(row)
    assert found == case.domains(key)


@given(cases(), st.sampled_from([*KEYS, OTHER, HOST]), st.sampled_from(POLICIES))
def test_I8_required_regions_are_the_domains_that_have_room(case: Case, key: str, policy: str) -> None:
    regions = case.regions(Layout(required=key), policy)
    assert sorted(regions) == sorted(rows for rows in case.domains(key) if case.holds(rows))
    if policy == "first":
        assert regions == sorted(regions)
    elif policy == "pack":
        rooms = [sum(min(c[r], w) for c, w in zip(case.counts, case.wanted, strict=True) for r in rows)
                 for rows in regions]  # fmt: skip
        assert rooms == sorted(rooms)
    else:
        loads = [sum(case.load[row] for row in rows) / len(rows) for rows in regions]
        assert loads == sorted(loads)


@given(
    cases(),
    st.sampled_from(["", *KEYS, OTHER, HOST]),
    st.sampled_from(["", *KEYS, OTHER, HOST]),
    st.sampled_from(POLICIES),
)
def test_I8_no_region_breaks_what_is_required_or_cannot_hold(
    case: Case, required: str, preferred: str, policy: str
) -> None:
    regions = case.regions(Layout(required, preferred), policy)
    everywhere = case.domains(required) if required else [list(range(len(case.labels)))]
    for rows in regions:
        assert case.holds(rows)
        assert any(set(rows) <= set(each) for each in everywhere)
    possible = [rows for rows in everywhere if case.holds(rows)]
    assert all(
        rows in regions for rows in possible
    )  # where greedy placing fails in a part, the whole is tried
    assert bool(regions) == bool(possible)


@given(cases(most_tasks=1), st.sampled_from(["", ZONE]), st.sampled_from(POLICIES))
def test_I8_a_group_lies_in_as_few_preferred_domains_as_can_be(
    case: Case, required: str, policy: str
) -> None:
    """In one rack, else in few racks of one block, else in few racks of one zone, else in few racks."""
    regions = case.regions(Layout(required, RACK), policy)
    if not regions:
        return
    everywhere = [list(range(len(case.labels)))]
    wider = [RACK, BLOCK] if required else [RACK, BLOCK, ZONE]
    last = case.domains(ZONE) if required else everywhere
    for level in [*[case.domains(key) for key in wider], last]:
        inside = [[r for r in rows if not required or case.domain(required, r) is not None] for rows in level]
        holding = [rows for rows in inside if case.holds(rows)]
        if holding:
            home = next(rows for rows in holding if set(regions[0]) <= set(rows))
            needed = case.fewest(RACK, home)
            assert not needed or case.spread_over(RACK, regions[0]) == needed
            return
    raise AssertionError("a region where nothing holds it")


@given(cases(), st.sampled_from([*KEYS, OTHER, HOST]), st.data())
def test_a_home_is_met_by_its_domain_and_nobody_else(case: Case, key: str, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(range(len(case.labels))))
    if case.domain(key, row) is None or key == OTHER:
        return
    nodes = [Node(f"u{i}", f"n{i}", 1, (), labels) for i, labels in enumerate(case.labels)]
    mask = NodeClasses(nodes, [False] * len(nodes)).selected(case.topology().home(key, row))
    mates = next(rows for rows in case.domains(key) if row in rows)
    assert np.flatnonzero(mask).tolist() == mates


@given(cases(), st.data())
def test_D9_a_span_counts_domains(case: Case, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.sampled_from(range(len(case.labels))), min_size=1, unique=True))
    span = case.topology().span(rows)
    assert span["node"] == len(rows)
    for key in KEYS:
        if case.domains(key):
            assert span[key.rpartition("/")[2]] == case.spread_over(key, rows)
        else:
            assert key.rpartition("/")[2] not in span
    assert case.topology().together(RACK, rows) == (
        case.spread_over(RACK, rows) == 1 and all(case.domain(RACK, row) for row in rows)
    )


def test_levels_have_names_that_people_use() -> None:
    nodes = [
        Node("u0", "n0", 1, (), {ZONE: "a", RACK: "r1", "example.com/switch": "s"}),
        Node("u1", "n1", 1, (), {ZONE: "b", RACK: "r1", "a/pdu": "1", "b/pdu": "2"}),
    ]
    found = of(NodeClasses(nodes, [False, False]), KEYS)
    assert found.level("rack") == found.level("RACK") == found.level(RACK) == RACK
    assert found.level("block") == BLOCK  # configured, though no node has it
    assert found.level("switch") == "example.com/switch"
    assert found.level("host") == found.level("node") == HOST
    assert found.level("pdu") is None  # two labels could be meant
    assert found.level("b/pdu") == "b/pdu"
    assert found.level("row") is None
    assert found.names(RACK) == ["a/r1", "b/r1"]
    assert found.names(HOST) == ["n0", "n1"]
    assert found.present() == (ZONE, RACK)
