"""Static constraints as masks over nodes: selector, affinity, taints, readiness.

`core.inventory` owns one `NodeClasses` per state of the node metadata and hands it to snapshots;
`core.match` asks it for masks. One mask per distinct constraint, computed over interned label columns
and cached until any node's metadata changes. Semantics: k8s.io/component-helpers nodeaffinity and
tolerations (core/v1), as kube-scheduler's NodeAffinity, TaintToleration and NodeUnschedulable use them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairlead.model.node import Node, Taint
from fairlead.model.pod import Expression, Operator, Shape, Toleration

Mask = NDArray[np.bool_]
Constraints = tuple[tuple[Expression, ...], tuple[tuple[Expression, ...], ...], tuple[Toleration, ...]]

TEMPORARY = "node.kubernetes.io/"
"""Taints under this prefix tell of a node's present condition, not of what it is meant for."""
_NOT_READY = Taint("node.kubernetes.io/not-ready")
_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable")


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """True if any toleration matches the taint (core/v1 Toleration.ToleratesTaint)."""
    return any(
        (not t.effect or t.effect == taint.effect)
        and (t.key == taint.key if t.key else t.operator == "Exists")
        and (t.operator == "Exists" or (t.operator in ("", "Equal") and t.value == taint.value))
        for t in tolerations
    )


def constraints(shape: Shape) -> Constraints:
    """The part of a shape that decides its masks."""
    return shape.selector, shape.affinity, shape.tolerations


def _integer(text: str) -> int | None:
    """As Go's strconv.ParseInt reads it: 64 bits, an optional sign, nothing else."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None


class NodeClasses:
    """Masks over one frozen state of all nodes' metadata. Row i is `nodes[i]`; None is a free row.

    Never changed after it is made, but for its caches, so snapshots may share it.
    """

    def __init__(self, nodes: Sequence[Node | None], gone: Sequence[bool]) -> None:
        self._nodes = list(nodes)
        self.names = tuple(node.name if node else "" for node in nodes)
        self._present = np.array(
            [n is not None and not g for n, g in zip(nodes, gone, strict=True)], dtype=bool
        )
        self._known = np.array([n is not None for n in nodes], dtype=bool)
        self._columns: dict[str, tuple[NDArray[np.int32], list[str]]] = {}
        self._expressions: dict[Expression, Mask] = {}
        self._now: dict[Constraints, Mask] = {}
        self._nominal: dict[Constraints, Mask] = {}

    def now(self, c: Constraints) -> Mask:
        """Nodes that may be used at present: present, ready, not cordoned, labels and taints right."""
        mask = self._now.get(c)
        if mask is None:
            mask = self._now[c] = self._labels(c) & self._present & self._tolerated(c[2], nominal=False)
        return mask

    def nominal(self, c: Constraints) -> Mask:
        """Nodes that could be used if all were up: also those gone, cordoned or not ready."""
        mask = self._nominal.get(c)
        if mask is None:
            mask = self._nominal[c] = self._labels(c) & self._known & self._tolerated(c[2], nominal=True)
        return mask

    def _labels(self, c: Constraints) -> Mask:
        selector, affinity, _ = c
        mask = self._all(selector)
        if affinity:
            union = np.zeros(len(self._nodes), dtype=bool)
            for term in affinity:
                if term:  # an empty term matches nothing
                    union |= self._all(term)
            mask &= union
        return mask

    def _all(self, expressions: Sequence[Expression]) -> Mask:
        mask = np.ones(len(self._nodes), dtype=bool)
        for expression in expressions:
            mask &= self._expression(expression)
        return mask

    def _expression(self, e: Expression) -> Mask:
        mask = self._expressions.get(e)
        if mask is None:
            mask = self._expressions[e] = self._evaluate(e)
        return mask

    def _evaluate(self, e: Expression) -> Mask:
        if e.field:
            inside = np.array([n is not None and n.name in e.values for n in self._nodes], dtype=bool)
            return inside if e.operator == Operator.IN else ~inside
        column, words = self._column(e.key)
        if e.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            return (column >= 0) == (e.operator == Operator.EXISTS)
        hits = [i for i, word in enumerate(words) if _holds(e, word)]
        inside = np.isin(column, np.array(hits, dtype=np.int32))
        return ~inside if e.operator == Operator.NOT_IN else inside

    def _column(self, key: str) -> tuple[NDArray[np.int32], list[str]]:
        """The label's value per node, interned; -1 where the node has no such label."""
        found = self._columns.get(key)
        if found is None:
            words: dict[str, int] = {}
            column = np.full(len(self._nodes), -1, dtype=np.int32)
            for i, node in enumerate(self._nodes):
                if node is not None and key in node.labels:
                    column[i] = words.setdefault(node.labels[key], len(words))
            found = self._columns[key] = (column, list(words))
        return found

    def _tolerated(self, tolerations: Sequence[Toleration], *, nominal: bool) -> Mask:
        verdicts: dict[tuple[tuple[Taint, ...], bool, bool], bool] = {}
        mask = np.zeros(len(self._nodes), dtype=bool)
        for i, node in enumerate(self._nodes):
            if node is None:
                continue
            key = (node.taints, node.ready, node.unschedulable)
            verdict = verdicts.get(key)
            if verdict is None:
                verdict = verdicts[key] = _accepts(node, tolerations, nominal)
            mask[i] = verdict
        return mask


def _holds(e: Expression, word: str) -> bool:
    """Whether a node whose label has this value is inside the expression (NotIn is negated by the caller)."""
    if e.operator in (Operator.IN, Operator.NOT_IN):
        return word in e.values
    left, right = _integer(word), _integer(e.values[0]) if len(e.values) == 1 else None
    if left is None or right is None:
        return False
    return left > right if e.operator == Operator.GT else left < right


def _accepts(node: Node, tolerations: Sequence[Toleration], nominal: bool) -> bool:
    taints = [t for t in node.taints if not (nominal and t.key.startswith(TEMPORARY))]
    if not nominal:
        if node.deleting:
            return False
        if not node.ready:
            taints.append(_NOT_READY)
        if node.unschedulable:
            taints.append(_UNSCHEDULABLE)
    return all(t.effect == "PreferNoSchedule" or tolerates(tolerations, t) for t in taints)
