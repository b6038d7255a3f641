"""HTTP for a stock kube-scheduler that places the application pods of external schedulers.

Composed by `app_esi` where pods are not placed by Fairlead itself (`--esi-binder extender`); asked by
kube-scheduler with deploy/kube-scheduler-esi-config.yaml. The engine assigns slots, this tells them. It runs
in the loop's thread. Must not wait longer than `patience`: kube-scheduler decides on one pod at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.api.extender import messages, verdict
from fairlead.api.extender.messages import Meta, NotUnderstood
from fairlead.api.extender.news import News
from fairlead.api.extender.verdict import Finding, NotYet, Outsider, Placed, Without
from fairlead.api.server import reply
from fairlead.core.state import State
from fairlead.model.command import Bind
from fairlead.model.view import Failure

PREFIX = "/extender"
"""`urlPrefix` of the extender in the KubeSchedulerConfiguration ends so, as ESI's verbs did."""
LARGEST = 256 << 20
"""Bytes of a body: 5,000 whole nodes with their victims, with room to spare. Names alone are some 100 KB. So
many may be held at a time: kube-scheduler asks about one pod after the other, and nobody else should."""
PATIENCE = 3.0


class Binds(Protocol):
    """Who binds, if kube-scheduler does not (`bindVerb`)."""

    async def bind(self, bind: Bind) -> str:
        """ "" once the pod is bound to that node, even by somebody else; else why not, in a sentence."""
        ...


class _Unavailable(Exception):
    """It cannot be said yet; the text says why. kube-scheduler tries again."""


class Extender:
    """Answers to the four verbs. `state`: that of the engine which runs at present."""

    def __init__(
        self, state: Callable[[], State], news: News, binds: Binds, patience: float = PATIENCE
    ) -> None:
        self._state, self._news, self._binds, self._patience = state, news, binds, patience
        self._binding: dict[str, tuple[str, asyncio.Task[str]]] = {}
        """Pod -> the node it is being bound to, and by what."""

    async def filter(self, body: bytes) -> bytes:
        """The ExtenderFilterResult that leaves in only the slot's node. Raises NotUnderstood.

        A ghost may still be in the slot: then kube-scheduler has found room beside it, evicting it would not
        help (a preemption without need of a victim is an error to kube-scheduler), and it is ours to remove.
        """
        asked = messages.question(body)
        match await self._find(asked.pod):
            case Outsider():
                return messages.untouched(asked)
            case NotYet(text):
                return messages.failed(text)
            case Without(reason):
                return messages.kept(asked, "", dict.fromkeys(asked.names, reason))
            case Placed() as found:
                return messages.kept(asked, found.slot.node, verdict.elsewhere(found, asked.names))

    async def prioritize(self, body: bytes) -> bytes:
        """The HostPriorityList that has only the slot's node. Raises NotUnderstood."""
        asked = messages.question(body)
        found = verdict.find(self._state(), asked.pod)
        top = [found.slot.node] if isinstance(found, Placed) and found.slot.node in asked.names else []
        return messages.scores(top)

    async def preempt(self, body: bytes) -> bytes:
        """The ExtenderPreemptionResult: the ghost in the pod's slot or nobody. Raises NotUnderstood."""
        asked = messages.preempting(body)
        match await self._find(asked.pod):
            case Outsider():
                return messages.victims({node: each for node, each in asked.victims.items() if each.pods})
            case NotYet(text):
                raise _Unavailable(text)
            case Without():
                return messages.victims({})
            case Placed() as found:
                return messages.victims(verdict.victims(self._state(), found, asked.victims))

    async def bind(self, body: bytes) -> bytes:
        """The ExtenderBindingResult. Asked twice, it binds once. Raises NotUnderstood."""
        asked = messages.binding(body)
        seen = self._state().pods.get(asked.uid)
        if seen is not None and (seen.namespace, seen.name) != (asked.namespace, asked.name):
            return messages.bound(f"pod {asked.uid} is {seen.namespace}/{seen.name} here")
        if seen is not None and seen.node:
            return messages.bound("" if seen.node == asked.node else f"the pod is bound to {seen.node}")
        under_way = self._binding.get(asked.uid)
        if under_way is None:
            found = await self._find(Meta(asked.name, asked.namespace, asked.uid))
            if isinstance(found, NotYet | Without):
                return messages.bound(found.text if isinstance(found, NotYet) else found.reason)
            under_way = self._binding.get(asked.uid) or self._begin(asked.uid, found, asked.node)
        node, task = under_way
        if node != asked.node:
            return messages.bound(f"the pod is being bound to {node}")
        return messages.bound(await asyncio.shield(task))

    def _begin(self, uid: str, found: Placed | Outsider, node: str) -> tuple[str, asyncio.Task[str]]:
        task = asyncio.create_task(self._bind(uid, found, node), name=f"bind {uid}")
        self._binding[uid] = node, task
        task.add_done_callback(lambda _: self._binding.pop(uid, None))
        return node, task

    async def _bind(self, uid: str, found: Placed | Outsider, node: str) -> str:
        command = verdict.bind(self._state(), uid, found, node)
        return command if isinstance(command, str) else await self._binds.bind(command)

    async def _find(self, asked: Meta) -> Finding:
        """NotYet only if that has lasted for our whole patience."""
        found = verdict.find(self._state(), asked)
        if isinstance(found, NotYet):
            unsettled = lambda: isinstance(verdict.find(self._state(), asked), NotYet)  # noqa: E731
            await self._news.until(lambda: not unsettled(), self._patience)
            found = verdict.find(self._state(), asked)
        return found


def routes(extender: Extender) -> list[Route]:
    """The four verbs below PREFIX."""
    verbs = {
        "filter": extender.filter,
        "prioritize": extender.prioritize,
        "preemption": extender.preempt,
        "bind": extender.bind,
    }
    bodies = _Bodies()
    return [
        Route(f"{PREFIX}/{verb}", _endpoint(answer, bodies), methods=["POST"])
        for verb, answer in verbs.items()
    ]


def _endpoint(
    answer: Callable[[bytes], Awaitable[bytes]], bodies: "_Bodies"
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            return Response(await answer(await bodies.of(request)), media_type="application/json")
        except NotUnderstood as error:
            return reply(Failure(str(error)), 400)
        except ClientDisconnect:
            return reply(Failure("the caller went away before its body was whole"), 400)
        except _Unavailable as error:
            return reply(Failure(str(error)), 503)

    return endpoint


class _Bodies:
    """Reads bodies, as many bytes at a time as memory is meant for: these routes ask nobody who they are."""

    def __init__(self) -> None:
        self._held = 0
        """Bytes of those that are being read."""

    async def of(self, request: Request) -> bytes:
        body = bytearray()
        try:
            async for piece in request.stream():
                body += piece
                self._held += len(piece)
                if len(body) > LARGEST:
                    raise NotUnderstood("the body is too large; nodeCacheCapable: true has only names sent")
                if self._held > LARGEST:
                    raise _Unavailable("too much is being asked at a time: try again")
            return bytes(body)
        finally:
            self._held -= len(body)
