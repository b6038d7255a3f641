"""Who held how much of which node, when: step functions, exact at each instant, and what they come to.

Called by the command line with what `store.history` found. Pure: rows in, arrays out. A pod holds its node
from `since` on up to, not including, `until`. Time is integer milliseconds, cpu milli-cores, memory bytes.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead.model.history import PodHistory
from fairlead.model.record import NodeLife

WHATS = ("count", "cpu", "memory", "gpu")
"""What is counted: pods, and what they request; gpu is all GPUs of whatever make."""
FOREVER = 1 << 62
"""The end of what goes on."""
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Steps(NamedTuple):
    """A value that is `values[i]` from `at[i]` on until `at[i + 1]`, and 0 before the first."""

    at: Ints
    values: Ints

    def on(self, moments: Ints) -> Ints:
        """The values at these moments."""
        place = np.searchsorted(self.at, moments, side="right")
        return np.concatenate([[0], self.values])[place]

    def area(self, edges: Ints) -> Floats:
        """The integral over each stretch between two edges, value times milliseconds."""
        at, ends = (self.at - edges[0]).astype(np.float64), (edges - edges[0]).astype(np.float64)
        values = np.concatenate([[0.0], self.values.astype(np.float64)])
        starts = np.concatenate([[0.0], at])
        before = np.concatenate([[0.0, 0.0], np.cumsum(values[1:-1] * np.diff(at))])[: len(starts)]
        place = np.searchsorted(self.at, edges, side="right")
        return np.diff(before[place] + (ends - starts[place]) * values[place])

    def mean(self, edges: Ints) -> Floats:
        """The mean over each stretch, weighted by time."""
        return self.area(edges) / np.diff(edges)

    def peak(self, edges: Ints) -> Ints:
        """The highest value within each stretch."""
        found = self.on(edges[:-1])
        begin = np.searchsorted(self.at, edges[:-1], side="right")
        end = np.searchsorted(self.at, edges[1:], side="left")
        for i in np.flatnonzero(end > begin):
            found[i] = max(found[i], self.values[begin[i] : end[i]].max())
        return found


def steps(since: Ints, until: Ints, amounts: Ints) -> Steps:
    """The sum of amounts that each hold from since up to until."""
    at = np.concatenate([since, until])
    order = np.argsort(at, kind="stable")
    total = np.cumsum(np.concatenate([amounts, -amounts])[order])
    at = at[order]
    last = np.flatnonzero(np.append(at[1:] != at[:-1], True)) if len(at) else np.zeros(0, np.int64)
    return Steps(at[last], total[last])


class Spans(NamedTuple):
    """Amounts on nodes for a while, as columns; `node` is an index into `nodes`, which are in order of names.

    `usable`: pods may be placed there meanwhile (for pods themselves always so).
    """

    nodes: tuple[str, ...]
    node: Ints
    since: Ints
    until: Ints
    amounts: dict[str, Ints]
    usable: npt.NDArray[np.bool_]

    def of(self, what: str, name: str | None = None) -> Steps:
        """How much there was over time on all nodes together, or on one."""
        mine = slice(None) if name is None else self.rows(name)
        return steps(self.since[mine], self.until[mine], self.amounts[what][mine])

    def rows(self, name: str) -> Ints:
        """Which rows are of that node."""
        if name not in self.nodes:
            return np.zeros(0, np.int64)
        return np.flatnonzero(self.node == self.nodes.index(name))

    def each(self) -> dict[str, Ints]:
        """The rows of every node."""
        order = np.argsort(self.node, kind="stable")
        bounds = np.searchsorted(self.node[order], np.arange(len(self.nodes) + 1))
        return {name: order[bounds[i] : bounds[i + 1]] for i, name in enumerate(self.nodes)}


def gpus(amounts: Mapping[str, int]) -> int:
    """All GPUs among amounts by resource: nvidia.com/gpu, amd.com/gpu and the like."""
    return sum(value for name, value in amounts.items() if name == "gpu" or name.endswith("/gpu"))


class Gathered:
    """Rows while they come, in as little memory as they need."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._columns = tuple(array("q") for _ in range(3 + len(WHATS)))
        self._usable = bytearray()

    def add(
        self, node: str, since: int, until: int, amounts: Mapping[str, int], count: int, usable: bool = True
    ) -> None:
        """One of them; `until` 0 goes on."""
        values = (
            self._index.setdefault(node, len(self._index)), since, until or FOREVER,
            count, amounts.get("cpu", 0), amounts.get("memory", 0), gpus(amounts),
        )  # fmt: skip
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)
        self._usable.append(usable)

    def pod(self, pod: PodHistory) -> None:
        """What a pod held; one without a node held nothing."""
        if pod.node:
            self.add(pod.node, pod.since, pod.until, pod.requests, 1)

    def state(self, node: NodeLife) -> None:
        """What a node had for pods (allocatable); `count` is how many it may have, 0 = nobody says.

        One that is not ready or is cordoned is there all the same, but not usable.
        """
        has = node.allocatable
        usable = node.ready and not node.unschedulable
        self.add(node.name, node.since, node.until, has, has.get("pods", 0), usable)

    def spans(self) -> Spans:
        """As columns."""
        names = tuple(sorted(self._index))
        place = np.zeros(len(names), np.int64)
        for i, name in enumerate(names):
            place[self._index[name]] = i
        node, since, until, *amounts = (np.array(column, np.int64) for column in self._columns)
        usable = np.frombuffer(bytes(self._usable), np.bool_)
        return Spans(names, place[node], since, until, dict(zip(WHATS, amounts, strict=True)), usable)


