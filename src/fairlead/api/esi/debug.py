"""ESI's debug verbs and health paths: `/debug/node-set-up`, `/debug/reset-all-jobs`, `/actuator/health`.

Part of the scheduler's HTTP server, composed by `api.esi.doors`; called by `fairlead esi enrol|reset`, too.
They change things, so they are POST; GET, as ESI has them, only if asked for. What is to be written is
`api.esi.operations`' affair.
"""

from datetime import UTC, datetime

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.api.esi import operations
from fairlead.api.esi.access import Right
from fairlead.api.esi.desk import Desk, refused
from fairlead.api.server import HEADERS, flag, number, reply
from fairlead.model.batchjob import BatchJob
from fairlead.model.esi import RESET, Ref
from fairlead.runtime.errors import ClusterError

MOST_NODES = 100_000
SHOWN_WITHIN = 5.0
"""Seconds that an answer waits for the state to show what was written."""
_log = structlog.get_logger("esi")


class Debug:
    """The routes. `gets`: also as GET, on the same paths."""

    def __init__(self, desk: Desk, gets: bool = False) -> None:
        self.desk, self._gets = desk, gets

    def routes(self) -> list[Route]:
        verbs = {"/debug/node-set-up": self.node_set_up, "/debug/reset-all-jobs": self.reset_all_jobs}
        health = ("/actuator/health", "/actuator/health/liveness", "/actuator/health/readiness")
        return [
            *(Route(path, answer, methods=["GET", "POST"]) for path, answer in verbs.items()),
            *(Route(path, self.health, methods=["GET"]) for path in health),
        ]

    async def node_set_up(self, request: Request) -> Response:
        """`name` of the Testbed, `count` of nodes; `remove=true` takes the label from other members."""
        self._must_mean_it(request)
        namespace, query = self.desk.namespace(request), request.query_params
        ref, count = Ref(namespace, query.get("name", "")), number(request, "count", -1, MOST_NODES)
        remove, dry = flag(request, "remove"), flag(request, "dryRun")
        await self.desk.allow(request, Right("get", "testbeds", namespace, ref.name))
        await self.desk.allow(request, Right("patch", "nodes", "", group=""))
        state = self.desk.state()
        testbed = state.esi.testbed(ref)
        if testbed is None:
            raise HTTPException(404, f"no Testbed {ref} is known")
        try:
            found = operations.enrol(state, testbed, count, remove)
        except operations.Refusal as error:
            raise HTTPException(400, str(error)) from error
        if not dry:
            await self._label(found)
            # Whoever enrols for another Testbed next must find these slots held.
            await self.desk.feed.until(lambda: self._shown(found), SHOWN_WITHIN)
        return reply(msgspec.structs.replace(found, dry_run=dry))

    def _shown(self, found: operations.Enrolment) -> bool:
        """Whether the state has the nodes with their labels, and so the slots on them."""
        state = self.desk.feed.state
        if state is None:  # another life has begun, and lists everything anew
            return True
        for line in found.nodes:
            node = state.inventory.node(line.name)
            value = None if line.change == operations.REMOVED else line.number
            if node is not None and node.labels.get(found.node_label) != value:
                return False
        return True

    async def _label(self, found: operations.Enrolment) -> None:
        """Node after node: one that cannot be labelled ends it, and what was done is told."""
        done: list[str] = []
        for line in found.nodes:
            if line.change not in (operations.LABELLED, operations.REMOVED):
                continue
            value = line.number if line.change == operations.LABELLED else None
            try:
                await self.desk.cluster.label_node(line.name, {found.node_label: value})
            except ClusterError as error:
                so_far = f" (done before: {', '.join(done)})" if done else ""
                status = 403 if error.status in (401, 403) else refused(error).status_code
                raise HTTPException(status, f"the node {line.name}: {error}{so_far}") from error
            done.append(line.name)
            _log.info("node labelled", node=line.name, label=found.node_label, value=value)

    async def reset_all_jobs(self, request: Request) -> Response:
        """Failed jobs become ready again, each with its labels, events and notes. Answers their names.
        `name`, once or more often, asks for these alone."""
        self._must_mean_it(request)
        everywhere, dry = flag(request, "allNamespaces"), flag(request, "dryRun")
        namespace = "" if everywhere else self.desk.namespace(request)
        await self.desk.allow(request, Right("update", "batchjobs", namespace))
        jobs = _named(operations.failed(self.desk.state(), namespace), request.query_params.getlist("name"))
        if not dry:
            for job in jobs:
                await self._reset(job)
        body = msgspec.json.encode([str(job.ref) if everywhere else job.name for job in jobs])
        return Response(body + b"\n", 200, HEADERS, media_type="application/json")

    async def _reset(self, job: BatchJob) -> None:
        changes = {"metadata": {"annotations": {RESET: datetime.now(UTC).isoformat()}}}
        try:
            await self.desk.cluster.patch("BatchJob", job.ref, changes)
        except ClusterError as error:
            if error.status != 404:  # else deleted meanwhile
                raise refused(error) from error
        _log.info("job reset", job=str(job.ref))

    def _must_mean_it(self, request: Request) -> None:
        if request.method != "POST" and not self._gets:
            text = f"{request.url.path} changes things: use POST (or start with --esi-old-gets)"
            raise HTTPException(405, text, {"Allow": "POST"})

    async def health(self, request: Request) -> Response:
        """UP as ESI's probes expect it: alive always, ready once the first lists are in."""
        ready = request.url.path.endswith("/liveness") or self.desk.feed.state is not None
        return reply({"status": "UP" if ready else "OUT_OF_SERVICE"}, 200 if ready else 503)


def _named(jobs: list[BatchJob], names: list[str]) -> list[BatchJob]:
    """Those of these names, all where none is given. HTTPException 400 for one that has not failed."""
    known = {job.name for job in jobs}
    if missing := [name for name in names if name not in known]:
        raise HTTPException(400, f"no job that has failed is called {', '.join(missing)}")
    return [job for job in jobs if not names or job.name in names]
