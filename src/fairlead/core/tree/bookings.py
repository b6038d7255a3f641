"""Who holds which vertices, and when: allocations and reservations over time.

Owned by `core.tree.graph`; read by matching. A vertex is held exclusively (all of it) or shared (something
below it is held). Times are whole seconds, spans are half-open [start, end). Must not decide anything.
"""

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from fairlead.core.tree.room import Room

Span = tuple[int, int]


class Held(Struct, frozen=True):
    """One vertex of a job: how much of it, and whether nobody else may use it."""

    needs: int
    exclusive: bool


@lru_cache(maxsize=1 << 12)
def holding(needs: int, exclusive: bool) -> Held:
    """The same Held for all vertices of which as much is held: jobs hold many alike."""
    return Held(needs, exclusive)


class Job(Struct):
    """What a job holds. `held` is in the order of emission: children before their parent."""

    id: int
    start: int
    end: int
    reserved: bool
    held: dict[int, Held]
    counts: bool = True
    """Whether its start and end are instants at which later requests are tried."""


class Bookings:
    """All jobs, by id and by vertex."""

    def __init__(self, types: list[str], sizes: list[int]) -> None:
        """Over vertices of these types and sizes."""
        self._types, self._sizes = types, sizes
        self.jobs: dict[int, Job] = {}
        self.exclusive: dict[int, dict[int, Span]] = {}
        """Vertex -> job -> span, for what is held exclusively. Vertices of one job alone share a dict."""
        self.any: dict[int, dict[int, Span]] = {}
        """The same for all that is held, shared or not."""
        self.room = Room()

    def add(self, job: Job) -> None:
        """Book a new job."""
        self.jobs[job.id] = job
        self._count(job, 1)
        alone = {job.id: (job.start, job.end)}
        _put(self.any, job.held, alone)
        _put(self.exclusive, [v for v, held in job.held.items() if held.exclusive], alone)

    def remove(self, id_: int) -> Job:
        """Give back all that the job holds."""
        job = self.jobs.pop(id_)
        self._count(job, -1)
        for v in job.held:
            self._forget(v, id_)
        return job

    def release(self, id_: int, vertices: Iterable[int]) -> None:
        """Give back some vertices of a job."""
        job = self.jobs[id_]
        self._count(job, -1)
        for v in vertices:
            if job.held.pop(v, None) is not None:
                self._forget(v, id_)
        self._count(job, 1)

    def free(self, v: int, start: int, end: int) -> bool:
        """Whether nobody holds the vertex exclusively at any time in [start, end)."""
        spans = self.exclusive.get(v)
        return not spans or not _overlap(spans, start, end)

    def untouched(self, v: int, start: int, end: int) -> bool:
        """Whether nobody holds the vertex or anything below it in [start, end)."""
        spans = self.any.get(v)
        return not spans or not _overlap(spans, start, end)

    def allocated(self, v: int) -> bool:
        """Whether some allocation, however long it should have lasted, holds the vertex exclusively."""
        return any(not self.jobs[id_].reserved for id_ in self.exclusive.get(v, ()))

    def in_use(self, v: int) -> bool:
        """Whether some allocation, however long it should have lasted, holds the vertex or a part of it."""
        return any(not self.jobs[id_].reserved for id_ in self.any.get(v, ()))

    def check(self) -> list[str]:
        """Every pair of jobs that hold one vertex at one time although one holds it exclusively."""
        wrong: list[str] = []
        for v, owners in self.exclusive.items():
            for id_, (start, end) in owners.items():
                wrong += [
                    f"vertex {v}: held by job {id_} exclusively and by job {other}"
                    for other, span in self.any[v].items()
                    if other != id_ and start < span[1] and span[0] < end
                ]
        return wrong

    def moved(self, where: dict[int, int], types: list[str], sizes: list[int]) -> "Bookings":
        """The same over another tree: old -> new vertex numbers; what is not in it is given back."""
        other = Bookings(types, sizes)
        for job in self.jobs.values():
            held = {where[v]: held for v, held in job.held.items() if v in where}
            if any(each.exclusive for each in held.values()):
                other.add(Job(job.id, job.start, job.end, job.reserved, held, job.counts))
        return other

    def _count(self, job: Job, by: int) -> None:
        """Let the job's amounts count (1), or no longer (-1), if its instants do."""
        if not job.counts or job.end <= job.start:
            return
        amounts: dict[str, int] = {}
        for v, held in job.held.items():
            if held.exclusive:
                amounts[self._types[v]] = amounts.get(self._types[v], 0) + self._sizes[v]
        self.room.change(job.start, job.end, amounts, by)

    def _forget(self, v: int, id_: int) -> None:
        for spans in (self.any, self.exclusive):
            there = spans.get(v)
            if there is not None and id_ in there:
                if len(there) == 1:
                    del spans[v]
                else:
                    del there[id_]


def _put(spans: dict[int, dict[int, Span]], vertices: Iterable[int], alone: dict[int, Span]) -> None:
    """One more job on vertices. A dict of one entry may be shared by vertices, so it is never changed."""
    before = {v: there for v in vertices if (there := spans.get(v)) is not None}
    spans.update(dict.fromkeys(vertices, alone))
    for v, there in before.items():
        if len(there) == 1:
            spans[v] = there | alone
        else:
            there.update(alone)
            spans[v] = there


def _overlap(spans: dict[int, Span], start: int, end: int) -> bool:
    return any(a < end and start < b for a, b in spans.values())
