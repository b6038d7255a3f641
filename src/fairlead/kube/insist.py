"""Sends a request that is safe to repeat until it is answered for good or its time is over.

Used by `kube.evict` and `kube.end`. Must not be given a request that does harm when it is carried out twice.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from fairlead.kube.errors import ApiError, KubeError, Unreachable
from fairlead.kube.outcomes import Fence


async def insist(request: Callable[[float], Awaitable[None]], deadline: float, fence: Fence) -> None:
    """Overload and silence are tried again until `deadline` (monotonic seconds); the last error is raised.

    `request` is given the seconds that it may take. KubeError at once when the fence is down.
    """
    attempt = 0
    while True:
        allowed = fence()
        if not allowed:
            raise KubeError("not sent: this process may not write any more")
        try:
            await request(min(allowed, max(0.05, deadline - time.monotonic())))
            return
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and not error.transient:
                raise
            attempt += 1
            pause = min(2.0, 0.1 * 2**attempt)
            if isinstance(error, ApiError):
                pause = max(pause, error.retry_after)
            if time.monotonic() + pause >= deadline:
                raise
            await asyncio.sleep(pause)
