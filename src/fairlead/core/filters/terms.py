"""Required anti-affinity terms, found by the labels of the pods that they may be about.

Part of a `core.filters.pods.PodIndex`, and of a `core.crowd.Crowd` for those who wait. On a cluster where
each of thousands of services keeps apart from itself, one of their terms is about a pod, not all.
"""

from collections.abc import Iterator, Mapping

from fairlead.model.rules import PodTerm
from fairlead.model.selector import Operator

Forbidding = tuple[str, PodTerm]
"""(The namespace of the pods that have it, a term)."""


class Terms:
    """Each term under the first label that it names with its values, if it names any."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], dict[Forbidding, None]] = {}
        self._others: dict[Forbidding, None] = {}

    def add(self, term: Forbidding) -> None:
        """Take the term in; to do it again changes nothing."""
        for label in _labels(term):
            self._named.setdefault(label, {})[term] = None
        if not _labels(term):
            self._others[term] = None

    def discard(self, term: Forbidding) -> None:
        """Forget the term."""
        for label in _labels(term):
            terms = self._named.get(label, {})
            terms.pop(term, None)
            if not terms:
                self._named.pop(label, None)
        self._others.pop(term, None)

    def about(self, labels: Mapping[str, str]) -> Iterator[Forbidding]:
        """The terms that may be about a pod with these labels, each once; all others are not."""
        for label in labels.items():
            yield from self._named.get(label, ())
        yield from self._others


def _labels(term: Forbidding) -> list[tuple[str, str]]:
    for expression in term[1].selector or ():
        if expression.operator == Operator.IN:
            return [(expression.key, value) for value in dict.fromkeys(expression.values)]
    return []
