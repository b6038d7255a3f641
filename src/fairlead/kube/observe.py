"""The kinds that the recorder watches: pods, nodes and Kubernetes Events, as facts.

Used by `fairlead.app_recorder` with the same reflectors that the scheduler has. Pure but for a log line and a
counter when an object cannot be read. Must not raise for anything a server may send, and must not ask for
more than these three kinds: deploy/recorder.yaml grants no more.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from fairlead.kube.access import Right
from fairlead.kube.translate import Body, Counter, KindOf, complain
from fairlead.wire import life
from fairlead.wire.happening import EventFact, happening
from fairlead.wire.life import GoneFact, NodeFact, PodFact

_Fact = TypeVar("_Fact", PodFact, NodeFact)
_UNREADABLE = (msgspec.MsgspecError, ValueError)


def _kind(
    name: str, path: str, read: Callable[[Body], _Fact], salvage: Callable[[Body], _Fact]
) -> KindOf[_Fact]:
    def seen(raw: Body, count: Counter) -> _Fact | None:
        """What cannot be read whole exists all the same, and is recorded as far as it can be read."""
        try:
            return read(raw)
        except _UNREADABLE as error:
            complain(name, raw, error, count)
        try:
            return salvage(raw)
        except _UNREADABLE:
            return None

    def last(raw: Body, count: Counter) -> GoneFact | None:
        found = seen(raw, count)
        return GoneFact(found.uid, found.version, name, found) if found is not None else None

    return KindOf(name, path, "recorder", seen, partial(GoneFact, kind=name), last=last)


def _event(raw: Body, count: Counter) -> EventFact | None:
    try:
        return happening(raw)
    except _UNREADABLE as error:
        complain("Event", raw, error, count)
        return None


PODS = _kind("Pod", "/api/v1/pods", life.pod, life.salvaged_pod)
NODES = _kind("Node", "/api/v1/nodes", life.node, life.salvaged_node)
EVENTS = KindOf("Event", "/apis/events.k8s.io/v1/events", "recorder", _event, partial(GoneFact, kind="Event"))


def needed(events: bool) -> tuple[Right, ...]:
    """What the account must be allowed to do; `events`: also to hear Kubernetes Events."""
    resources = [("pods", ""), ("nodes", ""), *([("events", "events.k8s.io")] if events else [])]
    return tuple(Right(verb, name, group) for name, group in resources for verb in ("list", "watch"))
