"""A world in which electors compete for a Lease: a time of its own, and everything that goes wrong.

Electors run as its coroutines: each has a clock that is wrong and runs too fast or too slow, requests
take as long as the world likes, processes are stopped and go on. Used by tests/unit/test_lease.py.
"""

import contextlib
import heapq
import itertools
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

from fairlead.kube.errors import ApiError, KubeError, Unreachable
from fairlead.kube.lease import Elector, Lease, Spec, Timing

T = TypeVar("T")
TIMING = Timing(duration=15, renew_deadline=10, retry_period=2)


class Pause:
    """Awaited by a process of the world: the world resumes it after so many of its seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __await__(self) -> Generator[float, None, None]:
        yield self.seconds


class World:
    """Runs coroutines that await Pauses. `now` is true time; nobody in it knows that."""

    def __init__(self) -> None:
        self.now = 0.0
        self.after: Callable[[], None] = lambda: None
        """Called after every step of anybody."""
        self._numbers = itertools.count()
        self._queue: list[tuple[float, int, Coroutine[Any, Any, Any], str]] = []
        self._stopped: dict[str, float] = {}
        self._killed: set[str] = set()

    def begin(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self._put(0, work, name)

    def stop(self, name: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT so much later."""
        self._stopped[name] = self.now + seconds

    def kill(self, name: str) -> None:
        self._killed.add(name)

    def _put(self, seconds: float, work: Coroutine[Any, Any, Any], name: str) -> None:
        heapq.heappush(self._queue, (self.now + seconds, next(self._numbers), work, name))

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            at, _, work, name = heapq.heappop(self._queue)
            self.now = max(self.now, at)
            if name in self._killed:
                work.close()
            elif self._stopped.get(name, 0) > self.now:
                heapq.heappush(self._queue, (self._stopped[name], next(self._numbers), work, name))
            else:
                with contextlib.suppress(StopIteration):
                    self._put(work.send(None), work, name)
                self.after()
        self.now = until
        self.after()

    def close(self) -> None:
        for _, _, work, _ in self._queue:
            work.close()


class Server:
    """Where the Lease is. `delays` says for each request how long it travels there and back."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lease: Lease | None = None
        self.version = 0
        self.away = False
        self.history: list[Spec] = []
        self.delays: Callable[[], tuple[float, float]] = lambda: (0.01, 0.01)

    def write(self, spec: Spec) -> Lease:
        self.version += 1
        self.lease = Lease({"name": "fairlead", "resourceVersion": str(self.version)}, spec)
        self.history.append(spec)
        return self.lease

    def delete(self) -> None:
        self.lease = None

    @property
    def spec(self) -> Spec:
        assert self.lease is not None
        return self.lease.spec


class Line:
    """One process's way to the server. An answer after its time-out is none, but the request was made."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.cut = False

    async def get(self, timeout: float) -> Lease | None:
        return await self._ask(timeout, lambda: self.server.lease)

    async def create(self, spec: Spec, timeout: float) -> Lease:
        def act() -> Lease:
            if self.server.lease is not None:
                raise ApiError("it exists", status=409)
            return self.server.write(spec)

        return await self._ask(timeout, act)

    async def update(self, lease: Lease, timeout: float) -> Lease:
        def act() -> Lease:
            if self.server.lease is None:
                raise ApiError("not found", status=404)
            if self.server.lease.metadata["resourceVersion"] != lease.metadata["resourceVersion"]:
                raise ApiError("it has changed", status=409)
            return self.server.write(lease.spec)

        return await self._ask(timeout, act)

    async def _ask(self, timeout: float, act: Callable[[], T]) -> T:
        there, back = self.server.delays()
        if self.cut or self.server.away:
            await Pause(timeout)
            raise Unreachable("no answer")
        if there >= timeout:  # it arrives all the same, long after it was given up
            self.server.world.begin("the network", self._late(there, act))
            await Pause(timeout)
            raise Unreachable("no answer in time")
        await Pause(there)
        found = act()
        if there + back > timeout:
            await Pause(timeout - there)
            raise Unreachable("the answer came too late")
        await Pause(back)
        return found

    async def _late(self, seconds: float, act: Callable[[], object]) -> None:
        await Pause(seconds)
        with contextlib.suppress(KubeError):
            act()


class Process:
    """A candidate with a clock of its own. `lives` are its reasons to step down, in order."""

    def __init__(
        self, world: World, server: Server, name: str, *, offset: float = 0.0, rate: float = 1.0,
        timing: Timing = TIMING, draw: Callable[[], float] = lambda: 0.5,
    ) -> None:  # fmt: skip
        self.world, self.name, self.line = world, name, Line(server)
        self.lives: list[str] = []

        async def sleep(seconds: float) -> None:
            await Pause(seconds / rate)

        self.elector = Elector(
            self.line, timing, me=name, clock=lambda: world.now * rate + offset, sleep=sleep, draw=draw
        )

    def begin(self) -> "Process":
        self.world.begin(self.name, self._live())
        return self

    async def _live(self) -> None:
        while True:
            await self.elector.acquire()
            self.lives.append(await self.elector.hold())

    @property
    def allowed(self) -> float:
        return self.elector.allowed()
