"""A whole list, page by page: all pages are of one snapshot and carry its version.

Called by `kube.watch` where lists are not streamed, and by `kube.relist`. Asks for no version, so the answer
comes from the API server's own store and not from a cache. Must not begin anew by itself when the snapshot
expires between two pages (410): what came before is the caller's, and void.
"""

from collections.abc import AsyncIterator, Mapping

import msgspec

from fairlead.kube.client import ApiClient
from fairlead.kube.structs import ObjectList

PAGE = 500
"""Objects of one page."""
TIMEOUT = 60.0
"""Seconds for one page."""

_list = msgspec.json.Decoder(ObjectList).decode


async def pages(client: ApiClient, path: str, more: Mapping[str, str]) -> AsyncIterator[ObjectList]:
    """At least one page, though it may be empty. `more` are parameters of each request. Raises KubeError."""
    token = ""
    while True:
        params = {"limit": str(PAGE), **more, **({"continue": token} if token else {})}
        page = _list(await client.get(path, params=params, timeout=TIMEOUT))
        yield page
        token = page.metadata.token
        if not token:
            return
