"""Label expressions: over one object's labels, and over those of all nodes at once as interned columns.

Used by `core.labels` and by `core.filters`. The operators are those of node selectors; label selectors of
pods and namespaces use the first four. Semantics: k8s.io/apimachinery labels.Requirement.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fairlead.model.selector import Expression, Operator

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
Mask = NDArray[np.bool_]
Codes = NDArray[np.int32]


def integer(text: str) -> int | None:
    """As Go's strconv.ParseInt reads it: 64 bits, an optional sign, nothing else."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None
    value = int(text)
    return value if -(1 << 63) <= value < 1 << 63 else None


def inside(e: Expression, word: str) -> bool:
    """Whether a label of this value is what In (also of NotIn), Gt or Lt speaks of."""
    if e.operator in (Operator.IN, Operator.NOT_IN):
        return word in e.values
    left, right = integer(word), integer(e.values[0]) if len(e.values) == 1 else None
    if left is None or right is None:
        return False
    return left > right if e.operator == Operator.GT else left < right


def matches(selector: Sequence[Expression] | None, labels: Mapping[str, str]) -> bool:
    """Whether these labels satisfy a label selector: None selects nothing, an empty one everything."""
    return selector is not None and all(_holds(e, labels.get(e.key)) for e in selector)


def _holds(e: Expression, word: str | None) -> bool:
    if e.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return (word is not None) == (e.operator == Operator.EXISTS)
    if word is None:
        return e.operator == Operator.NOT_IN
    return inside(e, word) != (e.operator == Operator.NOT_IN)


class LabelColumns:
    """The labels of a fixed sequence of objects, one interned column per key that is asked for.

    Never changed after it is made, but for its caches.
    """

    def __init__(self, names: Sequence[str], labels: Sequence[Mapping[str, str]]) -> None:
        self._names, self._labels = names, labels
        self._columns: dict[str, tuple[Codes, list[str]]] = {}
        self._words: dict[str, dict[str, int]] = {}
        """Key -> value -> its index."""
        self._masks: dict[Expression, Mask] = {}
        self._keys: list[str] | None = None

    def __len__(self) -> int:
        return len(self._labels)

    def keys(self) -> list[str]:
        """Every label key that any of the objects has, in order of appearance."""
        if self._keys is None:
            known: dict[str, None] = {}
            for labels in self._labels:
                known.update(dict.fromkeys(labels))
            self._keys = list(known)
        return self._keys

    def column(self, key: str) -> tuple[Codes, list[str]]:
        """The label's value per object as an index into the list of values; -1 where it has no such label."""
        found = self._columns.get(key)
        if found is None:
            words: dict[str, int] = {}
            codes = np.full(len(self._labels), -1, dtype=np.int32)
            for i, labels in enumerate(self._labels):
                if key in labels:
                    codes[i] = words.setdefault(labels[key], len(words))
            found = self._columns[key] = (codes, list(words))
            self._words[key] = words
        return found

    def all(self, expressions: Sequence[Expression]) -> Mask:
        """Objects that satisfy every expression."""
        mask = np.ones(len(self._labels), dtype=bool)
        for expression in expressions:
            mask &= self.one(expression)
        return mask

    def any(self, terms: Sequence[Sequence[Expression]]) -> Mask:
        """Objects that satisfy every expression of one of the terms; an empty term matches nothing."""
        union = np.zeros(len(self._labels), dtype=bool)
        for term in terms:
            if term:
                union |= self.all(term)
        return union

    def one(self, e: Expression) -> Mask:
        """Objects that satisfy the expression; the array is shared, so do not change it."""
        mask = self._masks.get(e)
        if mask is None:
            mask = self._masks[e] = self._evaluate(e)
        return mask

    def _evaluate(self, e: Expression) -> Mask:
        if e.field:
            named = np.array([name != "" and name in e.values for name in self._names], dtype=bool)
            return named if e.operator == Operator.IN else ~named
        if not all(LABEL_VALUE.fullmatch(value) for value in e.values):
            return np.zeros(len(self._labels), dtype=bool)  # not even NotIn: the whole term is in error
        codes, words = self.column(e.key)
        if e.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
            return (codes >= 0) == (e.operator == Operator.EXISTS)
        if e.operator in (Operator.IN, Operator.NOT_IN):  # of thousands of values a few are asked for
            known = self._words[e.key]
            hits = [known[value] for value in dict.fromkeys(e.values) if value in known]
        else:
            hits = [i for i, word in enumerate(words) if inside(e, word)]
        hit = np.isin(codes, np.array(hits, dtype=np.int32))
        return ~hit if e.operator == Operator.NOT_IN else hit
