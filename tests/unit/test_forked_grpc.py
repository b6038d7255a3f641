"""A copy of the process that makes a checkpoint ends well while gRPC serves, which would abort it."""

import asyncio
import zlib

from fairlead.api.listen import listen
from fairlead.api.rpc.door import Door
from fairlead.runtime import forked


async def test_copies_end_well_beside_a_grpc_server() -> None:
    door = Door({}, listen("127.0.0.1:0", False, "--grpc-allow-remote"))
    await door.start()
    busy = asyncio.create_task(_churn())
    try:
        for _ in range(60):
            assert await forked.start(lambda: b"made").result(30.0) == b"made"
    finally:
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)
        await door.stop()


async def _churn() -> None:
    """Other threads are at work meanwhile."""
    while True:
        await asyncio.to_thread(zlib.compress, bytes(200_000), 9)
