"""A plain textbook simulator: processor counts only, no nodes, no events, no ledger.

The reference of `bench.simulate` and of tests/property/test_simulate.py; it must not import Fairlead, so
that two programs have to agree. At one instant all completions come first, then all arrivals in order of
the workload, then one pass. D. A. Lifka, "The ANL/IBM SP Scheduling System" (1995), is `easy`;
A. W. Mu'alem and D. G. Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in
Scheduling the IBM SP2 with Backfilling" (2001), is `conservative`.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple


class Job(NamedTuple):
    """Times in any one unit; 0 < run <= estimate, and procs no more than the machine has."""

    id: str
    submit: int
    run: int
    procs: int
    estimate: int


class Profile:
    """Free processors over time: `free[i]` from `times[i]` to `times[i + 1]`, the last without end."""

    def __init__(self, procs: int) -> None:
        self.times = [-1 << 62]
        self.free = [procs]

    def forget_before(self, now: int) -> None:
        """What was before now is of no use; the first step begins now."""
        first = bisect_right(self.times, now) - 1
        if first:
            del self.times[:first], self.free[:first]
        self.times[0] = now

    def earliest(self, procs: int, span: int) -> int:
        """The first instant from which on so many are free for so long."""
        start = until = -1
        for time, free in zip(self.times, self.free, strict=True):
            if start >= 0 and time >= until:
                return start
            if free < procs:
                start = -1
            elif start < 0:
                start, until = time, time + span
        return start

    def take(self, start: int, end: int, procs: int) -> None:
        """So many fewer are free from start to end; negative gives back."""
        first, last = self._step(start), self._step(end)
        free = self.free
        for i in range(first, last):
            free[i] -= procs
        self._join(last)
        self._join(first)

    def _step(self, time: int) -> int:
        """The place of the step that begins then; made if there is none."""
        i = bisect_left(self.times, time)
        if i == len(self.times) or self.times[i] != time:
            self.times.insert(i, time)
            self.free.insert(i, self.free[i - 1])
        return i

    def _join(self, i: int) -> None:
        """A step at which nothing changes is none."""
        if i > 0 and self.free[i] == self.free[i - 1]:
            del self.times[i], self.free[i]


class Machine:
    """The clock, the queue, and who runs. A policy is a `decide` that calls `start`."""

    def __init__(self, procs: int, jobs: Sequence[Job]) -> None:
        self.procs = self.free = procs
        self.jobs = jobs
        self.now = 0
        self.queue: list[int] = []
        """Places in the workload, in queue order."""
        self.starts = [-1] * len(jobs)
        self._ends: list[tuple[int, int]] = []

    def run(self) -> list[int]:
        """The start of every job."""
        jobs, ends, arrived = self.jobs, self._ends, 0
        while arrived < len(jobs) or self.queue or ends:
            now = self.now = self._next_instant(arrived)
            ended: list[int] = []
            while ends and ends[0][0] == now:
                ended.append(heappop(ends)[1])
            for i in ended:
                self.free += jobs[i].procs
            while arrived < len(jobs) and jobs[arrived].submit == now:
                self.queue.append(arrived)
                arrived += 1
            self.decide(ended)
        return self.starts

    def start(self, i: int) -> None:
        """Job i starts now. Taking it from the queue is the policy's business."""
        job = self.jobs[i]
        self.free -= job.procs
        self.starts[i] = self.now
        heappush(self._ends, (self.now + job.run, i))

    def wake(self) -> int | None:
        """An instant at which nothing may end or come and yet a job is to start."""
        return None

    def decide(self, ended: Sequence[int], /) -> None:
        """One pass; `ended` are the jobs that completed at this instant."""
        raise NotImplementedError

    def _next_instant(self, arrived: int) -> int:
        times: list[int] = []
        if arrived < len(self.jobs):
            times.append(self.jobs[arrived].submit)
        if self._ends:
            times.append(self._ends[0][0])
        wake = self.wake()
        if wake is not None:
            times.append(wake)
        return min(times)


class Fcfs(Machine):
    """A head that does not fit blocks all."""

    def decide(self, _: Sequence[int], /) -> None:
        self.start_heads()

    def start_heads(self) -> None:
        """Start from the front of the queue while it fits."""
        begun = 0
        for i in self.queue:
            if self.jobs[i].procs > self.free:
                break
            self.start(i)
            begun += 1
        del self.queue[:begun]


