"""What all of ESI's doors share: the feed, the cluster, who may, and which namespace is meant.

Made by `api.esi.doors`; used by `api.esi.rest`, `api.esi.sse`, `api.esi.stomp` and `api.esi.debug`. Says no
as HTTPException, with a sentence. It must not answer by itself.
"""

import re
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request

from fairlead.api.esi.access import Access, Right
from fairlead.api.esi.cluster import EsiCluster
from fairlead.api.esi.events import Feed
from fairlead.api.esi.picture import Table
from fairlead.core.state import State
from fairlead.runtime.errors import ClusterError

RESOURCES: dict[Table, str] = {"testbeds": "testbeds", "jobs": "batchjobs", "schedulings": "schedulings"}
NOUNS: dict[Table, str] = {"testbeds": "Testbed", "jobs": "job", "schedulings": "Scheduling"}
LARGEST = 4 << 20
"""Bytes of a body."""
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class Desk:
    """`namespace` is the one that is meant where a request names none."""

    def __init__(
        self,
        feed: Feed,
        cluster: EsiCluster,
        access: Access,
        namespace: str = "default",
        standby: Callable[[], str] = str,
    ) -> None:
        self.feed, self.cluster, self.access = feed, cluster, access
        self.standby = standby
        """Who leads instead of this one, in words; "" while it leads."""
        self._namespace = namespace

    def namespace(self, asked: HTTPConnection) -> str:
        found = asked.query_params.get("namespace") or self._namespace
        if not NAMESPACE.fullmatch(found):
            raise HTTPException(400, f"namespace: {found[:80]!r} is no name of a namespace")
        return found

    async def allow(self, asked: HTTPConnection, right: Right) -> None:
        """Returns if whoever asks may. HTTPException 401, 403 or 503."""
        await self.access.check(asked.headers.get("authorization", ""), right)

    def state(self) -> State:
        """The state, with news looked at. HTTPException 503 while it does not know yet what there is."""
        state = self.feed.state
        if state is None:
            raise HTTPException(503, "starting: the first lists are not in yet", {"Retry-After": "1"})
        self.feed.look()
        return state


async def body_of(request: Request) -> bytes:
    """HTTPException 413 for a body that is too large."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST:
            raise HTTPException(413, f"the body is larger than {LARGEST >> 20} MiB")
    return bytes(body)


def refused(error: ClusterError) -> HTTPException:
    """What the cluster said, as ESI's clients expect it: 400 with its message, but for conflicts (409) and
    where nobody answers or is busy (503)."""
    if error.status == 409:
        return HTTPException(409, f"changed meanwhile, read it again: {error}")
    status = 503 if error.status == 429 or error.status >= 500 else 400
    return HTTPException(status, str(error))
