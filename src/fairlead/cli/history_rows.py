"""What a pod, a node and a change of the ledger are in a row for programs.

Used by `cli.history_pods` and `cli.history_export`. Column names stay: scripts rely on them.
"""

import msgspec

from fairlead.cli.history_sheet import Cells, Field
from fairlead.model.history import ChangeRow, PodHistory
from fairlead.model.record import NodeLife
from fairlead.recorder.occupancy import gpus

_TIMES = ("created", "queued", "scheduled", "bound", "started", "ready", "finished", "deleted")
POD = (
    *map(Field, ("namespace", "name", "uid", "node")), Field("since", "time"), Field("until", "time"),
    *map(Field, ("ended", "phase", "reason")), Field("exit_code", "int"),
    *map(Field, ("scheduler", "owner_kind", "owner_name", "group")), Field("cpu_milli", "int"),
    Field("memory_bytes", "int"), Field("gpu", "int"), *(Field(name, "time") for name in _TIMES),
    Field("requests", "json"), Field("labels", "json"),
)  # fmt: skip
NODE = (
    Field("node"), Field("uid"), Field("since", "time"), Field("until", "time"), Field("cpu_milli", "int"),
    Field("memory_bytes", "int"), Field("gpu", "int"), Field("pods", "int"), Field("ready", "bool"),
    Field("unschedulable", "bool"), Field("taints", "json"), Field("labels", "json"),
    Field("conditions", "json"), Field("capacity", "json"), Field("allocatable", "json"),
    Field("lost", "bool"),
)  # fmt: skip
CHANGE = (
    Field("seq", "int"), Field("at", "time"), Field("seen", "time"),
    *map(Field, ("source", "object", "event", "namespace", "name", "node", "scheduler", "reason", "message")),
    Field("uid"), Field("version", "int"), Field("extra", "json"),
)  # fmt: skip


def pod(row: PodHistory) -> Cells:
    """In the order of POD."""
    requests = row.requests
    return (
        row.namespace, row.name, row.uid, row.node or None, row.since or None, row.until or None,
        row.ended or None, row.phase, row.reason or None, None if row.exit_code < 0 else row.exit_code,
        row.scheduler, row.owner_kind or None, row.owner_name or None, row.group or None,
        requests.get("cpu", 0), requests.get("memory", 0), gpus(requests),
        *(getattr(row, name) or None for name in _TIMES), requests, row.labels,
    )  # fmt: skip


def node(row: NodeLife) -> Cells:
    """In the order of NODE; amounts without a word are allocatable."""
    has = row.allocatable
    return (
        row.name, row.uid, row.since, row.until or None, has.get("cpu", 0), has.get("memory", 0), gpus(has),
        has.get("pods"), row.ready, row.unschedulable, row.taints, row.labels, row.conditions, row.capacity,
        row.allocatable, row.lost,
    )  # fmt: skip


def change(row: ChangeRow) -> Cells:
    """In the order of CHANGE."""
    return (
        row.seq, row.at, row.seen, row.source, row.object, row.event, row.namespace or None, row.name or None,
        row.node or None, row.scheduler or None, row.reason or None, row.message or None, row.uid or None,
        row.version or None, msgspec.json.decode(row.extra) if row.extra else None,
    )  # fmt: skip
