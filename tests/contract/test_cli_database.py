"""When no scheduler answers, the command line asks the database, and says as of when that is."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from store_support import folder, running
from typer.testing import CliRunner, Result

from fairlead.cli import main
from fairlead.model.command import RecordAllocations, SaveGroups
from fairlead.model.event import AllocationsRecorded
from fairlead.model.group import GroupRecord, Outcome, Phase, Reason, Why
from fairlead.model.plan import Grant, Placement
from fairlead.model.view import ExplanationPage, QueuePage
from fairlead.runtime import address
from fairlead.store.embedded import running_postmaster
from fairlead.store.postgres import PostgresStore

NOW = 1_790_000_000_000


def record(name: str, seq: int, phase: Phase, **fields: object) -> GroupRecord:
    key = f"label:ns/{name}"
    return GroupRecord(f"{key}#1", key, 1, "ns", name, seq, NOW - 60_000, phase=phase, **fields)  # type: ignore[arg-type]


HEAD = Reason(Why.RESOURCES, "needs 2 × cpu=8, room for 1 now (short of cpu)")
REJECTED = Reason(Why.UNSATISFIABLE, "needs 2 × cpu=99, the largest matching node has cpu=8")
RECORDS = (
    record("runs", 1, Phase.RUNNING, nodes=("n0",), granted_at=NOW - 50_000, bound_at=NOW - 49_000),
    record("next", 2, Phase.QUEUED, reason=HEAD),
    record("behind", 3, Phase.QUEUED, reason=Reason(Why.QUEUED)),
    record("never", 4, Phase.ENDED, outcome=Outcome.REJECTED, reason=REJECTED, ended_at=NOW - 9),
    record("done", 5, Phase.ENDED, outcome=Outcome.COMPLETED, ended_at=NOW - 10),
)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("FAIRLEAD_SERVER", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    yield


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """The data folder of a scheduler that has ended, killed before it could remove its address."""
    with folder() as path:
        asyncio.run(_fill(path))
        (path / address.FILE).write_bytes(msgspec.json.encode(address.Address("http://127.0.0.1:1", 1)))
        yield path


async def _fill(path: Path) -> None:
    store = PostgresStore(data=path, now=lambda: NOW)
    async with running(store) as inbox:
        grant = Grant("1-1/0", "1-1", RECORDS[0].id, store.epoch, NOW, (Placement("pod-0", "n0"),))
        store.perform([SaveGroups(RECORDS), RecordAllocations("1-1", store.epoch, NOW, (grant,))])
        await inbox.first(AllocationsRecorded)


def run(*words: str) -> Result:
    return CliRunner().invoke(main.app, list(words), catch_exceptions=False)


def test_queue_as_of_the_last_write(data: Path):
    result = run("queue", "--data-dir", str(data), "-o", "json")
    page = msgspec.json.decode(result.stdout, type=QueuePage)
    assert (page.source, page.as_of) == ("database", NOW)
    assert [(row.position, row.name, row.state) for row in page.groups] == [
        (1, "next", "waiting"), (2, "behind", "waiting"), (0, "runs", "running"), (0, "never", "rejected"),
    ]  # fmt: skip
    assert page.groups[1].text == "behind ns/next"
    assert page.groups[0].waited == 60_000
    assert running_postmaster(data) is None  # started for this while only


def test_table_says_that_it_is_old(data: Path):
    result = run("queue", "--data-dir", str(data), "--all")
    assert "no scheduler answers at http://127.0.0.1:1" in result.stderr
    assert "as of 2026-09-21 " in result.stderr
    assert result.stdout.splitlines()[-1].split()[1] == "ns/done"


def test_explain_from_the_database(data: Path):
    result = run("explain", "ns/runs", "--data-dir", str(data), "-o", "json")
    (told,) = msgspec.json.decode(result.stdout, type=ExplanationPage).groups
    assert [stage.name for stage in told.stages] == ["seen", "planned", "bound"]
    assert [(member.uid, member.node) for member in told.members] == [("pod-0", "n0")]
    table = run("explain", "next", "--data-dir", str(data))
    assert "needs 2 × cpu=8, room for 1 now" in table.stdout


def test_unknown_group_is_an_error(data: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["fairlead", "explain", "nope", "--data-dir", str(data)])
        with pytest.raises(SystemExit):
            main.main()
    error = capsys.readouterr().err
    assert "no group 'nope' is known (asked the database)" in error


async def test_a_server_that_runs_is_asked_and_left_running(data: Path):
    async with running(PostgresStore(data=data, now=lambda: NOW)):
        before = running_postmaster(data)
        result = await asyncio.to_thread(run, "queue", "--data-dir", str(data), "-o", "json")
        assert msgspec.json.decode(result.stdout, type=QueuePage).total == 4
        assert running_postmaster(data) == before is not None


def test_database_url_that_leads_nowhere(capsys: pytest.CaptureFixture[str]):
    url = "postgresql://127.0.0.1:1/x"
    words = ["fairlead", "queue", "--server", "127.0.0.1:1", "--database-url", url]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as end:
            main.main()
    assert end.value.code == 1
    error = capsys.readouterr().err
    assert "the database does not answer" in error and error.count("\n") == 1