class Easy(Fcfs):
    """The head has a reservation; another may start that ends before it or takes what the head leaves."""

    def __init__(self, procs: int, jobs: Sequence[Job]) -> None:
        super().__init__(procs, jobs)
        self.releases: list[tuple[int, int]] = []
        """(estimated end, job) of what runs, sorted."""

    def start(self, i: int) -> None:
        super().start(i)
        insort(self.releases, (self.now + self.jobs[i].estimate, i))

    def decide(self, ended: Sequence[int], /) -> None:
        for i in ended:
            release = (self.starts[i] + self.jobs[i].estimate, i)
            del self.releases[bisect_left(self.releases, release)]
        self.start_heads()
        if len(self.queue) > 1 and self.free:
            self.backfill()

    def backfill(self) -> None:
        """First fit in queue order, once."""
        jobs, now = self.jobs, self.now
        shadow, extra = self.shadow(jobs[self.queue[0]].procs)
        begun: list[int] = []
        for i in self.queue[1:]:
            procs = jobs[i].procs
            if procs > self.free:
                continue
            if now + jobs[i].estimate > shadow:
                if procs > extra:
                    continue
                extra -= procs
            self.start(i)
            begun.append(i)
            if not self.free:
                break
        for i in begun:
            self.queue.remove(i)

    def shadow(self, procs: int) -> tuple[int, int]:
        """When the head can start by the estimates, and how many processors it then leaves."""
        free, shadow = self.free, self.now
        for end, i in self.releases:
            if free >= procs and end > shadow:
                break
            free += self.jobs[i].procs
            shadow = end
        return shadow, free - procs


class Conservative(Machine):
    """Everybody is promised a start on arrival; after a completion promises move up, one by one."""

    def __init__(self, procs: int, jobs: Sequence[Job]) -> None:
        super().__init__(procs, jobs)
        self.profile = Profile(procs)
        self.promised: dict[int, int] = {}
        """Job -> start, in queue order. In `queue` are only those that have just arrived."""

    def wake(self) -> int | None:
        return min(self.promised.values(), default=None)

    def decide(self, ended: Sequence[int], /) -> None:
        jobs, profile = self.jobs, self.profile
        profile.forget_before(self.now)
        for i in ended:
            limit = self.starts[i] + jobs[i].estimate
            if self.now < limit:
                profile.take(self.now, limit, -jobs[i].procs)
        if ended:
            for i, old in self.promised.items():
                job = jobs[i]
                profile.take(old, old + job.estimate, -job.procs)
                self.promise(i)
        for i in self.queue:
            self.promise(i)
        self.queue.clear()
        begun = [i for i, start in self.promised.items() if start == self.now]
        for i in begun:
            del self.promised[i]
            self.start(i)

    def promise(self, i: int) -> None:
        """The earliest hole that fits the estimate."""
        job = self.jobs[i]
        start = self.profile.earliest(job.procs, job.estimate)
        self.profile.take(start, start + job.estimate, job.procs)
        self.promised[i] = start


class Anew(Machine):
    """Each pass lays the queue out anew: who cannot start now is promised a start, up to `depth` of them."""

    def __init__(self, procs: int, jobs: Sequence[Job], depth: int) -> None:
        super().__init__(procs, jobs)
        self.depth = depth
        self.running = Profile(procs)

    def decide(self, ended: Sequence[int], /) -> None:
        jobs, now = self.jobs, self.now
        self.running.forget_before(now)
        for i in ended:
            limit = self.starts[i] + jobs[i].estimate
            if now < limit:
                self.running.take(now, limit, -jobs[i].procs)
        if not self.queue:
            return
        profile = Profile(self.procs)
        profile.times, profile.free = self.running.times[:], self.running.free[:]
        promised = 0
        waiting: list[int] = []
        for i in self.queue:
            job = jobs[i]
            if promised == self.depth and job.procs > self.free:
                waiting.append(i)
                continue
            start = profile.earliest(job.procs, job.estimate)
            if start == now:
                self.start(i)
                self.running.take(now, now + job.estimate, job.procs)
            else:
                waiting.append(i)
                if promised == self.depth:
                    continue
                promised += 1
            profile.take(start, start + job.estimate, job.procs)
        self.queue = waiting


POLICIES: dict[str, Callable[[int, Sequence[Job]], Machine]] = {
    "fcfs": Fcfs,
    "easy": Easy,
    "conservative": Conservative,
    "replan": lambda procs, jobs: Anew(procs, jobs, 1 << 60),
}


def simulate(policy: str, procs: int, jobs: Sequence[Job]) -> list[int]:
    """The start of every job, in order; `hybrid:N` lays N reservations anew in each pass, 0 all."""
    if policy.startswith("hybrid:"):
        depth = int(policy.removeprefix("hybrid:"))
        return Anew(procs, jobs, depth or 1 << 60).run()
    return POLICIES[policy](procs, jobs).run()
