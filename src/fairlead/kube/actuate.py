"""Carries out commands: which writer gets which, and what they share.

Made and used by `kube.port`. The writers are `kube.bind`, `kube.claims`, `kube.patches`, `kube.announce`,
`kube.evict`, `kube.end`, `kube.revoke` and `kube.objects`. Must not wait: `perform` only queues.
"""

import asyncio
from collections.abc import Sequence
from typing import TypedDict

from prometheus_client import CollectorRegistry

from fairlead.kube.announce import Announcer, scheduled
from fairlead.kube.bind import PLANNED, Binder
from fairlead.kube.claims import ClaimBinder
from fairlead.kube.client import ApiClient
from fairlead.kube.end import Ender
from fairlead.kube.evict import Evictor
from fairlead.kube.objects import ObjectWriter
from fairlead.kube.outcomes import Fence, Metrics, Outcomes, Quiet, Stats, always
from fairlead.kube.patches import Patches
from fairlead.kube.revoke import Revoker
from fairlead.model.command import (
    Announce,
    Bind,
    BindClaim,
    Command,
    CreateObject,
    DeleteObject,
    End,
    Evict,
    PatchAnnotation,
    PatchCondition,
    PatchObject,
    Revoke,
)
from fairlead.runtime.port import Inbox


class _Limits(TypedDict):
    fence: Fence
    request_timeout: float


class Actuator:
    """`stats` counts everything done, by name; the same goes to `registry` as metrics."""

    handles: tuple[type, ...] = (
        Bind, BindClaim, Evict, End, Revoke, PatchCondition, PatchAnnotation, Announce,
        CreateObject, PatchObject, DeleteObject,
    )  # fmt: skip

    def __init__(
        self,
        client: ApiClient,
        *,
        scheduler: str = "fairlead",
        registry: CollectorRegistry | None = None,
        stats: Stats | None = None,
        planned: PLANNED | None = None,
        fence: Fence = always,
        parallel: int = 64,
        request_timeout: float = 10.0,
        queue_timeout: float | None = None,
        pod_events: bool = True,
        condition_rate: float = 50.0,
    ) -> None:
        self.stats: Stats = {} if stats is None else stats
        self._outcomes = Outcomes()
        quiet = Quiet()
        metrics = Metrics(registry or CollectorRegistry())
        shared = (client, quiet, metrics, self.stats)
        self._fence = fence
        self._announcer = Announcer(*shared, scheduler=scheduler, fence=fence)
        self._patches = Patches(*shared, rate=condition_rate, fence=fence)
        writer = (client, self._outcomes, metrics, self.stats)
        limits: _Limits = {"fence": fence, "request_timeout": request_timeout}
        self._evictor = Evictor(*writer, **limits)
        self._ender = Ender(self._announcer, *writer, **limits)
        self._claims = ClaimBinder(*writer, **limits)
        self._revoker = Revoker(*writer, **limits)
        self._objects = ObjectWriter(*writer, **limits)
        self._binder = Binder(
            client,
            self._outcomes,
            quiet,
            metrics,
            self.stats,
            planned=planned,
            bound=self._say_scheduled if pod_events else None,
            fence=fence,
            parallel=parallel,
            request_timeout=request_timeout,
            queue_timeout=queue_timeout,
        )

    def attach(self, inbox: Inbox) -> None:
        self._outcomes.attach(inbox)

    def perform(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Bind():
                    self._patches.cancel(command.pod)
                    self._binder.add(command)
                case BindClaim():
                    self._claims.add(command)
                case PatchCondition():
                    self._patches.condition(command)
                case PatchAnnotation():
                    self._patches.annotation(command)
                case Announce():
                    self._announcer.add(command)
                case Evict():
                    self._evictor.add(command)
                case End():
                    self._ender.add(command)
                case Revoke():
                    self._patches.cancel(command.pod.uid)
                    self._revoker.add(command)
                case CreateObject() | PatchObject() | DeleteObject():
                    self._objects.add(command)
                case _:
                    raise TypeError(f"the Kubernetes port does not perform {type(command).__name__}")

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._announcer.forget(uid)

    def _say_scheduled(self, bind: Bind) -> None:
        self._announcer.add(scheduled(bind), once=True)

    async def close(self) -> None:
        """Binds first; then a moment for the rest. Nobody waits for what may not be sent any more."""
        await self._binder.close(self._patience(2.0))
        writers = (self._claims, self._evictor, self._ender, self._revoker, self._objects)
        await asyncio.gather(*(writer.close(self._patience(2.0)) for writer in writers))
        await self._patches.close()
        await self._announcer.close(self._patience(1.0))
        self._outcomes.flush()

    def _patience(self, most: float) -> float:
        return min(most, self._fence())
