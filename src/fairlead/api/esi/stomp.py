"""Push for ESI's existing clients: STOMP 1.1 and 1.2 over a WebSocket at `/scheduler`.

Part of the scheduler's HTTP server, composed by `api.esi.doors`. `/topic/{testbeds|jobs|schedulings}` tells
action and name, `/topic/KIND/NAME` action and the whole shape, as ESI's in-memory broker did, and like it
nothing is resumed: Server-Sent Events do that. Raw WebSockets only, no SockJS. A client's messages are
refused: there is nobody to send to.
"""

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from fairlead import __version__
from fairlead.api.esi.access import Right
from fairlead.api.esi.desk import RESOURCES, Desk
from fairlead.api.esi.events import Listener, Numbered, Wanted
from fairlead.api.esi.frames import Frame, FrameError, beats, read, write
from fairlead.api.esi.picture import TABLES

PROTOCOLS = ("v12.stomp", "v11.stomp")
BEAT = 10_000
"""Milliseconds between our heart-beats, and the least that we want of a client's."""
LENIENT = 3
"""So many of a client's beats may be missing."""
CONNECT_WITHIN = 30.0
STUCK = 30.0
"""Seconds that a client may leave what was sent unread."""
TICK = 1.0
"""Seconds between two looks at the time."""
MOST_SUBSCRIPTIONS = 1_000
GONE = (WebSocketDisconnect, TimeoutError, RuntimeError)
"""The client has gone, or does not read; starlette says the first when it was told so already."""
AGAIN = 15.0
"""Seconds after which rights are looked at again."""


class StompError(Exception):
    """What a client did wrong; it is told, and its connection ends."""

    def __init__(self, text: str, receipt: str = "") -> None:
        super().__init__(text)
        self.receipt = receipt


