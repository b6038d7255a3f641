"""What `fairlead scheduler --esi` adds: doors for external schedulers, over the cluster that they are about.

Composed by `fairlead.app`: one part per process, which outlives the lives of the engine. Reads come from the
state, also on a standby; what the doors write goes to the API server. Must not decide anything.
"""

from collections.abc import Sequence
from typing import Any

import structlog
from msgspec import Struct
from starlette.routing import BaseRoute

from fairlead.api.apart import Apart
from fairlead.api.esi import openapi
from fairlead.api.esi.access import Guarded, Unguarded
from fairlead.api.esi.desk import NAMESPACE
from fairlead.api.esi.doors import Doors
from fairlead.api.extender import door
from fairlead.api.extender.news import News
from fairlead.api.openapi import document
from fairlead.api.server import HttpServer, is_loopback
from fairlead.core.state import State
from fairlead.kube.client import ApiClient
from fairlead.kube.config import KubeAccess
from fairlead.kube.esi_cluster import KubeEsiCluster
from fairlead.kube.lease import Elector
from fairlead.kube.on_request import BindsOnRequest
from fairlead.kube.outcomes import always
from fairlead.model.esi import SCHEDULER
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.loop import Observer

BINDERS = ("fairlead", "extender")
CONNECTIONS = 32
_log = structlog.get_logger("esi")


class EsiOptions(Struct, frozen=True):
    """What `fairlead scheduler` was told of external schedulers."""

    binder: str = BINDERS[0]
    """Who places application pods: Fairlead, or a kube-scheduler that asks its extender."""
    namespace: str = "default"
    """The one that a request means which names none."""
    insecure: bool = False
    """No tokens: everybody on this machine may do everything."""
    old_gets: bool = False
    """The debug verbs answer to GET, too."""
    extender: Apart = Apart()
    """Where that kube-scheduler asks."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """The schedulerNames whose pods Fairlead places besides its own."""
        return () if self.extends else (SCHEDULER,)

    @property
    def extends(self) -> bool:
        """Whether a kube-scheduler is answered."""
        return self.binder == BINDERS[1]

    def check(self, host: str) -> None:
        """Raises ConfigError or ServerError if this must not be served on that host, or no request could be
        answered."""
        if not NAMESPACE.fullmatch(self.namespace):
            raise ConfigError(f"--esi-namespace {self.namespace!r} is no name of a namespace")
        if self.insecure and not is_loopback(host):
            raise ConfigError(
                "--insecure-esi asks nobody who they are, so it is for this machine alone, and others can"
                f" reach --host {host}: leave one of the two away"
            )
        if self.extends:
            self.extender.check()
            if refusal := self.extender.refusal(host):
                raise ConfigError(refusal)


class EsiPart:
    """`state` is the first life's. Must be made inside a running loop."""

    def __init__(
        self, options: EsiOptions, access: KubeAccess, state: State, elector: Elector | None
    ) -> None:
        self._client = ApiClient(access, connections=CONNECTIONS)
        cluster = KubeEsiCluster(self._client)
        self._doors = Doors(
            cluster,
            Unguarded() if options.insecure else Guarded(cluster),
            namespace=options.namespace,
            standby=(lambda: elector.standing) if elector else str,
            gets=options.old_gets,
        )
        self._routes = self._doors.routes()
        self.observers: list[Observer] = [self._doors.batch]
        """Of the loop of every life."""
        self._binds: BindsOnRequest | None = None
        self._apart: HttpServer | None = None
        self._extender = options.extender
        if options.extends:
            self._extend(elector)
        self.turn_to(state)

    def _extend(self, elector: Elector | None) -> None:
        news = News()
        self._binds = BindsOnRequest(self._client, fence=elector.allowed if elector else always)
        routes = door.routes(door.Extender(lambda: self._state, news, self._binds))
        self._apart = self._extender.server(routes)
        if self._apart is None:
            self._routes += routes
        self.observers.append(news.batch)

    async def start(self, host: str) -> None:
        """Let kube-scheduler be answered; `host` is the HTTP server's. Raises ServerError."""
        if self._binds is None:
            return
        if self._apart is not None:
            await self._apart.start()
            _log.info("kube-scheduler is answered apart", url=self._apart.url)
        if warning := self._extender.warning(host):
            _log.warning(warning, address=self._extender.address or host)

    def routes(self) -> Sequence[BaseRoute]:
        return self._routes

    def document(self) -> dict[str, Any]:
        """The OpenAPI document with these routes in it."""
        return openapi.extend(document())

    def turn_to(self, state: State) -> None:
        """The scheduler begins anew, with this state."""
        self._state = state
        self._doors.turn_to(state)

    async def close(self) -> None:
        self._doors.close()
        if self._apart is not None:
            await self._apart.stop()
        if self._binds is not None:
            await self._binds.close()
        await self._client.close()
