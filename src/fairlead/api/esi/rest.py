"""REST as ESI has it: `/external/testbeds`, `/external/jobs`, `/external/schedulings`.

Part of the scheduler's HTTP server, composed by `api.esi.doors`. Reads are answered from what clients see of
the state; writes go to the cluster, and are answered once the state shows them. A POST replaces what is
there, as ESI's does; with If-Match only what the client has seen. It must not decide who gets a slot.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.api.esi import shapes, tags
from fairlead.api.esi.access import Right
from fairlead.api.esi.cluster import Manifest
from fairlead.api.esi.desk import NOUNS, RESOURCES, Desk, body_of, refused
from fairlead.api.esi.picture import TABLES, Shown, Table, Thing, encoded
from fairlead.api.server import HEADERS
from fairlead.core.state import State
from fairlead.model.esi import Ref
from fairlead.runtime.errors import ClusterError
from fairlead.wire import esi as wire

SHOWN_WITHIN = 5.0
"""Seconds that a write is waited for to come back by the watch; then it is answered all the same."""
GONE_WITHIN = 10.0
"""Seconds until a deletion that is not seen to happen is called a failure."""
ATTEMPTS = 4
"""How often an unconditional write is tried anew because others wrote at the same time."""

_TOLD = 20
"""Unknown slots that a refusal names."""


class Rest:
    """The routes; one object per desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def routes(self) -> list[Route]:
        reads = [
            route
            for table in TABLES
            for route in (
                *_both(f"/external/{table}", partial(self.many, table), "GET"),
                Route(f"/external/{table}/{{name}}", partial(self.one, table), methods=["GET"]),
            )
        ]
        return [
            *reads,
            *_both("/external/jobs", self.put_job, "PUT"),
            *_both("/external/schedulings", self.post_scheduling, "POST"),
            Route("/external/schedulings/{name}", self.delete_scheduling, methods=["DELETE"]),
        ]

    # -- reads ---------------------------------------------------------------------------------------

    async def many(self, table: Table, request: Request) -> Response:
        namespace = self.desk.namespace(request)
        await self.desk.allow(request, Right("list", RESOURCES[table], namespace))
        self.desk.state()
        found = self.desk.feed.picture.all(table, namespace)
        if table == "jobs":  # ESI's list of jobs is an object
            rows = (msgspec.json.encode(each.thing.name) + b":" + each.body for each in found)
            body = b"{" + b",".join(rows) + b"}"
        else:
            body = b"[" + b",".join(each.body for each in found) + b"]"
        return self._answer(request, body, tags.of_list(body))

    async def one(self, table: Table, request: Request) -> Response:
        ref = Ref(self.desk.namespace(request), request.path_params["name"])
        await self.desk.allow(request, Right("get", RESOURCES[table], ref.namespace, ref.name))
        self.desk.state()
        found = self.desk.feed.picture.of(table, ref)
        if found is None:
            raise HTTPException(404, f"no {NOUNS[table]} {ref} is known")
        return self._answer(request, found.body, tags.of_one(found.thing.version, found.body))

    def _answer(self, request: Request, body: bytes, tag: str) -> Response:
        headers = {**self._headers(), "ETag": tag, "Cache-Control": "no-cache"}
        if tags.same(request, tag):
            return Response(None, 304, headers)
        return Response(body + b"\n", 200, headers, media_type="application/json")

    def _headers(self) -> dict[str, str]:
        """Of every answer: one that stands by says so, for what comes of a write is for the leader."""
        standby = self.desk.standby()
        return {**HEADERS, "Fairlead-Standby": standby} if standby else dict(HEADERS)

    # -- writes --------------------------------------------------------------------------------------

    async def put_job(self, request: Request) -> Response:
        """ESI's PUT: only the algorithm's own notes are stored."""
        namespace = self.desk.namespace(request)
        body = _read(await body_of(request), shapes.JobBody)
        if not body.name.strip():
            raise HTTPException(400, "name: must not be blank")
        ref = Ref(namespace, body.name)
        await self.desk.allow(request, Right("update", RESOURCES["jobs"], namespace, ref.name))
        self.desk.state()

        for attempt in range(ATTEMPTS):
            raw = await self._get_job(ref)
            held = tags.hold(request, raw["metadata"]["resourceVersion"], f"the job {ref}")
            spec = {**raw.get("spec", {}), "externalScheduler": body.external_scheduler or {}}
            try:
                raw = await self.desk.cluster.replace("BatchJob", ref, {**raw, "spec": spec})
            except ClusterError as error:
                if error.status == 409 and not held and attempt + 1 < ATTEMPTS:
                    continue
                raise refused(error) from error
            return await self._written("jobs", wire.batch_job(msgspec.json.encode(raw)))
        raise AssertionError

    async def _get_job(self, ref: Ref) -> Manifest:
        try:
            return await self.desk.cluster.get("BatchJob", ref)
        except ClusterError as error:
            if error.status == 404:
                raise HTTPException(404, f"no job {ref} is known") from error
            raise refused(error) from error

    async def post_scheduling(self, request: Request) -> Response:
        """ESI's POST: made, or replaced if there is one of this name."""
        namespace = self.desk.namespace(request)
        await self.desk.allow(request, Right("create", RESOURCES["schedulings"], namespace))
        body = _checked(await body_of(request))
        ref = Ref(namespace, body.name)
        _must_have_slots(self.desk.state(), namespace, body)
        wanted = wire.manifest("Scheduling", ref, shapes.spec_of(body, namespace))
        for attempt in range(ATTEMPTS):
            try:
                raw = await self._upsert(request, ref, wanted)
            except ClusterError as error:
                if error.status in (404, 409) and attempt + 1 < ATTEMPTS and not _conditional(request):
                    continue  # made or deleted by others since we looked
                raise refused(error) from error
            return await self._written("schedulings", wire.scheduling(msgspec.json.encode(raw)))
        raise AssertionError

    async def _upsert(self, request: Request, ref: Ref, wanted: Manifest) -> Manifest:
        cluster, what = self.desk.cluster, f"the Scheduling {ref}"
        try:
            old = await cluster.get("Scheduling", ref)
        except ClusterError as error:
            if error.status != 404:
                raise
            tags.hold(request, None, what)
            return await cluster.create("Scheduling", ref, wanted)
        if tags.must_be_new(request):
            raise HTTPException(412, f"{what} exists already, and If-None-Match asks for a new one")
        await self.desk.allow(request, Right("update", RESOURCES["schedulings"], ref.namespace, ref.name))
        tags.hold(request, old["metadata"]["resourceVersion"], what)
        return await cluster.replace("Scheduling", ref, {**old, "spec": wanted["spec"]})

    async def _written(self, table: Table, thing: Thing) -> Response:
        """The answer to a write: what everybody is shown of it by now."""
        picture, ref = self.desk.feed.picture, thing.ref

        def seen() -> Shown | None:
            found = picture.of(table, ref)
            if found is None or found.thing.uid != thing.uid or found.thing.version < thing.version:
                return None
            return found

        await self.desk.feed.until(lambda: seen() is not None, SHOWN_WITHIN)
        shown = seen()
        body = shown.body if shown is not None else encoded(thing, thing.status)
        version = shown.thing.version if shown is not None else thing.version
        headers = {**self._headers(), "ETag": tags.of_one(version, body)}
        return Response(body + b"\n", 200, headers, media_type="application/json")

    async def delete_scheduling(self, request: Request) -> Response:
        """ESI's DELETE: the last known one, 304 if there is none."""
        ref = Ref(self.desk.namespace(request), request.path_params["name"])
        await self.desk.allow(request, Right("delete", RESOURCES["schedulings"], ref.namespace, ref.name))
        self.desk.state()
        cluster, picture = self.desk.cluster, self.desk.feed.picture
        try:
            raw = await cluster.get("Scheduling", ref)
            version = tags.hold(request, raw["metadata"]["resourceVersion"], f"the Scheduling {ref}")
            await cluster.delete("Scheduling", ref, version)
        except ClusterError as error:
            if error.status != 404:
                raise refused(error) from error
            tags.hold(request, None, f"the Scheduling {ref}")
            return Response(None, 304, self._headers())
        last = picture.of("schedulings", ref)
        thing = wire.scheduling(msgspec.json.encode(raw))

        def gone() -> bool:
            found = picture.of("schedulings", ref)
            return found is None or found.thing.uid != thing.uid

        if not await self.desk.feed.until(gone, GONE_WITHIN):
            raise HTTPException(
                500, f"the deletion of {ref} was asked for, and it is still there: {_why(raw)}"
            )
        body = last.body if last is not None else encoded(thing, thing.status)
        return Response(body + b"\n", 200, self._headers(), media_type="application/json")


