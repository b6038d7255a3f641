"""A small API server on loopback that does as it is told, for faults no real one commits on demand.

It keeps pods by (namespace, name), checks the preconditions of bindings and patches as the real one does, and
streams watch events that a test scripts. `fault` answers the next matching requests instead.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from fairlead.kube.auth import StaticAuth
from fairlead.kube.config import KubeAccess

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def pod(name: str, uid: str = "", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{namespace}-{name}",
            "resourceVersion": "10",
            "creationTimestamp": "2026-11-21T09:59:17Z",
        },
        "spec": {"schedulerName": "fairlead", "containers": [{"name": "c", "resources": {}}], **spec},
        "status": {"phase": "Pending"},
    }


def status(code: int, reason: str = "", message: str = "", **headers: str) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message or reason}
    return web.json_response(body, status=code, headers=headers)


def event(what: str, thing: dict[str, Any]) -> bytes:
    return json.dumps({"type": what, "object": thing}).encode() + b"\n"


def bookmark(version: int, end: bool = False) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "Pod", "metadata": meta, "spec": {"containers": None}, "status": {}})


class FakeApi:
    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], dict[str, Any]] = {}
        self.things: dict[tuple[str, str, str], dict[str, Any]] = {}
        """All that is neither pod nor Job, by (plural, namespace, name)."""
        self.version = 100
        self.bound: list[str] = []
        """The uid of each pod that was bound, in order."""
        self.requests: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, str]] = []
        self.tokens: list[str | None] = []
        self.faults: list[tuple[str, str, Answer]] = []
        self.events: dict[str, dict[str, Any]] = {}
        self.streams: list[list[bytes | float]] = []
        self.pages: list[list[dict[str, Any]]] = []
        self.page_version = 500
        self.url = ""
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "FakeApi":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        server = site._server  # pyright: ignore
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def access(self) -> KubeAccess:
        return KubeAccess(self.url, None, StaticAuth("Bearer good"), "default", "the test's kubeconfig")

    def add(self, thing: dict[str, Any]) -> dict[str, Any]:
        meta = thing["metadata"]
        self.pods[meta["namespace"], meta["name"]] = thing
        return thing

    def touch(self, thing: dict[str, Any], **meta: Any) -> None:
        self.version += 1
        thing["metadata"].update(meta, resourceVersion=str(self.version))

    def fault(self, method: str, ending: str, *answers: Answer) -> None:
        """Each answer is used once, for a request of that method whose path ends so."""
        self.faults += [(method, ending, answer) for answer in answers]

    def sent(self, method: str, ending: str = "") -> list[Any]:
        return [body for verb, path, body in self.requests if verb == method and path.endswith(ending)]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw) if raw else None
        self.requests.append((request.method, request.path, body))
        self.queries.append(dict(request.query))
        self.tokens.append(request.headers.get("Authorization"))
        for index, (method, ending, answer) in enumerate(self.faults):
            if request.method == method and request.path.endswith(ending):
                del self.faults[index]
                return await answer(request)
        parts = request.path.strip("/").split("/")
        if "watch" in request.query:
            return await self.stream(request, self.streams.pop(0) if self.streams else [3600.0])
        if "events" in parts:
            return self._event(request, body)
        if parts[:3] == ["api", "v1", "namespaces"] and len(parts) >= 6:
            return self._pod(request, parts[3], parts[5], parts[6:], body)
        if parts[:4] == ["apis", "batch", "v1", "namespaces"] and len(parts) == 7:
            return self._pod(request, parts[4], parts[6], [], body)  # a Job is kept like a pod
        if parts[0] == "apis" and parts[3:4] == ["namespaces"] and len(parts) >= 6:
            return self._thing(request, (parts[5], parts[4]), parts[6:], body)
        return self._page(request)

    def _thing(
        self, request: web.Request, home: tuple[str, str], rest: list[str], body: Any
    ) -> web.StreamResponse:
        if request.method == "POST":
            if (*home, body["metadata"]["name"]) in self.things:
                return status(409, "AlreadyExists")
            return web.json_response(self.keep(home[0], home[1], body), status=201)
        thing = self.things.get((*home, rest[0]))
        if thing is None:
            return status(404, "NotFound", f'{home[0]} "{rest[0]}" not found')
        if request.method == "GET":
            return web.json_response(thing)
        if isinstance(body, list):  # a JSON patch
            return self._replace(thing, body)
        wanted = body["metadata"] if request.method == "PATCH" else body.get("preconditions", {})
        if wanted.get("uid", thing["metadata"]["uid"]) != thing["metadata"]["uid"]:
            if request.method == "PATCH":
                return status(422, "Invalid", "metadata.uid: Invalid value: field is immutable")
            return status(409, "Conflict", "UID in precondition")
        if (
            wanted.get("resourceVersion", thing["metadata"]["resourceVersion"])
            != thing["metadata"]["resourceVersion"]
        ):
            return status(409, "Conflict", "the object has been modified")
        if request.method == "DELETE":
            del self.things[(*home, rest[0])]
            return status(200)
        merge(thing, {"status": body["status"]} if rest[1:] == ["status"] else body)
        self.touch(thing)
        return web.json_response(thing)

    def _replace(self, thing: dict[str, Any], steps: list[Any]) -> web.StreamResponse:
        for step in steps[:-1]:
            if thing["metadata"].get(step["path"].rsplit("/", 1)[1]) != step["value"]:
                return status(
                    422, "Invalid", "the server rejected our request due to an error in our request"
                )
        thing[steps[-1]["path"].strip("/")] = steps[-1]["value"]
        self.touch(thing)
        return web.json_response(thing)

    def keep(self, plural: str, namespace: str, thing: dict[str, Any]) -> dict[str, Any]:
        """As if somebody had created it."""
        meta = thing["metadata"]
        meta.setdefault("uid", f"uid-{namespace}-{meta['name']}")
        self.touch(thing)
        self.things[plural, namespace, meta["name"]] = thing
        return thing

    def _pod(
        self, request: web.Request, namespace: str, name: str, sub: list[str], body: Any
    ) -> web.StreamResponse:
        thing = self.pods.get((namespace, name))
        if thing is None:
            return status(404, "NotFound", f'pods "{name}" not found')
        if request.method == "GET":
            return web.json_response(thing)
        if sub == ["binding"]:
            return self.bind(thing, body)
        wanted = body["metadata"] if request.method == "PATCH" else body.get("preconditions", {})
        for key in ("uid", "resourceVersion"):
            if key in wanted and wanted[key] != thing["metadata"][key]:
                return status(409, "Conflict", f"precondition {key}")
        if request.method == "DELETE":
            del self.pods[namespace, name]
            return status(200)
        notes = thing["metadata"].setdefault("annotations", {}) | wanted.get("annotations", {})
        thing["metadata"]["annotations"] = {key: value for key, value in notes.items() if value is not None}
        if "status" in body:
            known = {each["type"]: each for each in thing["status"].get("conditions", [])}
            known |= {each["type"]: each for each in body["status"]["conditions"]}
            thing["status"]["conditions"] = list(known.values())
        self.touch(thing)
        return web.json_response(thing)

    def bind(self, thing: dict[str, Any], body: Any) -> web.Response:
        meta = thing["metadata"]
        for key in ("uid", "resourceVersion"):
            if key in body["metadata"] and body["metadata"][key] != meta[key]:
                return status(409, "Conflict", f"precondition {key}")
        if (
            thing["spec"].get("nodeName")
            or thing["spec"].get("schedulingGates")
            or "deletionTimestamp" in meta
        ):
            return status(409, "Conflict", "pod is already assigned, gated or deleting")
        thing["spec"]["nodeName"] = body["target"]["name"]
        self.bound.append(meta["uid"])
        self.touch(thing)
        return status(201)

    def _event(self, request: web.Request, body: Any) -> web.StreamResponse:
        if request.method == "PATCH":
            name = request.path.rsplit("/", 1)[1]
            if name not in self.events:
                return status(404, "NotFound")
            self.events[name].update(body)
            return web.json_response(self.events[name])
        name = body["metadata"]["name"]
        if name in self.events:
            return status(409, "AlreadyExists")
        self.events[name] = body
        return web.json_response(body, status=201)

    async def stream(self, request: web.Request, parts: list[bytes | float]) -> web.StreamResponse:
        """A chunked answer; numbers are pauses."""
        response = web.StreamResponse()
        await response.prepare(request)
        for part in parts:
            if isinstance(part, bytes):
                await response.write(part)
            else:
                await asyncio.sleep(part)
        return response

    def _page(self, request: web.Request) -> web.StreamResponse:
        number = int(request.query.get("continue", "0"))
        meta = {"resourceVersion": str(self.page_version)}
        if number + 1 < len(self.pages):
            meta["continue"] = str(number + 1)
        return web.json_response({"metadata": meta, "items": self.pages[number] if self.pages else []})


def merge(into: dict[str, Any], changes: dict[str, Any]) -> None:
    """A merge patch (RFC 7386)."""
    for key, value in changes.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


def answers(code: int, reason: str = "", message: str = "", **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return status(code, reason, message, **headers)

    return answer


async def cut(request: web.Request) -> web.StreamResponse:
    """The connection breaks before any answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def silence(_: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    return web.Response()


class ListInbox:
    """An inbox that keeps everything, and each put as one batch."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []

    def put(self, events: Any) -> None:
        self.batches.append(list(events))

    @property
    def events(self) -> list[Any]:
        return [each for batch in self.batches for each in batch]

    async def until(self, condition: Callable[[list[Any]], Any], within: float = 30.0) -> Any:
        async with asyncio.timeout(within):
            while not (found := condition(self.events)):
                await asyncio.sleep(0.01)
        return found
