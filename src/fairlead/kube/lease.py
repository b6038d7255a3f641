"""Leader election by a Lease (coordination.k8s.io/v1): who of several replicas may write, and for how long.

Made by the composition root, which awaits `acquire`, then `hold`; `allowed` is the fence of every writer in
`kube.port`. The rules are those of client-go's election: a candidate takes over only when it has itself seen
no renewal for the holder's lease duration, on its own clock; nobody compares the clocks of two machines. Must
not write anything but its Lease.
"""

import asyncio
import os
import random
import secrets
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from math import ceil
from typing import Any, Protocol

import msgspec
import structlog
from msgspec import Struct

from fairlead.kube.client import ApiClient, segment
from fairlead.kube.errors import ApiError, ConfigError, KubeError, Unreachable
from fairlead.runtime.clock import even_ns

_log = structlog.get_logger("fairlead.leader")

JITTER = 1.2
"""A candidate waits for 1 to 1 + JITTER retry periods, as in client-go: two do not collide for ever."""
DRIFT = 0.01
"""The holder counts its lease this much shorter: the clocks of two machines do not run equally fast."""
NO_TIME = float("-inf")


class Spec(Struct, frozen=True, rename="camel", omit_defaults=True):
    """LeaseSpec: the fields that an election needs. `lease_duration_seconds` is that of the holder."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True, rename="camel"):
    """The object; its metadata travels as it came, resourceVersion included."""

    metadata: dict[str, Any]
    spec: Spec = Spec()
    kind: str = "Lease"
    api_version: str = "coordination.k8s.io/v1"


class Timing(Struct, frozen=True):
    """Seconds. Defaults and rules are client-go's; `duration` is a whole number, as the Lease has it."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def check(self) -> None:
        """Raises ConfigError where no lease could be kept with these."""
        if self.duration < 1 or self.duration != int(self.duration):
            raise ConfigError(
                f"the lease duration ({self.duration:g} s) must be whole seconds, 1 or more: --lease-duration"
            )
        if self.retry_period <= 0:
            raise ConfigError(f"the retry period ({self.retry_period:g} s) must be above 0: --retry-period")
        if self.duration <= self.renew_deadline:
            raise ConfigError(
                f"the lease duration ({self.duration:g} s) must be longer than the renew deadline "
                f"({self.renew_deadline:g} s): --lease-duration, --renew-deadline"
            )
        if self.renew_deadline <= self.retry_period * JITTER:
            raise ConfigError(
                f"the renew deadline ({self.renew_deadline:g} s) must be longer than {JITTER:g} times the "
                f"retry period ({self.retry_period:g} s): --renew-deadline, --retry-period"
            )


class Leases(Protocol):
    """Where the Lease lives. All raise KubeError: ApiError for an answer, Unreachable for none."""

    async def get(self, timeout: float) -> Lease | None: ...

    async def create(self, spec: Spec, timeout: float) -> Lease: ...

    async def update(self, lease: Lease, timeout: float) -> Lease: ...


_decode = msgspec.json.Decoder(Lease).decode


class ApiLeases:
    """One Lease on the API server."""

    def __init__(self, client: ApiClient, namespace: str, name: str) -> None:
        self._client, self._namespace, self._name = client, namespace, name
        self._folder = f"/apis/coordination.k8s.io/v1/namespaces/{segment(namespace)}/leases"
        self._path = f"{self._folder}/{segment(name)}"

    async def get(self, timeout: float) -> Lease | None:
        try:
            return _read(await self._client.request("GET", self._path, timeout=timeout))
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def create(self, spec: Spec, timeout: float) -> Lease:
        body = msgspec.json.encode(Lease({"name": self._name, "namespace": self._namespace}, spec))
        return _read(await self._client.post(self._folder, body, timeout=timeout))

    async def update(self, lease: Lease, timeout: float) -> Lease:
        body = msgspec.json.encode(lease)
        return _read(await self._client.request("PUT", self._path, body, timeout=timeout))


def _read(body: bytes) -> Lease:
    try:
        return _decode(body)
    except msgspec.MsgspecError as error:
        raise Unreachable(f"the Lease cannot be read: {error}") from error


def even() -> float:
    """Seconds on a clock that nobody sets, and that goes on while the machine sleeps or we are stopped."""
    return even_ns() / 1e9


