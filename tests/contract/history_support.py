"""What the tests of history share: a small cluster's past, written into the ledger's tables by plain SQL."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from fairlead.model.record import Change, NodeLife, PodLife, Source
from fairlead.store.schema import migrate
from fairlead.store.session import connect

T0 = 1_790_000_000_000
"""2026-09-21 14:13:20 UTC."""
MINUTE = 60_000
GI = 1 << 30

_COLUMNS = ", ".join(name for name in Change.__struct_fields__ if name != "extra")
_INSERT = {
    PodLife: "INSERT INTO pod_life SELECT * FROM jsonb_populate_recordset(NULL::pod_life, %s::jsonb)",
    NodeLife: "INSERT INTO node_life SELECT * FROM jsonb_populate_recordset(NULL::node_life, %s::jsonb)",
    Change: f"INSERT INTO change ({_COLUMNS}, extra) SELECT {_COLUMNS}, nullif(extra, 'null'::jsonb) "
    "FROM jsonb_populate_recordset(NULL::change, %s::jsonb)",
}


def _whole(row: Any) -> dict[str, Any]:
    return {name: msgspec.to_builtins(getattr(row, name)) for name in row.__struct_fields__}


async def fill(url: str, *rows: PodLife | NodeLife | Change) -> None:
    """Tables made, rows in them."""
    conn = await connect(url, "test")
    try:
        await migrate(conn)
        write(conn.info.dsn + f" password={conn.info.password}", rows)
    finally:
        await conn.close()


def write(url: str, rows: Sequence[PodLife | NodeLife | Change]) -> None:
    with psycopg.connect(url, options="-csearch_path=fairlead") as conn:
        for kind, statement in _INSERT.items():
            found = [_whole(row) for row in rows if isinstance(row, kind)]
            conn.execute(statement.encode(), [json.dumps(found)])


def node(name: str, since: int = T0, **more: Any) -> NodeLife:
    amounts = {"cpu": 8000, "memory": 32 * GI, "pods": 110, "nvidia.com/gpu": 2}
    return NodeLife(f"uid-{name}", name, since, **{"capacity": amounts, "allocatable": amounts} | more)


def pod(name: str, created: int = 0, **more: Any) -> PodLife:
    """A pod of team-a, of the Job `train`; `created` is in milliseconds behind T0, and so are other times."""
    values: dict[str, Any] = {
        "namespace": "team-a",
        "scheduler": "fairlead",
        "owner_kind": "Job",
        "owner_name": "train",
        "group": "train",
        "requests": {"cpu": 2000, "memory": 4 * GI, "nvidia.com/gpu": 1},
        "labels": {"app": "train"},
        "queued": created,
        "first_seen": created,
        "last_seen": created,
    }
    values |= {"created": created} | more
    times = ("created", "queued", "scheduled", "bound", "started", "ready", "finished", "deleting", "deleted")
    for key in (*times, "first_seen", "last_seen"):
        if key in values:
            values[key] += T0
    return PodLife(f"uid-{name}", name=name, **values)


def through(name: str, node: str, created: int = 0, run: int = 10 * MINUTE, **more: Any) -> PodLife:
    """A pod that went all the way: a minute in the queue, then a second from stage to stage."""
    at = created + MINUTE
    times = {"scheduled": at, "bound": at + 1000, "started": at + 2000, "ready": at + 3000}
    if run:
        times |= {"finished": at + 2000 + run}
        more = {"phase": "Succeeded", "exit_code": 0} | more
    else:
        more = {"phase": "Running"} | more
    return pod(name, created, node=node, **times | more)


PAST = (
    node("n0"),
    node("n1"),
    node("n1", T0 + 30 * MINUTE, ready=False, conditions={"Ready": "KubeletStopped"}),
    through("a", "n0", 0, 10 * MINUTE),
    through("b", "n1", 0, 0),
    through("c", "n0", 5 * MINUTE, 20 * MINUTE, phase="Failed", exit_code=3, scheduler="default-scheduler",
            owner_kind="", owner_name="", group="", labels={"app": "web"}, namespace="team-b"),
    pod("waits", 2 * MINUTE),
    pod("gone", MINUTE, deleted=3 * MINUTE),
    pod("lost", MINUTE, node="n1", bound=2 * MINUTE, deleted=9 * MINUTE, lost=True, phase="Running"),
    pod("told", MINUTE, node="n0", scheduled=4 * MINUTE, finished=6 * MINUTE, phase="Succeeded",
        source=Source.SNIFFER),
    Change("Pod", "Created", T0, T0 + 5, Source.WATCH, "uid-a", "team-a", "a", version=7),
    Change("Group", "Planned", T0 + 1, T0 + 1, Source.FAIRLEAD, namespace="team-a", name="train",
           extra={"plan": "1-1", "nodes": ["n0", "n1"]}),
    Change("Pod", "FailedScheduling", T0 + 2, T0 + 9, Source.EVENTS, "uid-waits", "team-a", "waits",
           reason="FailedScheduling", message="0/2 nodes are available"),
    Change("Pod", "ScheduleSuccess", T0 + 3, T0 + 9, Source.SNIFFER, name="told", node="n0",
           extra={"endpoint": "schedulePod"}),
    Change("Pod", "Finished", T0 + 10 * MINUTE, T0 + 12 * MINUTE, Source.WATCH, "uid-a", "team-a", "a"),
    Change("Recorder", "Gap", T0 + 12 * MINUTE, T0 + 14 * MINUTE, Source.RECORDER,
           extra={"kind": "Pod", "from": 7, "to": 9}, version=9, reason="Expired"),
    Change("Recorder", "Gap", T0 + 14 * MINUTE + 9, T0 + 14 * MINUTE + 9, Source.RECORDER,
           extra={"kind": "Node", "from": 7, "to": 9}, version=9, reason="Expired"),
    Change("Recorder", "Gap", T0, T0 + 50 * MINUTE, Source.RECORDER, extra={"kind": "Pod", "uid": "x"},
           reason="Mistake"),
    Change("Recorder", "Gap", T0, T0 + 50 * MINUTE, Source.RECORDER, reason="no room",
           extra={"kind": "plugin", "from": T0, "to": T0 + 50 * MINUTE, "lost": 3}),
    Change("Node", "Condition", T0 + 30 * MINUTE, T0 + 30 * MINUTE, Source.WATCH, "uid-n1", name="n1",
           reason="Ready=False"),
)  # fmt: skip
"""An hour of two nodes: pods in every state that there is."""
