"""Push as Server-Sent Events: `/external/events`, with `?kind=`, `?name=` and `?namespace=`.

Part of the scheduler's HTTP server, composed by `api.esi.doors`. Ids are the feed's numbers: a client that
comes back with Last-Event-ID misses nothing, or is told `reset` and given all that there is. Rights are
looked at again as often as it is told to be alive. It must not hold more for a client than the feed's share.
"""

import asyncio

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from fairlead.api.esi.access import Right
from fairlead.api.esi.desk import RESOURCES, Desk
from fairlead.api.esi.events import Listener, Wanted
from fairlead.api.esi.picture import TABLES, Change, Table
from fairlead.api.server import HEADERS

HEARTBEAT = 15.0
"""Seconds after which a comment is sent where nothing else was."""
STUCK = 30.0
"""Seconds that a client may leave what was sent unread."""
_NAMES: dict[str, Table] = {
    **{table: table for table in TABLES},
    "testbed": "testbeds",
    "job": "jobs",
    "batchjobs": "jobs",
    "batchjob": "jobs",
    "scheduling": "schedulings",
}


class Events:
    """The route; `heartbeat` in seconds."""

    def __init__(self, desk: Desk, heartbeat: float = HEARTBEAT) -> None:
        self.desk, self.heartbeat = desk, heartbeat

    def routes(self) -> list[Route]:
        return [Route("/external/events", self.events, methods=["GET"])]

    async def events(self, request: Request) -> Response:
        wanted = Wanted(self.desk.namespace(request), *_subject(request))
        after = _after(request)
        await self._allow(request, wanted)
        self.desk.state()
        return _Stream(self, request, wanted, after)

    async def _allow(self, request: Request, wanted: Wanted) -> None:
        for table in TABLES:
            if wanted.table in ("", table):
                right = Right("watch", RESOURCES[table], wanted.namespace, wanted.name)
                await self.desk.allow(request, right)

    async def still(self, request: Request, wanted: Wanted) -> str:
        """Why the client may not listen any longer; "" while it may, or while that cannot be found out."""
        try:
            await self._allow(request, wanted)
        except HTTPException as error:
            return error.detail if error.status_code in (401, 403) else ""
        return ""

    async def tell(self, send: "_Sending", request: Request, wanted: Wanted, after: int | None) -> None:
        """Until the client is gone, dropped, not allowed any more, or the feed ends."""
        feed = self.desk.feed
        listener = feed.listen(wanted, after)
        try:
            if listener.reset:
                await send.all(self._whole(listener))
            looked = asyncio.get_running_loop().time()
            while not (listener.dropped or listener.over):
                found = await listener.take(self.heartbeat)
                if found:
                    await send.all([_event(each.change, each.seq) for each in found])
                elif not (listener.dropped or listener.over):
                    await send.all([b": heartbeat\n\n"])
                if asyncio.get_running_loop().time() - looked >= self.heartbeat:
                    looked = asyncio.get_running_loop().time()
                    if refusal := await self.still(request, wanted):
                        return await send.all([_word("refused", refusal)])
            if listener.dropped:
                text = "you did not keep up and have missed changes: come back with Last-Event-ID"
                await send.all([_word("dropped", text)])
            else:
                await send.all([_word("bye", "the server ends: come back with Last-Event-ID")])
        finally:
            feed.leave(listener)

    def _whole(self, listener: Listener) -> list[bytes]:
        """All that there is. Only the last part has an id: whoever gets half of it has to begin again."""
        feed = self.desk.feed
        found = [_event(Change("ADDED", table, shown.thing.ref, shown.body), None)
                 for table, shown in feed.present(listener.wanted)]  # fmt: skip
        begin = _word("reset", "forget what you know: what follows is all that there is, until `present`")
        return [begin, *found, _word("present", "that was all; changes follow", feed.seq)]


class _Sending:
    """Parts of one answer. Raises TimeoutError when the client reads nothing for STUCK seconds."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def all(self, parts: list[bytes]) -> None:
        async with asyncio.timeout(STUCK):
            await self._send({"type": "http.response.body", "body": b"".join(parts), "more_body": True})


class _Stream(Response):
    """An answer that goes on until one of the two ends it."""

    media_type = "text/event-stream"

    def __init__(self, events: Events, request: Request, wanted: Wanted, after: int | None) -> None:
        super().__init__(None, 200, {**HEADERS, "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events, self._request, self._wanted, self._after = events, request, wanted, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        telling = asyncio.ensure_future(
            self._events.tell(_Sending(send), self._request, self._wanted, self._after)
        )
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((telling, leaving), return_when=asyncio.FIRST_COMPLETED)
            if telling.done():
                telling.result()
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return
        finally:
            telling.cancel()
            leaving.cancel()
            await asyncio.gather(telling, leaving, return_exceptions=True)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _subject(request: Request) -> tuple[str, str]:
    """Table and name. HTTPException 400 for a kind that there is not."""
    kind, name = request.query_params.get("kind", ""), request.query_params.get("name", "")
    if kind and kind.lower() not in _NAMES:
        raise HTTPException(400, f"kind: {kind[:40]!r} is none of {', '.join(TABLES)}")
    if name and not kind:
        raise HTTPException(400, f"name: say of which kind, too ({', '.join(TABLES)})")
    return (_NAMES[kind.lower()] if kind else ""), name


def _after(request: Request) -> int | None:
    """The last number that the client has seen; None if it says none. HTTPException 400."""
    text = request.headers.get("last-event-id") or request.query_params.get("lastEventId", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise HTTPException(400, f"Last-Event-ID: {text[:40]!r} is no number of an event")
    return int(text)


def _event(change: Change, seq: int | None) -> bytes:
    ref = change.ref
    head = msgspec.json.encode(
        {"action": change.action, "kind": change.table, "namespace": ref.namespace, "name": ref.name}
    )
    data = b"data: " + head[:-1] + b',"resource":' + change.body + b"}\n\n"
    return data if seq is None else b"id: %d\n" % seq + data


def _word(event: str, text: str, seq: int | None = None) -> bytes:
    number = b"" if seq is None else b"id: %d\n" % seq
    return number + f"event: {event}\n".encode() + b"data: " + msgspec.json.encode({"text": text}) + b"\n\n"
