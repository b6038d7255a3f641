"""docs/recorder-extender.md is true: its queries run on what extender and Events leave, and answer right."""

import asyncio
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from history_support import fill, pod
from msgspec.structs import replace
from store_support import fresh_database

from fairlead.model.record import Change, PodLife
from fairlead.recorder.extender import Extender
from fairlead.recorder.scheduling_events import SchedulingEvents
from fairlead.wire.happening import EventFact, Reference

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "recorder-extender.md").read_text(encoding="utf-8")
MINUTE = 60_000
NOW = time.time_ns() // 1_000_000
BEGAN = NOW - 60 * MINUTE


def life(name: str, queued: int, **more: int | str) -> PodLife:
    """A pod whose times are as they are given, 0 where they are not."""
    times = {"created": queued, "queued": queued, "first_seen": queued, "last_seen": queued}
    return replace(pod(name), **{**times, **more})


def asked(rows: list[Change], name: str, at: int, *nodes: str) -> None:
    extender = Extender(rows.extend, lambda: at)
    meta = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": "7"}
    extender.filter(json.dumps({"Pod": {"metadata": meta}, "NodeNames": nodes}).encode())


def event(name: str, at: int, reason: str, note: str) -> Change:
    about = Reference("Pod", "team-a", name, f"uid-{name}")
    row = SchedulingEvents().learn(EventFact(f"e-{name}", 9, about, reason, note, at=at), at)
    assert row is not None
    return row


def refused(name: str, reasons: str) -> Change:
    note = f"0/8 nodes are available: {reasons}. preemption: not eligible."
    return event(name, BEGAN + MINUTE, "FailedScheduling", note)


def past() -> list[Change | PodLife]:
    rows: list[Change] = []
    asked(rows, "placed", BEGAN + 15 * MINUTE, "n1", "n2", "n3")
    asked(rows, "waits", BEGAN + 21 * MINUTE, "n1")
    bound = BEGAN + 15 * MINUTE + 250
    return [
        *rows,
        refused("waits", "8 Insufficient cpu"),
        refused("other", "3 Insufficient cpu, 5 Insufficient memory"),
        event("placed", bound, "Scheduled", "Successfully assigned team-a/placed to n2"),
        life("placed", BEGAN, node="n2", bound=bound),
        life("waits", BEGAN),
        life("other", BEGAN, deleted=BEGAN + 35 * MINUTE),
    ]


@pytest.fixture(scope="module")
def url(tcp_url: str) -> Iterator[str]:
    with fresh_database(tcp_url) as found:
        asyncio.run(fill(found, *past()))
        yield found


def answers(url: str) -> list[list[tuple[Any, ...]]]:
    queries = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    with psycopg.connect(url, options="-csearch_path=fairlead") as conn:
        return [conn.execute(query.encode()).fetchall() for query in queries]


def test_RB8_RB9_its_queries_say_who_was_placed_who_was_refused_and_who_waits(url: str):
    decided, why, backlog = answers(url)
    ((namespace, name, node, attempts, candidates, took),) = decided
    assert (namespace, name, node, attempts, candidates) == ("team-a", "placed", "n2", 1, 3)
    assert took.total_seconds() == 0.25
    assert why == [("Insufficient cpu", 2, 8), ("Insufficient memory", 1, 5)]
    waiting = [(int(at.timestamp() * 1000) - BEGAN, count) for at, count in backlog]
    assert all(count == 0 for at, count in waiting if at < 0)
    assert {count for at, count in waiting if 0 <= at < 15 * MINUTE} == {3}
    assert {count for at, count in waiting if 16 * MINUTE < at < 35 * MINUTE} == {2}
    assert {count for at, count in waiting if at > 36 * MINUTE} == {1}
