"""Where nodes lie to each other: regions, zones, blocks and racks as domains over node rows.

Made from the labels of all nodes, one per state of their metadata. `core.match` tries the masks of `regions`
one after the other, `core.confine` compares domains with what is asked, views count what a group spans. The
narrowest level is the node itself. Must not know what is free: that is handed in.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fairlead.core.columns import Codes, Mask
from fairlead.core.inventory import Ints
from fairlead.core.labels import NodeClasses
from fairlead.model.layout import Layout
from fairlead.model.selector import Expression, Operator

HOST = "kubernetes.io/hostname"
"""The level below all others; every node is its own domain, whatever its labels."""
_HOST_NAMES = ("node", "host", "hostname", HOST)
NODE = "node"
"""What people read for that level."""


def of(classes: NodeClasses, keys: tuple[str, ...]) -> "Topology":
    """The topology of these nodes; made once for each state of their metadata."""
    found = classes.topologies.get(keys)
    if found is None:
        found = classes.topologies[keys] = Topology(classes, keys)
    return found


def short(key: str) -> str:
    """The last part of a label key: what people call the level."""
    return NODE if key == HOST else key.rpartition("/")[2]


class Topology:
    """Levels as domains on node rows. Never changed after it is made, but for its caches.

    The same label value below different parents is two domains: rack r1 in zone a is not r1 in zone b.
    """

    def __init__(self, classes: NodeClasses, keys: Sequence[str]) -> None:
        """`keys` are the label keys of the levels from the widest to the narrowest."""
        self.keys = tuple(keys)
        self._classes = classes
        self._codes: dict[str, tuple[Codes, int]] = {}
        self._paths: list[Codes] = []
        """Per configured level the numbers of all paths down to it, of nodes without its label, too."""
        self._cut: dict[tuple[str, str], tuple[Codes, int]] = {}
        self._anywhere = np.zeros(len(classes.names), dtype=np.int32)

    # -- levels --------------------------------------------------------------------------------------

    def level(self, name: str) -> str | None:
        """The label key that a person means by a full key or its last part; None if there is none."""
        word = name.strip()
        if word.lower() in _HOST_NAMES:
            return HOST
        for known in (self.keys, self._classes.columns.keys()):
            for key in known:
                if key.lower() == word.lower():
                    return key
        for known in (self.keys, self._classes.columns.keys()):
            found = [key for key in known if short(key).lower() == word.lower()]
            if found:
                return found[0] if len(found) == 1 or known is self.keys else None
        return None

    def present(self) -> tuple[str, ...]:
        """The configured levels that some node has a label of, from the widest to the narrowest."""
        return tuple([key for key in self.keys if self.codes(key)[1]])

    def above(self, key: str) -> tuple[str, ...]:
        """The configured levels wider than this one, the nearest first."""
        if key == HOST:
            return self.keys[::-1]
        return self.keys[: self.keys.index(key)][::-1] if key in self.keys else ()

    def codes(self, key: str) -> tuple[Codes, int]:
        """[node] the domain it is in, numbered in row order, -1 if in none; and how many there are."""
        found = self._codes.get(key)
        if found is None:
            found = self._codes[key] = self._number(key)
        return found

    def names(self, key: str) -> list[str]:
        """What people call the domains: the values from the widest level down, as "zone-a/rack-3"."""
        codes, count = self.codes(key)
        names = [""] * count
        path = (*self.above(key)[::-1], key)
        for domain, row in zip(*np.unique(codes, return_index=True), strict=True):
            if domain >= 0:
                names[domain] = "/".join(self._values(path, int(row)))
        return names

    def place(self, row: int) -> str:
        """Where the node stands, from the widest level down; "" if it has none of their labels."""
        return "/".join(self._values(self.keys, row)) if self.keys else ""

    def home(self, key: str, row: int) -> tuple[Expression, ...]:
        """What holds of the labels of the nodes in the same domain as this one, and of no others."""
        if key == HOST:
            return (Expression("metadata.name", Operator.IN, (self._classes.names[row],), field=True),)
        found: list[Expression] = []
        for each in (*self.above(key)[::-1], key):
            codes, words = self._classes.columns.column(each)
            if codes[row] >= 0:
                found.append(Expression(each, Operator.IN, (words[int(codes[row])],)))
            else:
                found.append(Expression(each, Operator.DOES_NOT_EXIST))
        return tuple(found)

    def span(self, rows: Iterable[int]) -> dict[str, int]:
        """Over how many domains of each level these node rows spread, from nodes to the widest level."""
        at = np.array(list(dict.fromkeys(rows)), dtype=np.intp)
        found: dict[str, int] = {NODE: len(at)}
        for key in self.present()[::-1]:
            codes = self.codes(key)[0]
            name = short(key) if short(key) not in found else key
            found[name] = len(set(codes[at].tolist()) - {-1})
        return found

    def together(self, key: str, rows: Iterable[int]) -> bool:
        """Whether these node rows lie in one domain of the level."""
        inside = {int(self.codes(key)[0][row]) for row in rows}
        return len(inside) <= 1 and -1 not in inside

    # -- where to try --------------------------------------------------------------------------------

    def regions(
        self, layout: Layout, counts: Sequence[Ints], wanted: Sequence[int], policy: str, load: Ints
    ) -> Iterator[Mask]:
        """Masks of nodes to try in this order; the members may lie in the first one that holds them all.

        `counts` is per task [node] how many of its members fit, `wanted` how many there are, `load` [node]
        how much of it is in use. Each mask has room for every task alone; there is none where no domain has.
        Within a required domain those are tried first that need the fewest preferred ones.
        """
        chances = _Chances(counts, wanted, policy, load)
        few = self.codes(layout.preferred)[0] if layout.preferred else None
        for key in self._between(layout.preferred, layout.required):
            for mask in chances.domains(*self._within(layout.required, key)):
                if key != layout.preferred and few is not None:
                    yield from chances.fewest(few, mask)
                yield mask
        for mask in chances.domains(*self._within(layout.required, "")):
            if few is not None:
                yield from chances.fewest(few, mask)
            yield mask

    def _between(self, preferred: str, required: str) -> Iterator[str]:
        """The preferred level and those wider than it, as far as they are narrower than the required one."""
        if not preferred or preferred == required or preferred in self.above(required):
            return
        yield preferred
        for key in self.above(preferred):
            if key == required:
                return
            if self.codes(key)[1]:
                yield key

    def _within(self, outer: str, inner: str) -> tuple[Codes, int]:
        """Domains of the inner level, cut along those of the outer one; "" for no such cut."""
        if not inner:
            return self.codes(outer) if outer else (self._anywhere, 1)
        if not outer:
            return self.codes(inner)
        found = self._cut.get((outer, inner))
        if found is None:
            wide, narrow = self.codes(outer)[0], self.codes(inner)[0]
            pairs = wide.astype(np.intp) * (int(narrow.max(initial=-1)) + 1) + narrow
            found = _in_row_order(np.where((wide >= 0) & (narrow >= 0), pairs, -1))
            self._cut[outer, inner] = found
        return found

    def _values(self, path: Sequence[str], row: int) -> list[str]:
        if path[-1] == HOST:
            return [self._classes.names[row]]
        columns = [self._classes.columns.column(key) for key in path]
        return [words[int(codes[row])] for codes, words in columns if codes[row] >= 0]

    def _number(self, key: str) -> tuple[Codes, int]:
        if key == HOST:
            named = np.array([name != "" for name in self._classes.names], dtype=bool)
            codes = np.where(named, np.arange(len(named)), -1).astype(np.int32)
            return codes, len(named)
        own, words = self._classes.columns.column(key)
        if key not in self.keys:
            return own, len(words)
        depth = self.keys.index(key)
        while len(self._paths) <= depth:
            column = self._classes.columns.column(self.keys[len(self._paths)])[0]
            parent = (self._paths[-1] if self._paths else self._anywhere).astype(np.intp)
            self._paths.append(_in_row_order(parent * (int(column.max(initial=-1)) + 2) + column + 1)[0])
        return _in_row_order(np.where(own >= 0, self._paths[depth], -1).astype(np.intp))


class _Chances:
    """Which domains have room for every task alone, and in which order a policy would try them."""

    def __init__(self, counts: Sequence[Ints], wanted: Sequence[int], policy: str, load: Ints) -> None:
        self._room = [np.minimum(count, want) for count, want in zip(counts, wanted, strict=True)]
        self._wanted, self._policy, self._load = wanted, policy, load

    def domains(self, codes: Codes, count: int) -> Iterator[Mask]:
        """Single domains that have room, in the policy's order."""
        room = [_sums(codes, count, each) for each in self._room]
        enough = _enough(room, self._wanted, count)
        order = np.flatnonzero(enough)
        if self._policy != "first" and len(order) > 1:
            size = np.maximum(_sums(codes, count, np.ones(len(codes))), 1)
            load = (_sums(codes, count, self._load) / size)[order]
            places = np.sum(room, axis=0)[order] if room else load
            tight = np.lexsort((-load, places)) if self._policy == "pack" else np.lexsort((-places, load))
            order = order[tight]
        for domain in order.tolist():
            yield codes == domain

    def fewest(self, codes: Codes, within: Mask) -> Iterator[Mask]:
        """A union of as few domains as hold everything: the largest, and for the rest the tightest that does.

        Nothing where the domains within these nodes do not hold it, or where one is all that it takes.
        """
        count = int(codes.max(initial=-1)) + 1
        inside = np.where(within, codes, -1)
        room = [_sums(inside, count, each) for each in self._room]
        share = np.sum([has / want for has, want in zip(room, self._wanted, strict=True)], axis=0)
        order = np.argsort(-share, kind="stable")
        upto = [np.cumsum(has[order]) for has in room]
        enough = np.flatnonzero(_enough(upto, self._wanted, count))
        if not len(enough) or enough[0] == 0:
            return
        last = int(enough[0])
        left = [want - total[last - 1] for want, total in zip(self._wanted, upto, strict=True)]
        rest = order[last:]
        fit = rest[_enough([has[rest] for has in room], left, len(rest))]
        tight = fit[share[fit].argmin()]
        yield np.isin(inside, [*order[:last].tolist(), int(tight)])


def _enough(room: Sequence[NDArray[np.float64]], wanted: Sequence[float], count: int) -> Mask:
    result = np.ones(count, dtype=bool)
    for has, want in zip(room, wanted, strict=True):
        result &= has >= want
    return result


def _sums(codes: Codes, count: int, each: NDArray[np.generic]) -> NDArray[np.float64]:
    """[domain] the sum of `each` over its nodes; exact, for numbers of members stay far below 2^53."""
    return np.bincount(codes + 1, weights=each, minlength=count + 1)[1:].astype(np.float64, copy=False)


def _in_row_order(paths: NDArray[np.intp]) -> tuple[Codes, int]:
    """Numbers in the order of their first rows, -1 where the path is negative; and how many there are."""
    known, first, at = np.unique(paths, return_index=True, return_inverse=True)
    real = known >= 0
    order = np.argsort(np.where(real, first, len(paths)), kind="stable")
    number = np.empty(len(known), dtype=np.int32)
    number[order] = np.arange(len(known))
    return np.where(real, number, -1)[at].astype(np.int32), int(real.sum())
