"""A TCP line between a scheduler and the API server that a test can cut, slow down and freeze.

It passes bytes and understands none of them, so TLS goes through as it is. It runs in a thread of its own.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import yaml

from fairlead.localcluster import Cluster


class Line:
    """`delay` and `trickle` hold for all that passes from then on.

    delay: seconds that each piece is late. trickle: at most so many bytes a millisecond; 0: all at once.
    """

    def __init__(self, port: int) -> None:
        self._to = port
        self.port = 0
        self.delay = 0.0
        self.trickle = 0
        self.opened = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="line", daemon=True)
        self._pairs: list[Pair] = []
        self._frozen = False

    @classmethod
    @contextlib.contextmanager
    def to(cls, port: int, at: int = 0) -> Iterator["Line"]:
        """A line to the port, `at` another one; 0 takes a free one."""
        line = cls(port)
        line._thread.start()
        server = line._do(asyncio.start_server(line._client, "127.0.0.1", at))
        line.port = server.sockets[0].getsockname()[1]
        try:
            yield line
        finally:
            line._do(line._close(server))
            line._loop.call_soon_threadsafe(line._loop.stop)
            line._thread.join(10)

    def kubeconfig(self, cluster: Cluster, folder: Path) -> Path:
        """The cluster's, by way of this line."""
        content = yaml.safe_load(cluster.kubeconfig.read_text())
        content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path

    def cut(self) -> None:
        """All connections break, without a word on either side."""
        self._do(self._cut())

    def freeze(self, on: bool, new_ones: bool = True) -> None:
        """Nothing passes any more on the connections there are, and on new ones if `new_ones`; none ends."""
        self._do(self._freeze(on, new_ones))

    # -- in the loop ---------------------------------------------------------------------------------

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _cut(self) -> None:
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            pair.cut()

    async def _freeze(self, on: bool, new_ones: bool) -> None:
        self._frozen = on and new_ones
        for pair in self._pairs:
            (pair.flows.clear if on else pair.flows.set)()

    async def _close(self, server: asyncio.Server) -> None:
        server.close()
        await self._cut()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _client(self, source: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            answers, target = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            back.transport.abort()
            return
        pair = Pair(back, target)
        if self._frozen:
            pair.flows.clear()
        self._pairs.append(pair)
        await asyncio.gather(self._pump(pair, source, target), self._pump(pair, answers, back))
        pair.cut()

    async def _pump(self, pair: "Pair", source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                await pair.flows.wait()
                if self.delay:
                    await asyncio.sleep(self.delay)
                while data:
                    size = self.trickle or len(data)
                    sink.write(data[:size])
                    data = data[size:]
                    await sink.drain()
                    if self.trickle:
                        await asyncio.sleep(0.001)
            sink.write_eof() if sink.can_write_eof() else sink.close()


class Pair:
    """Both ends of one connection. Nothing passes while `flows` is not set."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers
        self.flows = asyncio.Event()
        self.flows.set()

    def cut(self) -> None:
        self.flows.set()
        for writer in self._writers:
            writer.transport.abort()
