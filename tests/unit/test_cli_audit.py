"""`fairlead audit` against a real HTTP server: verdict, exit code, differences by name, the table, JSON."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Iterator

import httpx2 as httpx
import pytest
import structlog
from msgspec import structs
from test_audit import LOST, silently, yard
from typer.testing import CliRunner, Result

from auditing import Audited, listings
from fairlead.api.server import Server
from fairlead.api.source import EngineSource
from fairlead.cli import audit_table, main
from fairlead.model.audit import Difference


class Asked:
    """A scheduler that is served, and the command line that asks it."""

    def __init__(self, found: Audited, url: str) -> None:
        self.found, self.url = found, url

    async def run(self, *arguments: str) -> Result:
        words = ["audit", "--server", self.url, *arguments]
        return await asyncio.to_thread(CliRunner().invoke, main.app, words)

    async def http(self, method: str, **query: str) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as client:
            return await client.request(method, "/api/v1/audit", params=query)


@contextlib.asynccontextmanager
async def served(found: Audited) -> AsyncIterator[Asked]:
    source = EngineSource(found.state, found.metrics)
    source.auditor = found.auditor
    server = Server(source)
    running = asyncio.create_task(found.auditor.run(found))
    await server.start()
    try:
        yield Asked(found, server.url)
    finally:
        running.cancel()
        await server.stop()


@pytest.fixture
async def asked() -> AsyncIterator[Asked]:
    async with served(yard()) as found:
        yield found


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The scheduler's log is not the command's output, though both are in this process."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with structlog.testing.capture_logs():
        yield


async def test_equal_is_one_line_and_exit_code_0(asked: Asked):
    result = await asked.run()
    assert result.exit_code == 0
    digest = (await asked.found.auditor.audit()).digest_rebuilt[:12]
    assert result.stdout.startswith(f"equal: 4 nodes, 6 pods, digest {digest} (")
    assert result.stdout.count("\n") == 1


async def test_differences_are_named_and_exit_code_is_1(asked: Asked):
    silently(asked.found.world, lambda: LOST["pod-ended"](asked.found.world))
    silently(asked.found.world, lambda: LOST["node-capacity"](asked.found.world))
    result = await asked.run("--no-repair")
    assert result.exit_code == 1
    first, *lines = result.stdout.splitlines()
    assert first.startswith("2 differences, 0 repaired: 4 nodes, 6 pods, digest ")
    assert lines == [
        "≠ Pod team-a/training-0: Fairlead has Running on n0, the cluster Succeeded on n0",
        "≠ Node n3: Fairlead has cpu=8, memory=32Gi, pods=110, the cluster cpu=4, pods=1",
    ]
    result = await asked.run()
    assert result.exit_code == 1
    assert result.stdout.startswith("2 differences, 2 repaired")
    assert "✓ repaired  Pod team-a/training-0" in result.stdout
    assert (await asked.run()).exit_code == 0


async def test_table_shows_both_sides_of_what_differs_within_100_columns(asked: Asked):
    silently(asked.found.world, lambda: LOST["pod-requests"](asked.found.world))
    result = await asked.run("--table", "--no-repair")
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert [line.split() for line in lines[2:]] == [
        ["NODE", "SAYS", "CPU", "FREE", "MEMORY", "FREE", "PODS", "OURS", "OTHERS"],
        ["✓", "n0", "both", "6/8", "2", "0/32Gi", "32Gi", "1/110", "1", "0"],
        ["✓", "n1", "both", "6/8", "2", "0/32Gi", "32Gi", "1/110", "1", "0"],
        ["≠", "n2", "Fairlead", "2/8", "6", "0/32Gi", "32Gi", "1/110", "0", "1"],
        ["cluster", "3/8", "5", "0/32Gi", "32Gi", "1/110", "0", "1"],
        ["✓", "n3", "both", "0/8", "8", "0/32Gi", "32Gi", "0/110", "0", "0"],
    ]


async def test_table_of_a_node_that_only_one_side_has(asked: Asked):
    silently(asked.found.world, lambda: LOST["node-missing"](asked.found.world))
    result = await asked.run("--table", "-o", "wide", "--no-repair")
    assert [line.split() for line in result.stdout.splitlines()[-2:]] == [
        ["≠", "n9", "Fairlead", "-", "-", "-", "-", "-", "-", "-"],
        ["cluster", "0/8", "8", "0/32Gi", "32Gi", "0/110", "0", "0"],
    ]


async def test_json_has_everything(asked: Asked):
    silently(asked.found.world, lambda: LOST["pod-missing"](asked.found.world))
    result = await asked.run("-o", "json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert [(d["kind"], d["repaired"]) for d in report["differences"]] == [("pod-missing", True)]
    assert [row["name"] for row in report["rows"] if not row["equal"]] == ["n1"]


async def test_no_colours_where_there_is_no_terminal(asked: Asked):
    assert "\x1b" not in (await asked.run("--table")).stdout


def test_colours_say_how_it_went():
    found = asyncio.run(yard().audit())
    assert audit_table.verdict(found).style == "green"
    one = Difference("pod-missing", "Pod", "a/b", "u", "", "", "text")
    left, mended = (one,), (structs.replace(one, repaired=True),)
    bad = structs.replace(found, result="differences", differences=left)
    assert audit_table.verdict(bad).style == "red"
    assert audit_table.verdict(structs.replace(bad, differences=mended, repaired=1)).style == "yellow"


async def test_nobody_there_is_one_line_and_exit_code_2():
    result = await asyncio.to_thread(CliRunner().invoke, main.app, ["audit", "--server", "127.0.0.1:9"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "nobody answers: no scheduler answers at http://127.0.0.1:9" in result.stderr
    assert "Traceback" not in result.stderr


async def test_an_audit_that_cannot_be_made_is_exit_code_2(asked: Asked):
    def away():  # type: ignore[no-untyped-def]
        raise ConnectionError("no answer from the API server")

    asked.found.lists = away
    result = await asked.run()
    assert result.exit_code == 2
    assert "the audit could not be made: no answer from the API server" in result.stderr


async def test_names_of_others_cannot_steer_the_terminal(asked: Asked):
    lists = listings(asked.found.world)
    bad = structs.replace(asked.found.world.pods["svc"], uid="x", name="a\x1b[31m\nb", version=1)
    pods = structs.replace(lists[0], items=(*lists[0].items, type(lists[0].items[0])(bad)))
    asked.found.lists = lambda: [pods, *lists[1:]]
    result = await asked.run("--no-repair")
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    assert result.stdout.count("\n") == 2


async def test_help_says_what_the_exit_codes_mean():
    result = CliRunner().invoke(main.app, ["audit", "--help"])
    assert "Exit code: 0 equal, 1 differences (repaired or not), 2 no audit" in " ".join(
        result.stdout.split()
    )


# -- over HTTP ---------------------------------------------------------------------------------------


async def test_get_tells_the_last_report_and_post_makes_one(asked: Asked):
    answer = await asked.http("GET")
    assert (answer.status_code, answer.json()["error"][:25]) == (404, "no audit has been made ye")
    made = await asked.http("POST")
    assert made.status_code == 200
    assert made.json()["result"] == "clean"
    assert (await asked.http("GET")).json() == made.json()
    assert (await asked.http("GET", nodes="false")).json() == {**made.json(), "rows": []}


async def test_post_can_only_look(asked: Asked):
    silently(asked.found.world, lambda: LOST["pod-surplus"](asked.found.world))
    for _ in range(2):
        report = (await asked.http("POST", repair="false")).json()
        assert [(d["kind"], d["repaired"]) for d in report["differences"]] == [("pod-surplus", False)]
    assert (await asked.http("POST", repair="maybe")).status_code == 400


async def test_metrics_tell_of_audits(asked: Asked):
    async with httpx.AsyncClient(base_url=asked.url, timeout=60) as client:
        assert "fairlead_audit_age_seconds NaN" in (await client.get("/metrics")).text
        silently(asked.found.world, lambda: LOST["pod-surplus"](asked.found.world))
        begun = time.monotonic()
        await asked.http("POST")
        text = (await client.get("/metrics")).text
        passed = time.monotonic() - begun
    assert 'fairlead_audits_total{result="differences"} 1.0' in text
    assert 'fairlead_audit_differences_total{kind="pod-surplus"} 1.0' in text
    assert "fairlead_audit_duration_seconds_count 1.0" in text
    (age,) = re.findall(r"^fairlead_audit_age_seconds (\S+)$", text, re.MULTILINE)
    assert 0 <= float(age) <= passed


async def test_a_source_without_a_cluster_says_so():
    found = yard()
    server = Server(EngineSource(found.state))
    await server.start()
    try:
        answer = await Asked(found, server.url).http("POST")
    finally:
        await server.stop()
    assert (answer.status_code, answer.json()["error"]) == (
        503, "there is no cluster that the state could be held against",
    )  # fmt: skip
