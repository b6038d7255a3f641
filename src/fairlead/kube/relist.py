"""Fresh lists of all that is watched: what the cluster says now, whatever the watches have told.

Called by `runtime.audit` through `KubePort.relist`. Paged and from the API server's own store, so a list is
not older than anything that was seen before it was asked for. Read by the same `Kind.seen` as a watch line, a
few objects at a time, so that it holds up no bind. Must not touch the watches or put events anywhere.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from fairlead.kube.client import ApiClient
from fairlead.kube.errors import ApiError
from fairlead.kube.pages import pages
from fairlead.kube.translate import KindOf, uid_in, uid_of
from fairlead.model.audit import Listing
from fairlead.model.event import Told
from fairlead.wire.pod import version_of

STEP = 50
"""Objects read at a time: one takes some 30 microseconds."""
TRIES = 3
"""A snapshot may expire between two of its pages (410); then the list begins anew."""


async def relist(client: ApiClient, kinds: Sequence[KindOf[Any]]) -> list[Listing]:
    """One list after the other. Raises KubeError; a kind that the server does not know is left out."""
    found: list[Listing] = []
    for kind in kinds:
        try:
            found.append(await _listing(client, kind))
        except ApiError as error:
            if error.status != 404 or not kind.optional:
                raise
    return found


async def _listing(client: ApiClient, kind: KindOf[Any]) -> Listing:
    for _ in range(TRIES - 1):
        try:
            return await _whole(client, kind)
        except ApiError as error:
            if error.status != 410:
                raise
    return await _whole(client, kind)


async def _whole(client: ApiClient, kind: KindOf[Any]) -> Listing:
    items: dict[str, Told] = {}
    unread: dict[str, None] = {}
    version = 0
    async for page in pages(client, kind.path, kind.params):
        version = version_of(page.metadata.resource_version)
        for count, raw in enumerate(page.items):
            item = kind.seen(raw, _uncounted)
            if item is None:
                unread[uid_in(raw)] = None
            else:
                items[uid_of(item)] = item
            if count % STEP == STEP - 1:
                await asyncio.sleep(0)
    return Listing(kind.name, version, tuple(items.values()), tuple(unread))


def _uncounted(_: str) -> None:
    """What cannot be read was counted when the watch told it."""