def _both(path: str, answer: Callable[[Request], Awaitable[Response]], method: str) -> list[Route]:
    """With and without the slash at the end: ESI's own clients write it."""
    return [Route(each, answer, methods=[method]) for each in (path, f"{path}/")]


def _conditional(request: Request) -> bool:
    return "if-match" in request.headers or "if-none-match" in request.headers


def _why(raw: Manifest) -> str:
    finalizers = raw["metadata"].get("finalizers")
    return f"it has finalizers ({', '.join(finalizers)})" if finalizers else "its watch has not told so"


def _read(body: bytes, form: type[shapes.JobBody]) -> shapes.JobBody:
    try:
        return shapes.read(body, form)
    except shapes.ShapeError as error:
        raise HTTPException(400, str(error)) from error


def _checked(body: bytes) -> shapes.SchedulingBody:
    try:
        return shapes.checked(body)
    except shapes.ShapeError as error:
        raise HTTPException(400, str(error)) from error


def _some(numbers: list[str]) -> str:
    more = len(numbers) - _TOLD
    return ", ".join(numbers[:_TOLD]) + (f" and {more} more" if more > 0 else "")


def _must_have_slots(state: State, namespace: str, body: shapes.SchedulingBody) -> None:
    """HTTPException 400 for numbers that no slot has. Taken slots are waited for; so is a Testbed that is
    not there yet."""
    uid = state.esi.find("Testbed", Ref(namespace, body.test_bed))
    table = state.esi.tables.get(uid)
    if table is None or body.slots is None:
        return
    count = len(table.order)
    for number, job in enumerate(body.slots.jobs):
        unknown = [str(slot) for slot in job.slots if slot >= count]
        if unknown:
            there = f"0 to {count - 1}" if count else "none: no node has its label"
            raise HTTPException(
                400,
                f"slots.jobs[{number}].slots: the Testbed {body.test_bed} has no slot {_some(unknown)};"
                f" its slots are {there}",
            )
