"""README.md is true where a machine can tell: its queries run, its labels are read, its links lead on."""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer
from store_support import folder, group, running

from fairlead.cli.db import socket_url
from fairlead.cli.main import app
from fairlead.core import durations, grouping
from fairlead.kube.access import NEEDED
from fairlead.model.command import RecordAllocations, SaveGroups
from fairlead.model.event import AllocationsRecorded
from fairlead.model.group import GroupRecord, Phase, Reason, Why
from fairlead.model.plan import Grant, Placement
from fairlead.model.settings import MATCHES
from fairlead.store.postgres import PostgresStore

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs", "deploy", "examples")


# -- SQL ---------------------------------------------------------------------------------------------


def queries() -> list[str]:
    (block,) = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    return [each.strip() for each in block.split(";") if each.strip()]


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """A store with two groups that run, two that wait and one that assembles; its server runs."""
    with folder() as path:
        yield from _served(path)


def _served(path: Path) -> Iterator[Path]:
    with asyncio.Runner() as runner:
        store = PostgresStore(data=path)
        context = running(store)
        inbox = runner.run(context.__aenter__())
        now = int(time.time() * 1000)
        store.perform([SaveGroups(tuple(records(now))), *started(store.epoch, now)])
        runner.run(inbox.first(AllocationsRecorded))
        yield path
        runner.run(context.__aexit__(None, None, None))


def records(now: int) -> list[GroupRecord]:
    head = Reason(Why.RESOURCES, "needs 4 × cpu=8, room for 1 now (short of cpu)")
    seen = {"first_seen": now - 90_000}
    return [
        group(3, phase=Phase.QUEUED, reason=head, size=4, seen=4, **seen),
        group(4, phase=Phase.QUEUED, reason=Reason(Why.QUEUED, "behind ns/g3"), priority=-1, **seen),
        group(
            5, phase=Phase.HELD, reason=Reason(Why.WAITING_FOR_GROUP, "has 1 of 2"), size=2, seen=1, **seen
        ),
    ]


def started(epoch: int, now: int) -> list[RecordAllocations]:
    fields: dict[str, Any] = {"phase": Phase.RUNNING, "granted_at": now, "started_at": now, "nodes": ("n0",)}
    groups = (
        group(1, first_seen=now - 10_000, **fields),
        group(2, first_seen=now - 30_000, **fields),
    )
    places = ((Placement("a", "n0"), Placement("b", "n1")), (Placement("c", "n0"),))
    grants = tuple(Grant(f"1-1/{i}", "1-1", each.id, epoch, now, places[i]) for i, each in enumerate(groups))
    return [RecordAllocations("1-1", epoch, now, grants, (), groups)]


def ask(data: Path, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(socket_url(data)) as conn:
        return conn.execute(query.encode()).fetchall()


def test_the_three_queries_answer_what_they_ask(data: Path):
    waiting, waits, nodes = (ask(data, each) for each in queries())
    assert [(row[0], row[2]) for row in waiting] == [(1, "g3"), (2, "g4"), (None, "g5")]
    assert waiting[0][5].total_seconds() >= 90 and waiting[2][6] == "WaitingForGroup"
    ((namespace, count, median, longest),) = waits
    assert (namespace, count) == ("ns", 2)
    assert (median.total_seconds(), longest.total_seconds()) == (20, 30)
    assert nodes == [("n0", 2, "ns/g1, ns/g2"), ("n1", 1, "ns/g1")]


def test_views_that_are_named_exist(data: Path):
    section = README.split("## Ask")[1].split("## Not there yet")[0]
    views = {row[0] for row in ask(data, "SELECT viewname FROM pg_views WHERE schemaname = 'fairlead'")}
    named = set(re.findall(r"`([a-z_]+)`", section)) - {"as"}
    assert views <= named | {"groups"} and {"groups", "queue", "allocations", "reservations"} <= named & views


# -- labels and annotations --------------------------------------------------------------------------


def table(heading: str) -> str:
    """The rows of the table with that first column."""
    (found,) = re.findall(rf"^\| {heading} \|.*\n\| --- .*\n((?:\|.*\n)+)", README, re.MULTILINE)
    return found


def test_tables_name_every_key_that_is_read():
    labels = re.findall(
        r"`([a-z.x8-]+/?[a-z-]+)`", "".join(r.split("|")[1] for r in rows("label on the pod"))
    )
    assert sorted(labels) == sorted(key for pair in grouping._NAMES for key in pair)
    notes = re.findall(r"`([a-z./-]+)`", "".join(r.split("|")[1] for r in rows("annotation")))
    known = [grouping.QUEUE, grouping.DURATION, grouping.BEGIN_TIME, grouping.REQUIRED_TOPOLOGY]
    known += [grouping.ON_TIMEOUT, grouping.PREFERRED_TOPOLOGY, grouping.EXCLUSIVE, grouping.ON_FAILURE]
    assert sorted(notes) == sorted(known)


def rows(heading: str) -> list[str]:
    return table(heading).splitlines()


def test_values_of_the_tables_can_be_read():
    lengths = re.findall(r"`([0-9hms]+)`", table("annotation"))
    assert [durations.duration(each) for each in lengths] == [3_600_000, 90_000, 9_000_000]
    (instant,) = re.findall(r"`([0-9T:Z-]+Z)`", table("annotation"))
    assert durations.instant(instant)


def test_options_and_choices_exist():
    command = typer.main.get_command(app).commands["scheduler"]  # type: ignore[attr-defined]
    known = {name for parameter in command.params for name in parameter.opts}
    named = set(re.findall(r"`?(--[a-z-]+)", table("option"))) - {"--help"}
    assert named <= known
    assert re.findall(r"`(?:--match )?([a-z]+)`", next(r for r in rows("option") if "--match" in r)) == list(
        MATCHES
    )


# -- the rest ----------------------------------------------------------------------------------------


def documents() -> Iterator[Path]:
    for name in DOCUMENTS:
        path = ROOT / name
        yield from [path] if path.is_file() else sorted(path.rglob("*.md"))


def test_links_lead_somewhere():
    lost = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in documents()
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
        if not target.startswith("http") and not (path.parent / target).exists()
    ]
    assert lost == []


def test_nothing_is_written_that_the_readme_does_not_tell():
    told = README.split("What it writes into the cluster")[1].split("## Submit")[0]
    writes = {right.sub or right.resource for right in NEEDED if right.verb not in ("get", "list", "watch")}
    claims = {"persistentvolumeclaims", "persistentvolumes"}
    assert writes == {"binding", "status", "events", "pods", "jobs", *claims}
    assert all(word in told for word in ("bindings", "PodScheduled=False", "Events", "deletion"))
    assert "selected-node" in told and "spec.claimRef" in told
