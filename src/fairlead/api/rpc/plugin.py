"""`service.ExternalPluginService`: nodes and groups for kubectl plugins.

Composed by the composition root over a running scheduler, and by `fairlead fluxion-service` over a graph
alone. Read-only. Must not know the engine's state.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import grpc

from fairlead.api.rpc.call import Answer, Refusal, Service, unary
from fairlead.api.rpc.pb import service_pb2 as service
from fairlead.model.view import ExplanationPage, Member, QueuePage, QueueRow

EXTERNAL_PLUGIN = "service.ExternalPluginService"
MOST = 10_000
"""Groups in one answer."""
_USUAL = 100

Graph = Callable[[bool], Awaitable[str]]


class Groups(Protocol):
    """What a scheduler tells of its groups."""

    async def queue(self, *, ended: bool, namespace: str, limit: int, offset: int) -> QueuePage: ...

    async def explain(self, name: str) -> ExplanationPage: ...

    def members(self, id_: str) -> tuple[Member, ...]: ...


class ExternalPlugin:
    """`graph` gives the JGF of now: in parts that jobs can share, or a node's resources whole."""

    def __init__(self, graph: Graph, groups: Groups | None = None) -> None:
        self._graph, self._groups = graph, groups

    def methods(self) -> Service:
        """By name."""
        return {
            "GetResources": unary(self.resources, service.ResourceRequest),
            "ListGroups": unary(self.list_groups, service.GroupRequest),
            "GetGroup": unary(self.group, service.GroupRequest),
        }

    async def resources(self, asked: service.ResourceRequest) -> Answer:
        """The graph as it is now."""
        return Answer(service.ResourceResponse(graph=await self._graph(asked.whole)))

    async def list_groups(self, asked: service.GroupRequest) -> Answer:
        """A page of the queue."""
        limit = asked.limit or _USUAL
        if not 0 < limit <= MOST or asked.offset < 0:
            text = f"limit is {asked.limit}, offset {asked.offset}: at most {MOST} groups, from 0 on"
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, text)
        known = self._known()
        page = await known.queue(
            ended=asked.ended, namespace=asked.namespace, limit=limit, offset=asked.offset
        )
        groups = [_group(row, known.members(row.id)) for row in page.groups]
        return Answer(service.GroupResponse(groups=groups, total=page.total))

    async def group(self, asked: service.GroupRequest) -> Answer:
        """The group of a name: one that has not ended before those that have, of these the latest."""
        if not asked.group:
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, "group: is empty; name the group")
        page = await self._known().explain(asked.group)
        found = [e for e in page.groups if asked.namespace in ("", e.group.namespace)]
        if not found:
            where = f" in namespace {asked.namespace!r}" if asked.namespace else ""
            raise Refusal(grpc.StatusCode.NOT_FOUND, f"no group {asked.group!r:.300} is known{where}")
        namespaces = sorted({e.group.namespace for e in found if e.group.phase != "ended"})
        if len(namespaces) > 1:
            text = f"group {asked.group!r:.300} exists in namespaces {', '.join(namespaces)}; say in which"
            raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, text)
        return Answer(_group(found[0].group, found[0].members))

    def _known(self) -> Groups:
        if self._groups is None:
            text = "this server only matches; ask a scheduler (fairlead scheduler --grpc) for groups"
            raise Refusal(grpc.StatusCode.UNIMPLEMENTED, text)
        return self._groups


def _group(row: QueueRow, members: tuple[Member, ...]) -> service.GroupResponse:
    return service.GroupResponse(
        name=row.name,
        size=row.size,
        namespace=row.namespace,
        state=row.state.value,
        members=[service.Member(name=m.name, node=m.node, phase=m.phase) for m in members],
        nodes=row.nodes,
    )