def identity() -> str:
    """A name for this process that no other has had: two with one name would both believe that they lead."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class Elector:
    """One candidate. `leader` is the holder last seen, "" for none; `me` is this one."""

    def __init__(
        self,
        leases: Leases,
        timing: Timing,
        *,
        me: str = "",
        clock: Callable[[], float] = even,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        timing.check()
        self.me = me or identity()
        self.leader = ""
        self._leases, self._timing = leases, timing
        self._clock, self._sleep, self._draw = clock, sleep, draw
        self._lease: Lease | None = None
        """The record as it was last read or written."""
        self._stale = True
        """It may have changed since: it is read again before anything is written over it."""
        self._seen_at = NO_TIME
        """When the record was first seen as it is now."""
        self._sent = NO_TIME
        """When the last renewal that succeeded was sent: the lease is ours from then on, never longer."""
        self._led = asyncio.Event()
        self._said = ""

    # -- asked by others ---------------------------------------------------------------------------------

    def allowed(self) -> float:
        """Seconds that a request sent now may take so that it ends while the lease is ours; 0: send none."""
        if not self._led.is_set():
            return 0.0
        return max(0.0, self._sent + self._timing.duration * (1 - DRIFT) - self._clock())

    @property
    def standing(self) -> str:
        """Why this one does not lead, in words; "" while it does."""
        if self._led.is_set():
            return ""
        return f"standby: {self.leader} leads" if self.leader else "standby: nobody leads yet"

    async def until_led(self) -> None:
        """Returns at once while something may be written, else when it may be."""
        while not self.allowed():
            await self._led.wait()
            if not self.allowed():  # run out, and not noticed yet
                await self._sleep(self._timing.retry_period)

    # -- the life of a leader ----------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Returns once the lease is ours. Faults of the API server are waited out."""
        told = None
        while not await self._attempt(self._timing.renew_deadline / 2):
            if self.leader != told:
                told = self.leader
                _log.info("stands by", leader=told or "nobody yet")
            pause = self._timing.retry_period * (1 + JITTER * self._draw())
            expiry = self._seen_at + self._patience() - self._clock()
            if expiry > 0:  # not long after it: the others come too
                pause = min(pause, expiry + self._timing.retry_period * 0.2 * self._draw())
            await self._sleep(pause)
        self._led.set()
        _log.info("leads", replica=self.me, before=told or "")

    async def hold(self) -> str:
        """Renews until the lease is lost, and says why it is. From then on nothing may be written."""
        try:
            while True:
                await self._sleep(self._timing.retry_period)
                if lost := await self._renew():
                    return lost
        finally:
            self._led.clear()

    async def release(self) -> None:
        """Let a standby take over at once. Only when nothing that was sent is under way any more."""
        self._led.clear()
        text = ""
        for _ in range(2):  # a renewal that was cut off may have changed it
            try:
                await self._give_back(self._timing.retry_period)
                return
            except KubeError as error:
                text, self._stale = str(error), True
        _log.warning("the lease could not be released: it runs out by itself", error=text)

    async def _give_back(self, timeout: float) -> None:
        lease = await self._leases.get(timeout) if self._stale else self._lease
        if lease is None or lease.spec.holder_identity != self.me:
            return
        now = _now_text()
        spec = msgspec.structs.replace(
            lease.spec, holder_identity=None, lease_duration_seconds=1, renew_time=now, acquire_time=now
        )
        self._stale = True
        await self._leases.update(msgspec.structs.replace(lease, spec=spec), timeout)
        _log.info("the lease is released")

    # -- one look ----------------------------------------------------------------------------------------

    async def _renew(self) -> str:
        """One renewal, tried again until the renew deadline; why the lease is lost, "" if it is not."""
        deadline = self._sent + self._timing.renew_deadline
        while True:
            # However late it is, once is tried: a process that slept while nobody took over still leads.
            left = max(deadline - self._clock(), self._timing.retry_period)
            if await self._attempt(min(left, self._timing.renew_deadline / 2)):
                return ""
            if self.leader != self.me:
                return f"{self.leader or 'nobody'} holds the lease"
            if self._clock() + self._timing.retry_period >= deadline:
                return f"the lease was not renewed for {self._clock() - self._sent:.1f} s: {self._said}"
            await self._sleep(self._timing.retry_period)

    async def _attempt(self, timeout: float) -> bool:
        """Take or renew the lease if that may be done now. False when another has it, or on any fault."""
        text = ""
        for _ in range(2):
            try:
                return await self._take(timeout)
            except KubeError as error:
                text, self._stale = str(error), True
                if not isinstance(error, ApiError) or error.status not in (404, 409):
                    break  # else it has changed, or is gone: who has it now?
        self._say(text)
        return False

    async def _take(self, timeout: float) -> bool:
        if self._stale or not self._led.is_set():
            found = await self._leases.get(timeout)
            if found is None:
                return not self._another() and await self._write(None, timeout)
            self._observe(found)
        lease = self._lease
        lost = self._led.is_set() and self.leader != self.me
        if self._another() or lease is None or lost:
            return False
        return await self._write(lease, timeout)

    def _another(self) -> bool:
        """Whether another one may still lead, as far as this one has seen."""
        return self.leader not in ("", self.me) and self._clock() < self._seen_at + self._patience()

    async def _write(self, lease: Lease | None, timeout: float) -> bool:
        """The lease with our name in it. Its time counts from before the request is sent."""
        sent, self._stale = self._clock(), True
        if lease is None:
            written = await self._leases.create(self._mine(Spec()), timeout)
        else:
            mine = msgspec.structs.replace(lease, spec=self._mine(lease.spec))
            written = await self._leases.update(mine, timeout)
        self._observe(written)
        self._sent = sent
        self._said = ""
        return True

    def _mine(self, old: Spec) -> Spec:
        now = _now_text()
        same = old.holder_identity == self.me
        return msgspec.structs.replace(
            old,
            holder_identity=self.me,
            lease_duration_seconds=ceil(self._timing.duration),
            acquire_time=old.acquire_time if same else now,
            renew_time=now,
            lease_transitions=(old.lease_transitions or 0) + (not same),
        )

    def _observe(self, lease: Lease) -> None:
        """A record that differs from the last one is a sign of life; its times are not even read."""
        if self._lease is None or self._lease.spec != lease.spec:
            self._seen_at = self._clock()
        self._lease, self._stale = lease, False
        self.leader = lease.spec.holder_identity or ""

    def _patience(self) -> float:
        """How long the holder's silence has to last: its own lease duration, which it told."""
        told = self._lease.spec.lease_duration_seconds if self._lease is not None else None
        return float(told or self._timing.duration)

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            _log.warning("the lease could not be read or written", error=text)


def _now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
