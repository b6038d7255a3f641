"""Fluxion's services over one matcher: as fluxnetes, the stand-alone service and fluence call them.

Composed by the command line. Two clients mean different messages by `fluxion.FluxionService`, hence a class
each. Must not match anything itself, nor read files.
"""

import time
from collections.abc import Mapping
from contextlib import suppress

import grpc

from fairlead.api.rpc import podspec
from fairlead.api.rpc.call import Answer, Refusal, Service, unary
from fairlead.api.rpc.matcher import Matcher, Unknown
from fairlead.api.rpc.pb import fluxcli_pb2 as fluxcli
from fairlead.api.rpc.pb import fluxion_pb2 as fluxion
from fairlead.core.tree.bookings import Job
from fairlead.core.tree.columns import Tree
from fairlead.core.tree.graph import Op, Verdict
from fairlead.wire.jobspec import read as read_jobspec
from fairlead.wire.treetext import Extra, Row, emitted
from fairlead.wire.units import in_graph_units

FLUXION = "fluxion.FluxionService"
FLUXCLI = "fluxcli.FluxcliService"


class PodMatching:
    """What fluxnetes' scheduler calls: a pod and how many are alike, answered by nodes and pods on each."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def methods(self) -> Service:
        """By name."""
        return {
            "Match": unary(self.match, fluxion.MatchRequest),
            "Cancel": unary(self.cancel, fluxion.CancelRequest),
        }

    async def match(self, asked: fluxion.MatchRequest) -> Answer:
        """A reservation tells its nodes, too, but is not allocated: the pods may not start on them yet."""
        tree = self._matcher.graph.tree
        op = Op.allocate_orelse_reserve if asked.reserve else Op.allocate_with_satisfiability
        outcome = self._matcher.match(podspec.request(asked.podspec, asked.count, tree), op)
        job = outcome.job
        if job is None:
            return Answer(fluxion.MatchResponse(), outcome.verdict.value)
        where = podspec.tasks(job, asked.podspec.cpu, tree, self._matcher.names)
        answer = fluxion.MatchResponse(
            fluxID=job.id,
            nodelist=[fluxion.NodeAlloc(nodeID=node, tasks=n) for node, n in where.items()],
            reserved=job.reserved,
            reserved_at=job.start,
            allocated=not job.reserved,
        )
        return Answer(answer, outcome.verdict.value)

    async def cancel(self, asked: fluxion.CancelRequest) -> Answer:
        """An unknown id is an error unless the caller says that it is none."""
        if asked.NoExistOK:
            _cancel_if_there(self._matcher, asked.fluxID)
        else:
            self._matcher.cancel(asked.fluxID)
        return Answer(fluxion.CancelResponse(fluxID=asked.fluxID))


class JobspecMatching:
    """What clients of the stand-alone Fluxion service call: a jobspec, answered by a graph."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def methods(self) -> Service:
        """By name."""
        return {
            "Init": unary(self.init, fluxion.JobspecInitRequest),
            "Match": unary(self.match, fluxion.JobspecMatchRequest),
            "Cancel": unary(self.cancel, fluxion.JobspecCancelRequest),
        }

    async def init(self, asked: fluxion.JobspecInitRequest) -> Answer:
        """Another graph; what was granted on the one before is forgotten with it."""
        self._matcher.load(asked.jgf, asked.policy)
        return Answer(fluxion.JobspecInitResponse(status=fluxion.JobspecInitResponse.INIT_SUCCESS))

    async def match(self, asked: fluxion.JobspecMatchRequest) -> Answer:
        """As `match OP JOBSPEC` of resource-query, with the same job ids."""
        op = Op.allocate_orelse_reserve if asked.reservation else _op(asked.request)
        tree = self._matcher.graph.tree
        jobspec = in_graph_units(read_jobspec(asked.jobspec, tree.types), tree.unit)
        began = time.perf_counter()
        outcome = self._matcher.match(jobspec, op)
        answer = fluxion.JobspecMatchResponse(
            overhead=time.perf_counter() - began, status=_STATUS[outcome.verdict]
        )
        job = outcome.job
        if job is not None:
            answer.allocation = _jgf(job, tree)
            answer.jobid = 0 if op is Op.without_allocating else job.id
            answer.reserved = job.reserved
            answer.at = job.start
        return Answer(answer, outcome.verdict.value)

    async def cancel(self, asked: fluxion.JobspecCancelRequest) -> Answer:
        """An unknown id is no error, as it is none to Fluxion's service."""
        _cancel_if_there(self._matcher, asked.jobID)
        return Answer(fluxion.JobspecCancelResponse(jobID=asked.jobID))


class FluenceMatching:
    """What fluence's scheduler plugin calls: a pod and how many are alike, without reservations."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def methods(self) -> Service:
        """By name."""
        return {
            "Match": unary(self.match, fluxcli.MatchRequest),
            "Cancel": unary(self.cancel, fluxcli.CancelRequest),
        }

    async def match(self, asked: fluxcli.MatchRequest) -> Answer:
        """No room is an empty list of nodes."""
        if asked.request not in ("", Op.allocate.value):
            text = f"request: is {asked.request!r:.60}, but must be allocate; this service knows nothing else"
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, text)
        tree = self._matcher.graph.tree
        wanted = podspec.request(asked.ps, asked.count, tree)
        outcome = self._matcher.match(wanted, Op.allocate_with_satisfiability)
        answer = fluxcli.MatchResponse(podID=asked.ps.id)
        if outcome.job is not None:
            where = podspec.tasks(outcome.job, asked.ps.cpu, tree, self._matcher.names)
            answer.jobID = outcome.job.id
            answer.nodelist.extend(fluxcli.NodeAlloc(nodeID=node, tasks=n) for node, n in where.items())
        return Answer(answer, outcome.verdict.value)

    async def cancel(self, asked: fluxcli.CancelRequest) -> Answer:
        """An unknown id is no error, as it is none to fluence's sidecar."""
        _cancel_if_there(self._matcher, asked.jobID)
        return Answer(fluxcli.CancelResponse(jobID=asked.jobID))


_STATUS: Mapping[Verdict, fluxion.JobspecMatchResponse.ResultType] = {
    Verdict.granted: fluxion.JobspecMatchResponse.MATCH_SUCCESS,
    Verdict.busy: fluxion.JobspecMatchResponse.MATCH_ERROR,
    Verdict.never: fluxion.JobspecMatchResponse.MATCH_DENIED,
}


def _jgf(job: Job, tree: Tree) -> str:
    rows = [Row(v, held.needs, held.exclusive) for v, held in job.held.items()]
    return emitted("jgf", tree, rows, Extra(job.start, job.end))


def _op(word: str) -> Op:
    try:
        return Op(word) if word else Op.allocate_with_satisfiability
    except ValueError:
        known = ", ".join(op.value for op in Op)
        text = f"request: is {word!r:.60}, but must be one of {known}"
        raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, text) from None


def _cancel_if_there(matcher: Matcher, id_: int) -> None:
    with suppress(Unknown):
        matcher.cancel(id_)
