"""All of ESI's doors in one: REST, push, debug verbs and health, over one feed and one cluster.

Made by the composition roots (`app_esi`, and whoever serves a simulated cluster): `routes` go into the HTTP
server, `batch` is an observer of the loop, `turn_to` is called with the state of every life. Must not change
the state.
"""

import time
from collections.abc import Callable, Sequence

import structlog
from starlette.routing import BaseRoute

from fairlead.api.esi.access import Access
from fairlead.api.esi.cluster import EsiCluster
from fairlead.api.esi.debug import Debug
from fairlead.api.esi.desk import Desk
from fairlead.api.esi.events import Feed
from fairlead.api.esi.picture import Picture
from fairlead.api.esi.rest import Rest
from fairlead.api.esi.sse import Events
from fairlead.api.esi.stomp import Stomp
from fairlead.core.state import State
from fairlead.model.command import Command
from fairlead.model.event import Event

_log = structlog.get_logger("esi")


class Doors:
    """`namespace` is meant where a request names none; `standby` says who leads instead of this one;
    `gets` opens the debug verbs to GET; `first` is the number before that of the first change."""

    def __init__(
        self,
        cluster: EsiCluster,
        access: Access,
        *,
        namespace: str = "default",
        standby: Callable[[], str] = str,
        gets: bool = False,
        first: int | None = None,
    ) -> None:
        # Microseconds: greater than what any process before this one has told, here or on another machine.
        start = time.time_ns() // 1000 if first is None else first
        self.feed = Feed(Picture(standby), start)
        self.desk = Desk(self.feed, cluster, access, namespace, standby)
        self._mistake = ""
        self.events = Events(self.desk)
        self._parts = (self.events, Stomp(self.desk), Rest(self.desk), Debug(self.desk, gets))

    def routes(self) -> list[BaseRoute]:
        return [route for part in self._parts for route in part.routes()]

    def turn_to(self, state: State) -> None:
        """The scheduler begins anew, with this state."""
        self.feed.turn_to(state)

    def batch(self, events: Sequence[Event], commands: Sequence[Command], taken: float) -> None:
        """An observer of the loop. A mistake here is told once, and costs no more than what is shown."""
        try:
            self.feed.batch(events, commands, taken)
            self._mistake = ""
        except Exception as error:
            if self._mistake != repr(error):
                self._mistake = repr(error)
                _log.exception("what external schedulers are shown stands still")

    def close(self) -> None:
        """Whoever listens is told that this is the end, so that the HTTP server need not wait for them."""
        self.feed.close()
