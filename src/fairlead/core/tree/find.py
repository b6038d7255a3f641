"""`find`: which vertices meet an expression such as `status=up and (sched-now=free or property=fast)`.

Called by `cli.resource_query`. What is true of a vertex that is down, allocated or reserved is true of all
below it. The answer holds the ancestors of what was found. Must not change anything.
"""

import re
from collections.abc import Callable

from fairlead.core.tree.columns import TreeError
from fairlead.core.tree.graph import Graph
from fairlead.model.idset import hostlist

_TOKEN = re.compile(r"\s*(\(|\)|[^\s()]+)")
_ID = re.compile(r"[0-9]{1,18}")
Test = Callable[[int], bool]

_VALUES = {
    "status": ("up", "down"),
    "sched-now": ("allocated", "free"),
    "sched-future": ("reserved", "free"),
    "agfilter": ("true", "t", "false", "f"),
}
_JOBS = ("jobid-alloc", "jobid-reserved", "jobid-span", "jobid-tag")


class Found:
    """What `find` found: vertices, children before their parents, and what the expression asks to show."""

    def __init__(self, graph: Graph, expression: str) -> None:
        """Raises TreeError for an expression that cannot be read."""
        self.graph = graph
        self.filters = False
        self.job = 0
        self._tokens: list[str] = _TOKEN.findall(expression)
        self._text, self._at = expression, 0
        test = self._either()
        if self._at != len(self._tokens):
            raise self._wrong()
        self._inherited = _Inherited(graph)
        self.vertices = self._collect(0, test)

    def shown_filters(self, v: int, now: int) -> dict[str, str]:
        """type -> "used:N, total:N" at a vertex: of the job named in the expression, or of all at `now`."""
        filters, bookings = self.graph.filters, self.graph.bookings
        held = bookings.jobs[self.job].held if self.job in bookings.jobs else None
        shown: dict[str, str] = {}
        for type_ in sorted(filters.types_at(v)):
            used = (
                filters.used_by(held, v)[type_] if held is not None else filters.used(bookings, v, type_, now)
            )
            shown[type_] = f"used:{used}, total:{filters.total(v, type_)}"
        return shown

    def _collect(self, v: int, test: Test) -> list[int]:
        inherited = self._inherited
        inherited.enter(v)
        found: list[int] = []
        for child in self.graph.tree.children[v]:
            found.extend(self._collect(child, test))
        if found or test(v):
            counted = not self.filters or (self.graph.tree.children[v] and (not self.job or self._spans(v)))
            if counted:
                found.append(v)
        inherited.leave(v)
        return found

    def _spans(self, v: int) -> bool:
        job = self.graph.bookings.jobs.get(self.job)
        return job is not None and v in job.held

    # -- expressions ---------------------------------------------------------------------------------

    def _either(self) -> Test:
        test = self._both()
        while self._next("or"):
            left, right = test, self._both()
            test = _or(left, right)
        return test

    def _both(self) -> Test:
        test = self._one()
        while self._at < len(self._tokens) and self._tokens[self._at] not in ("or", ")"):
            self._next("and")  # two terms without a word between them are both meant
            left, right = test, self._one()
            test = _and(left, right)
        return test

    def _one(self) -> Test:
        if self._next("not"):
            inner = self._one()
            return lambda v: not inner(v)
        if self._next("("):
            inside = self._either()
            if not self._next(")"):
                raise self._wrong()
            return inside
        if self._at == len(self._tokens):
            raise self._wrong()
        token = self._tokens[self._at]
        self._at += 1
        return self._predicate(token)

    def _predicate(self, token: str) -> Test:
        key, equals, value = token.partition("=")
        if not equals or not value or value not in _VALUES.get(key, (value,)):
            raise self._wrong()
        if key == "status":
            return lambda _: (self._inherited.down > 0) == (value == "down")
        if key == "sched-now":
            return lambda _: (self._inherited.allocated > 0) == (value == "allocated")
        if key == "sched-future":
            return lambda _: (self._inherited.reserved > 0) == (value == "reserved")
        if key == "agfilter":
            self.filters = value in ("true", "t")
            return lambda _: True
        if key == "property":
            return lambda v: value in self.graph.tree.properties(v)
        if key == "names":
            return self._names(value)
        if key in _JOBS and _ID.fullmatch(value):
            return self._of_job(key, int(value))
        raise self._wrong()

    def _names(self, text: str) -> Test:
        try:
            names = set(hostlist(text))
        except ValueError as error:
            raise TreeError(f"find: {error}") from None
        return lambda v: self.graph.tree.name(v) in names

    def _of_job(self, key: str, id_: int) -> Test:
        self.job = id_
        job = self.graph.bookings.jobs.get(id_)
        if (
            job is None
            or (key == "jobid-alloc" and job.reserved)
            or (key == "jobid-reserved" and not job.reserved)
        ):
            return lambda _: False
        if key in ("jobid-tag", "jobid-span"):
            spans = self.graph.filters.sees_below
            return lambda v: v in job.held and (key == "jobid-tag" or spans(job.held, v))
        return lambda v: v in job.held and job.held[v].exclusive

    def _next(self, word: str) -> bool:
        there = self._at < len(self._tokens) and self._tokens[self._at] == word
        self._at += there
        return there

    def _wrong(self) -> TreeError:
        return TreeError(f"find: invalid criteria: {self._text}")


class _Inherited:
    """How many of a vertex and its ancestors are down, allocated, reserved, during a walk."""

    def __init__(self, graph: Graph) -> None:
        self.down = self.allocated = self.reserved = 0
        self._graph = graph

    def enter(self, v: int) -> None:
        self._change(v, 1)

    def leave(self, v: int) -> None:
        self._change(v, -1)

    def _change(self, v: int, by: int) -> None:
        jobs = self._graph.bookings.jobs
        holders = self._graph.bookings.exclusive.get(v, {})
        self.down += by * (not self._graph.tree.up[v])
        self.allocated += by * any(not jobs[id_].reserved for id_ in holders)
        self.reserved += by * any(jobs[id_].reserved for id_ in holders)


def _and(left: Test, right: Test) -> Test:
    return lambda v: left(v) and right(v)


def _or(left: Test, right: Test) -> Test:
    return lambda v: left(v) or right(v)
