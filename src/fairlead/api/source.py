"""Where the HTTP server gets its answers: the engine's state, and the store for what the state forgot.

`Source` is what `api.server` needs; `EngineSource` is the one that the composition root makes for a
running scheduler. Nothing here may change the state; an audit does, but by events. It runs in the loop's own
thread, so the state never changes under an answer.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from fairlead import __version__
from fairlead.core import steps, story, views
from fairlead.core.containment import pools, split
from fairlead.core.dump import dump
from fairlead.core.moment import picturing, take
from fairlead.core.pending import pending_pods
from fairlead.core.state import State
from fairlead.core.tree.columns import Tree, TreeError
from fairlead.model.audit import Report
from fairlead.model.dump import LastAudit, StateDump
from fairlead.model.group import GroupRecord
from fairlead.model.node import Node
from fairlead.model.view import (
    Explanation,
    ExplanationPage,
    GraphPage,
    Health,
    Member,
    NodePage,
    QueuePage,
    QueuesPage,
)
from fairlead.runtime.audit import Auditor
from fairlead.runtime.metrics import Metrics
from fairlead.wire import jgf

MOST_ENDED = 10_000
MOST_CORES = 10_000
"""Told one by one in a graph; as many keep the interpreter busy for about a second and a half."""


class History(Protocol):
    """What the store knows of groups that the state has forgotten. Both may raise when it is away."""

    async def ended(self, limit: int) -> list[GroupRecord]:
        """Ended groups, the latest first."""
        ...

    async def find(self, name: str) -> list[GroupRecord]:
        """Groups by id, by name, or by namespace/name."""
        ...


class Source(Protocol):
    """Everything that can be asked over HTTP."""

    async def queue(self, *, ended: bool, namespace: str, limit: int, offset: int) -> QueuePage: ...

    def queues(self) -> QueuesPage: ...

    async def explain(self, name: str) -> ExplanationPage: ...

    def nodes(self) -> NodePage: ...

    async def graph(self) -> GraphPage: ...

    async def state(self) -> StateDump: ...

    async def audit(self, repair: bool) -> Report | None: ...

    def audited(self) -> Report | None: ...

    def health(self) -> Health: ...

    def metrics(self) -> bytes: ...


def _drawn(nodes: Sequence[Node], keys: Sequence[str], whole: bool) -> str:
    found = pools(nodes, keys)
    cores = sum(pool.size for pool in found if pool.type == "core")
    if cores > MOST_CORES and not whole:
        raise TreeError(f"the graph has {cores:,} cores, too many to tell each: ask for it whole")
    return jgf.whole(Tree(found if whole else split(found)))


class EngineSource:
    """Answers from a live state. `metrics` None: those of the state alone are told."""

    def __init__(
        self,
        state: State,
        metrics: Metrics | None = None,
        history: History | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        standby: Callable[[], str] = str,
    ) -> None:
        """`standby`: who leads instead of this one, in words; "" while it leads."""
        self._metrics = metrics or Metrics()
        self._history = history
        self._clock = clock
        self._standby = standby
        self.auditor: Auditor | None = None
        """Who can hold the state against the cluster; nobody where there is none."""
        self.remark: Callable[[], str] = str
        """What people are to know beside every answer; "" if nothing."""
        self.turn_to(state, self._metrics)

    def turn_to(self, state: State, metrics: Metrics, auditor: Auditor | None = None) -> None:
        """From now on answer from these: the scheduler has begun anew."""
        self._state, self._metrics, self.auditor = state, metrics, auditor

    def _now(self) -> int:
        """The engine's clock stands still between batches; people's does not."""
        return max(self._state.now, self._clock())

    def _warnings(self) -> tuple[str, ...]:
        health, remark = self.health(), self.remark()
        said = (remark,) if remark else ()
        if health.ready:
            return said
        return (*said, *(f"nothing is started: {reason}" for reason in health.reasons))

    async def queue(self, *, ended: bool, namespace: str, limit: int, offset: int) -> QueuePage:
        records, warnings = await self._past() if ended else ([], ())
        return views.queue_page(
            self._state,
            self._now(),
            ended=records,
            include_ended=ended,
            namespace=namespace,
            limit=limit,
            offset=offset,
            warnings=(*self._warnings(), *warnings),
        )

    def queues(self) -> QueuesPage:
        return views.queues_page(self._state, self._now(), self._warnings())

    async def _past(self) -> tuple[list[GroupRecord], tuple[str, ...]]:
        if self._history is None:
            return [], ()
        try:
            return await self._history.ended(MOST_ENDED), ()
        except Exception as error:  # whatever ails the store, the live part of the answer still holds
            return [], (f"groups that ended long ago are missing: {error}",)

    async def explain(self, name: str) -> ExplanationPage:
        now, warnings = self._now(), self._warnings()
        found: list[Explanation] = [story.explain(self._state, g, now) for g in story.find(self._state, name)]
        if self._history is not None and all(e.group.phase == "ended" for e in found):
            try:
                past = await self._history.find(name)
            except Exception as error:
                past, warnings = [], (*warnings, f"groups that ended long ago are missing: {error}")
            known = {e.group.id for e in found}
            found += [story.explain_record(r, now) for r in past if r.id not in known]
        return ExplanationPage(now, "scheduler", warnings, tuple(found))

    def members(self, id_: str) -> tuple[Member, ...]:
        """The pods of a group; none of one that only the store knows."""
        group = self._state.groups.get(id_)
        return () if group is None else story.pods_of(self._state, group)

    def nodes(self) -> NodePage:
        return NodePage(self._now(), "scheduler", self._warnings(), tuple(views.node_rows(self._state)))

    async def state(self) -> StateDump:
        """The whole picture. The engine stands still while it is drawn: about a second for 50,000 pods.

        The digest takes as long again, in another thread, of a moment that stands still by itself.
        """
        found, moment = dump(self._state, self._now(), __version__, self._warnings()), take(self._state)
        audit = self.audited()
        last = audit and LastAudit(audit.at, audit.result, len(audit.differences), audit.repaired)
        picture = await asyncio.to_thread(steps.now, picturing(moment))
        return msgspec.structs.replace(found, digest=picture.digest, audit=last)

    async def audit(self, repair: bool) -> Report | None:
        """An audit made now, after those under way; None where there is no cluster to ask."""
        return None if self.auditor is None else await self.auditor.audit(repair)

    def audited(self) -> Report | None:
        """The last audit; None before the first."""
        return None if self.auditor is None else self.auditor.last

    async def graph(self) -> GraphPage:
        """The cluster as a containment tree, with a vertex per resource of a node."""
        now, warnings = self._now(), self._warnings()
        text = await self.jgf(whole=True)
        graph = (await asyncio.to_thread(msgspec.json.decode, text))["graph"]
        return GraphPage(now, "scheduler", warnings, graph)

    async def jgf(self, whole: bool) -> str:
        """The same as a file; if not `whole`, in parts that jobs can share. Raises TreeError for too many.

        Drawn in another thread, from nodes that do not change: where there are many it takes seconds.
        """
        inventory, keys = self._state.inventory, self._state.settings.topology
        known = zip(inventory.nodes, inventory.gone_at, strict=True)
        nodes = [node for node, gone in known if node is not None and not gone]
        return await asyncio.to_thread(_drawn, nodes, keys, whole)

    def health(self) -> Health:
        standby = self._standby()
        return Health(False, (standby,)) if standby else views.health(self._state)

    def metrics(self) -> bytes:
        return self._metrics.render(
            views.census(self._state),
            views.resource_totals(self._state),
            self._state.ready,
            pending_pods(self._state),
        )
