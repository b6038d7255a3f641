"""Kubernetes Events (events.k8s.io/v1) on the wire -> facts: what somebody says has happened. Pure.

Called by `kube.observe` for each Event that a list or a watch tells; `recorder.scheduling_events` makes rows
of them. Old recorders write the fields that are called deprecated, and nothing else has their times.
"""

import msgspec
from msgspec import Struct

from fairlead.wire.life import Body, Fact, time_of
from fairlead.wire.pod import version_of
from fairlead.wire.structs import ObjectMeta


class Reference(Struct, frozen=True, rename="camel", gc=False):
    """The object that an Event is about, or one that had to do with it."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class EventFact(Fact, frozen=True):
    """An Event as it is now: it has happened `count` times, first at `first` and last at `at`.

    `host` is the node of a kubelet that says it. `uid` and `version` are the Event's own.
    """

    regarding: Reference
    reason: str
    note: str = ""
    action: str = ""
    warning: bool = False
    at: int = 0
    first: int = 0
    count: int = 1
    controller: str = ""
    host: str = ""
    related: Reference | None = None


class _Series(Struct, frozen=True, rename="camel"):
    count: int = 0
    last_observed_time: str | None = None


class _Source(Struct, frozen=True):
    component: str = ""
    host: str = ""


class _Event(Struct, frozen=True, rename="camel"):
    metadata: ObjectMeta
    regarding: Reference = Reference()
    related: Reference | None = None
    reason: str = ""
    note: str = ""
    action: str = ""
    type: str = ""
    event_time: str | None = None
    series: _Series | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    deprecated_source: _Source = _Source()
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: int = 0


_event = msgspec.json.Decoder(_Event).decode


def happening(raw: Body) -> EventFact:
    """Raises msgspec.MsgspecError for what is no Event."""
    wire = _event(raw)
    meta, series, source = wire.metadata, wire.series, wire.deprecated_source
    controller = wire.reporting_controller or source.component
    first = (
        time_of(wire.event_time)
        or time_of(wire.deprecated_first_timestamp)
        or time_of(meta.creation_timestamp)
    )
    last = time_of(series.last_observed_time) if series else time_of(wire.deprecated_last_timestamp)
    return EventFact(
        uid=meta.uid,
        version=version_of(meta.resource_version),
        regarding=wire.regarding,
        reason=wire.reason,
        note=wire.note,
        action=wire.action,
        warning=wire.type == "Warning",
        at=max(first, last),
        first=first,
        count=max(series.count if series else wire.deprecated_count, 1),
        controller=controller,
        host=source.host or (wire.reporting_instance if controller == "kubelet" else ""),
        related=wire.related,
    )
