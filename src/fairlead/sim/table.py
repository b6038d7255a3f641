"""The whole picture as a table that people write by hand: what each node holds, and what is nowhere.

Used by `sim.scenario` for the expectation `state`, which explains the table. Reads what was written, makes
the same of an engine's state, and says where the two differ. Must not change the state.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from fairlead.core.dump import node_states, strays
from fairlead.core.state import State
from fairlead.core.views import natural
from fairlead.model import quantity
from fairlead.model.dump import Holder, Holds, NodeState
from fairlead.model.pod import Pod

MARKS = ("gone", "down", "cordoned", "unknown")
NOWHERE = "-"
FOREIGN = "foreign"
Parts = dict[str, tuple[str, ...]]
"""Group -> its pods; those that are intended but not seen there end in `*`."""


class Row(NamedTuple):
    """One node, or NOWHERE. `amounts` has (used, capacity) of the resources that are named."""

    node: str
    marks: tuple[str, ...]
    amounts: dict[str, tuple[int, int]]
    parts: Parts


def spread(text: str) -> Iterator[tuple[str, int]]:
    """`n0-n2,n5*3` as nodes and how many members each has."""
    for part in text.split(","):
        nodes, _, times = part.strip().partition("*")
        ends = re.fullmatch(r"(\D+)(\d+)-\1(\d+)", nodes)
        names = [f"{ends[1]}{i}" for i in range(int(ends[2]), int(ends[3]) + 1)] if ends else [nodes]
        yield from ((name, int(times or 1)) for name in names if name)


# -- what was written --------------------------------------------------------------------------------


def read(text: str) -> dict[str, Row]:
    """The table as rows by node. Raises ValueError that names what cannot be read."""
    rows: dict[str, Row] = {}
    for line in text.splitlines():
        for row in _rows(line):
            if row.node in rows:
                raise ValueError(f"{row.node} has two lines")
            rows[row.node] = row
    if not rows:
        raise ValueError("a state has a line for each node below it")
    return rows


def _rows(line: str) -> Iterator[Row]:
    """A line may stand for several nodes: `n1-n3 cpu=0/4`."""
    head, *parts = (part.strip() for part in line.split("|"))
    nodes, *words = head.split()
    marks = tuple(sorted(word for word in words if "=" not in word))
    if strange := [mark for mark in marks if mark not in MARKS]:
        raise ValueError(f"{strange[0]!r} is nothing that a node can be; there are {', '.join(MARKS)}")
    amounts = dict(_amount(word) for word in words if "=" in word)
    found = dict(_part(part) for part in parts)
    for node, _ in [(nodes, 1)] if nodes == NOWHERE else spread(nodes):
        yield Row(node, marks, amounts, found)


def _amount(word: str) -> tuple[str, tuple[int, int]]:
    """`cpu=4/32`: used, and what there is."""
    name, _, text = word.partition("=")
    used, slash, capacity = text.partition("/")
    if not slash:
        raise ValueError(f"{word!r} does not say used/capacity, such as cpu=4/32")
    return name, (quantity.amount(name, used), quantity.amount(name, capacity))


def _part(text: str) -> tuple[str, tuple[str, ...]]:
    """`a: a-0 a-1*`: a group and its pods."""
    group, colon, pods = text.partition(":")
    if not colon or not pods.split():
        raise ValueError(f"{text!r} does not say GROUP: POD POD")
    return group.strip(), tuple(sorted(pods.split(), key=natural))


# -- what there is -----------------------------------------------------------------------------------


def found(state: State, name: Callable[[str], str]) -> dict[str, Row]:
    """The table of what the state says; `name` gives people's name of a group's id."""
    rows: dict[str, Row] = {}
    for node in node_states(state):
        amounts = {use.name: (use.used, use.capacity) for use in node.resources}
        rows[node.name] = Row(node.name, _marks(node), amounts, _parts(state, node.held, name))
    for stray in strays(state):
        rows[stray.name] = Row(stray.name, ("unknown",), {}, _parts(state, stray.held, name))
    homeless = [pod for pod in state.pods.values() if not pod.ended and pod.uid not in state.inventory.held]
    if homeless:
        parts = _grouped(
            (_group(state, pod, state.group_of.get(pod.uid, ""), name), bare(pod.namespace, pod.name))
            for pod in homeless
        )
        rows[NOWHERE] = Row(NOWHERE, (), {}, parts)
    return rows


def _marks(node: NodeState) -> tuple[str, ...]:
    marks = {"gone": node.gone_at > 0, "down": not node.ready, "cordoned": node.unschedulable}
    return tuple(sorted(mark for mark, holds in marks.items() if holds))


def _parts(state: State, held: Sequence[Holder], name: Callable[[str], str]) -> Parts:
    return _grouped(
        (
            _group(state, state.pods.get(pod.uid), pod.group, name),
            f"{bare(pod.namespace, pod.name)}{'*' if pod.why is Holds.INTENT else ''}",
        )
        for pod in held
        if pod.why is not Holds.SLOT
    )


def _grouped(pairs: Iterable[tuple[str, str]]) -> Parts:
    parts: dict[str, list[str]] = {}
    for group, pod in pairs:
        parts.setdefault(group, []).append(pod)
    return {group: tuple(sorted(pods, key=natural)) for group, pods in sorted(parts.items())}


def _group(state: State, pod: Pod | None, gid: str, name: Callable[[str], str]) -> str:
    if gid:
        return name(gid)
    return FOREIGN if pod is not None and not state.ours(pod) else "none"


def bare(namespace: str, name: str) -> str:
    """What a scenario calls it."""
    return name if namespace == "default" else f"{namespace}/{name}"


# -- the difference ----------------------------------------------------------------------------------


def differences(wanted: dict[str, Row], there: dict[str, Row]) -> list[str]:
    """Every node in which they differ, as two lines; amounts are compared where they are named."""
    lines: list[str] = []
    for node in sorted(dict.fromkeys([*wanted, *there]), key=natural):
        want, have = wanted.get(node), there.get(node)
        named = want.amounts if want is not None else {}
        if have is not None:
            told = {what: use for what, use in have.amounts.items() if what in named or want is None}
            have = have._replace(amounts={**dict.fromkeys(named, (0, 0)), **told})
        if want != have:
            lines += [f"expected  {_text(node, want)}", f"found     {_text(node, have)}"]
    return lines


def _text(node: str, row: Row | None) -> str:
    """The row as it would be written."""
    if row is None:
        return f"nothing of {node}"
    amounts = [
        f"{what}={quantity.show(what, used)}/{quantity.show(what, capacity)}"
        for what, (used, capacity) in row.amounts.items()
    ]
    head = " ".join([node, *row.marks, *amounts])
    return " | ".join([head, *(f"{group}: {' '.join(pods)}" for group, pods in row.parts.items())])