def held(pods: Iterable[PodHistory]) -> Spans:
    """What pods held."""
    found = Gathered()
    for pod in pods:
        found.pod(pod)
    return found.spans()


def capacity(nodes: Iterable[NodeLife]) -> Spans:
    """What nodes had."""
    found = Gathered()
    for node in nodes:
        found.state(node)
    return found.spans()


# -- what is shown -----------------------------------------------------------------------------------


class Buckets(NamedTuple):
    """Occupancy by node and stretch of time: `mean[node, stretch]` and `peak[node, stretch]`."""

    nodes: tuple[str, ...]
    edges: Ints
    mean: Floats
    peak: Ints


def buckets(spans: Spans, what: str, edges: Ints, nodes: Sequence[str] = ()) -> Buckets:
    """Of these nodes, or of all that are known."""
    mine = spans.each()
    names = tuple(nodes) or spans.nodes
    mean, peak = np.zeros((len(names), len(edges) - 1)), np.zeros((len(names), len(edges) - 1), np.int64)
    for i, name in enumerate(names):
        rows = mine.get(name)
        if rows is not None:
            found = steps(spans.since[rows], spans.until[rows], spans.amounts[what][rows])
            mean[i], peak[i] = found.mean(edges), found.peak(edges)
    return Buckets(names, edges, mean, peak)


def at(spans: Spans, moment: int) -> dict[str, dict[str, int]]:
    """What was held on each node at that moment: the sum by what is counted."""
    there = (spans.since <= moment) & (spans.until > moment)
    sums = {
        what: np.bincount(spans.node[there], amounts[there].astype(np.float64), len(spans.nodes))
        for what, amounts in spans.amounts.items()
    }
    return {name: {what: int(sums[what][i]) for what in spans.amounts} for i, name in enumerate(spans.nodes)}


def edges(since: int, until: int, every: int) -> Ints:
    """The ends of stretches: multiples of `every`, and `since` and `until` themselves."""
    inner = np.arange(since // every + 1, -(-until // every), dtype=np.int64) * every
    return np.concatenate([[since], inner, [max(until, since + 1)]]).astype(np.int64)