class Stomp:
    """The route."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def routes(self) -> list[WebSocketRoute]:
        return [WebSocketRoute(path, self.talk) for path in ("/scheduler", "/scheduler/websocket")]

    async def talk(self, socket: WebSocket) -> None:
        offered = socket.scope.get("subprotocols", [])
        await socket.accept(next((each for each in PROTOCOLS if each in offered), None))
        await _Session(self.desk, socket).run()


class _Session:
    """One client. Three tasks: one reads frames, one writes what has changed, one keeps time."""

    def __init__(self, desk: Desk, socket: WebSocket) -> None:
        self._desk, self._socket = desk, socket
        self._authorization = socket.headers.get("authorization", "")
        self._subscriptions: dict[str, tuple[str, Wanted]] = {}
        """Id -> its destination, and what that means."""
        self._namespace = ""
        self._listener: Listener | None = None
        self._message = 0
        self._heard = self._spoke = time.monotonic()
        self._every = self._expect = 0.0
        """Seconds: how often we beat, how often the client does; 0 = not."""
        self._connected, self._listening = asyncio.Event(), asyncio.Event()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        work: list[Coroutine[Any, Any, None]] = [self._read(), self._tell(), self._keep_time()]
        tasks = [asyncio.ensure_future(each) for each in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except (FrameError, StompError) as error:
            await self._give_up(error)
        except HTTPException as error:
            await self._give_up(StompError(error.detail))
        except GONE:
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._listener is not None:
                self._desk.feed.leave(self._listener)
            await self._close()

    async def _give_up(self, error: Exception) -> None:
        headers = {"message": str(error), "content-type": "text/plain"}
        if isinstance(error, StompError) and error.receipt:
            headers["receipt-id"] = error.receipt
        with suppress(*GONE):
            await self._send(Frame("ERROR", headers, str(error)))

    async def _close(self) -> None:
        with suppress(*GONE):
            async with asyncio.timeout(STUCK):
                await self._socket.close()

    # -- what the client says ------------------------------------------------------------------------

    async def _read(self) -> None:
        async with asyncio.timeout(CONNECT_WITHIN):
            while (frame := await self._frame()) is None:
                pass
        await self._connect(frame)
        while True:
            frame = await self._frame()
            if frame is None:
                continue
            await self._obey(frame)
            if receipt := frame.headers.get("receipt"):
                await self._send(Frame("RECEIPT", {"receipt-id": receipt}))
            if frame.command == "DISCONNECT":
                return

    async def _frame(self) -> Frame | None:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        self._heard = time.monotonic()
        text = message.get("text")
        if text is None:
            text = (message.get("bytes") or b"").decode(errors="replace")
        return read(text)

    async def _connect(self, frame: Frame) -> None:
        if frame.command not in ("CONNECT", "STOMP"):
            raise StompError("the first frame must be CONNECT")
        wanted = frame.headers.get("accept-version", "1.0").split(",")
        version = next((each for each in ("1.2", "1.1") if each in wanted), "")
        if not version:
            raise StompError(f"accept-version {','.join(wanted)[:40]!r}: 1.1 and 1.2 are spoken here")
        self._authorization = frame.headers.get("Authorization") or self._authorization
        if "passcode" in frame.headers and not self._authorization:
            self._authorization = f"Bearer {frame.headers['passcode']}"
        self._namespace = self._desk.namespace(self._socket)
        theirs, ours = beats(frame.headers.get("heart-beat", "0,0"))
        self._every = max(ours, BEAT) / 1000 if ours else 0.0
        self._expect = max(theirs, BEAT) / 1000 if theirs else 0.0
        headers = {"version": version, "heart-beat": f"{BEAT},{BEAT}", "server": f"fairlead/{__version__}"}
        await self._send(Frame("CONNECTED", headers))
        self._connected.set()

    async def _obey(self, frame: Frame) -> None:
        receipt = frame.headers.get("receipt", "")
        match frame.command:
            case "SUBSCRIBE":
                await self._subscribe(frame, receipt)
            case "UNSUBSCRIBE":
                self._subscriptions.pop(frame.headers.get("id", ""), None)
            case "DISCONNECT" | "ACK" | "NACK":
                pass  # nothing is redelivered, so there is nothing to acknowledge
            case "SEND":
                raise StompError("nothing can be sent here: Schedulings are posted over REST", receipt)
            case _:
                raise StompError(f"{frame.command[:40]!r} is not known here", receipt)

    async def _subscribe(self, frame: Frame, receipt: str) -> None:
        id_, destination = frame.headers.get("id", ""), frame.headers.get("destination", "")
        if not id_:
            raise StompError("SUBSCRIBE needs an id", receipt)
        if len(self._subscriptions) >= MOST_SUBSCRIPTIONS:
            raise StompError(f"more than {MOST_SUBSCRIPTIONS} subscriptions", receipt)
        root, topic, *path = destination.split("/")
        if root or topic != "topic" or not 1 <= len(path) <= 2 or path[0] not in TABLES:
            text = f"{destination[:80]!r} is none of {', '.join(f'/topic/{table}' for table in TABLES)}"
            raise StompError(f"{text}, with or without a name", receipt)
        wanted = Wanted(self._namespace, *path)
        await self._may(wanted)
        self._subscriptions[id_] = destination, wanted
        if self._listener is None:
            self._listener = self._desk.feed.listen(Wanted(self._namespace), self._desk.feed.seq)
            self._listening.set()

    async def _may(self, wanted: Wanted) -> None:
        for table in TABLES:
            if table == wanted.table:
                right = Right("watch", RESOURCES[table], wanted.namespace, wanted.name)
                await self._desk.access.check(self._authorization, right)

    # -- what it is told -----------------------------------------------------------------------------

    async def _tell(self) -> None:
        await self._listening.wait()
        listener = self._listener
        assert listener is not None
        while not (listener.dropped or listener.over):
            for each in await listener.take(AGAIN):
                await self._pass_on(each)
        if listener.dropped:
            raise StompError("you did not keep up and have missed changes: connect again, and read anew")

    async def _pass_on(self, each: Numbered) -> None:
        change = each.change
        for id_, (destination, wanted) in list(self._subscriptions.items()):
            if not wanted.takes(change.table, change.ref):
                continue
            shown = msgspec.Raw(change.body) if wanted.name else change.ref.name
            body = msgspec.json.encode({"action": change.action, "resource": shown})
            self._message += 1
            headers = {
                "subscription": id_,
                "message-id": f"{each.seq}-{self._message}",
                "destination": destination,
                "content-type": "application/json",
                "content-length": str(len(body)),
            }
            await self._send(Frame("MESSAGE", headers, body.decode()))

    async def _keep_time(self) -> None:
        """Heart-beats, and the rights looked at again."""
        await self._connected.wait()
        looked = time.monotonic()
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            if self._every and now - self._spoke >= self._every:
                await self._text("\n")
            if self._expect and now - self._heard > self._expect * LENIENT:
                raise StompError("no heart-beat has come for too long")
            if now - looked >= AGAIN:
                looked = now
                await self._may_still()

    async def _may_still(self) -> None:
        """HTTPException if the client may not listen any longer; what cannot be found out ends nothing."""
        for _, wanted in list(self._subscriptions.values()):
            try:
                await self._may(wanted)
            except HTTPException as error:
                if error.status_code in (401, 403):
                    raise

    async def _send(self, frame: Frame) -> None:
        await self._text(write(frame))

    async def _text(self, text: str) -> None:
        async with self._writing, asyncio.timeout(STUCK):
            await self._socket.send_text(text)
        self._spoke = time.monotonic()
