"""The command line: tables at 100 columns (golden files), JSON, who is asked, errors, help, completion.

FAIRLEAD_UPDATE_GOLDEN=1 writes the golden files anew; look at the difference before you commit it.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asking_support import busy, past, promising, state_of
from typer.testing import CliRunner, Result

import fairlead
from fairlead.api.server import Server
from fairlead.api.source import EngineSource
from fairlead.cli import ask, commands, complete, errors, main, prose, tables
from fairlead.core import story, views
from fairlead.core.state import State
from fairlead.model.group import GroupRecord
from fairlead.model.view import ExplanationPage, NodePage, NodeRow, QueuePage, ResourceUse
from fairlead.runtime import address

GOLDEN = Path(__file__).parent.parent / "data" / "golden"
STATE = state_of(busy())
SWEEP = "team-a/a-sweep-with-a-name-that-somebody-generated-x7k2p"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No colours, 100 columns, UTC, and nobody to ask but whom the test starts."""
    for name in ("FAIRLEAD_SERVER", "FAIRLEAD_TRACEBACK", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("fairlead.store.folder.default_data_dir", lambda: tmp_path / "nobody")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Past:
    async def ended(self, limit: int) -> list[GroupRecord]:
        return [past()][:limit]

    async def find(self, name: str) -> list[GroupRecord]:
        return [past()] if name == "yesterday" else []


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving(STATE) as url:
        yield url


@pytest.fixture(scope="module")
def promising_server() -> Iterator[str]:
    with serving(state_of(promising())) as url:
        yield url


@contextlib.contextmanager
def serving(state: State) -> Iterator[str]:
    """A real server in a thread of its own, as the scheduler's is in a process of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    source = EngineSource(state, history=Past(), clock=lambda: state.now)
    served = Server(source)
    asyncio.run_coroutine_threadsafe(served.start(), loop).result(30)
    yield served.url
    asyncio.run_coroutine_threadsafe(served.stop(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


def run(*words: str) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fairlead"])
        return CliRunner().invoke(main.app, list(words))


def failing(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run through the real entry point; the one line on stderr of a command that fails."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fairlead", *words])
        with pytest.raises(SystemExit) as end:
            main.main()
    assert end.value.code == 1
    return capsys.readouterr().err.rstrip("\n")


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("FAIRLEAD_UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# -- tables ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("queue.txt", ["queue"]),
        ("queue-all.txt", ["queue", "--all"]),
        ("queue-namespace.txt", ["queue", "-n", "team-b"]),
        ("queue-wide.txt", ["queue", "-o", "wide", "--all"]),
        ("nodes.txt", ["nodes"]),
        ("nodes-wide.txt", ["nodes", "-o", "wide"]),
        ("explain-head.txt", ["explain", "big"]),
        ("explain-behind.txt", ["explain", SWEEP]),
        ("explain-job.txt", ["explain", "report"]),
        ("explain-running.txt", ["explain", "training"]),
        ("explain-rejected.txt", ["explain", "team-a/huge"]),
        ("explain-assembling.txt", ["explain", "-n", "team-a", "assembling"]),
        ("explain-ended.txt", ["explain", "yesterday"]),
        ("explain-wide.txt", ["explain", "training", "-o", "wide"]),
    ],
)
def test_golden(server: str, name: str, words: list[str]):
    result = run(*words, "--server", server)
    assert result.exit_code == 0, result.output
    assert "wide" in name or all(len(line) <= 100 for line in result.stdout.splitlines())
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())
    golden(name, result.stdout)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("queue-promised.txt", ["queue"]),
        ("explain-promised.txt", ["explain", "wide"]),
        ("explain-forecast.txt", ["explain", "next"]),
    ],
)
def test_F1_F17_estimates_in_words(promising_server: str, name: str, words: list[str]):
    result = run(*words, "--server", promising_server)
    assert result.exit_code == 0, result.output
    assert all(len(line) <= 100 for line in result.stdout.splitlines())
    golden(name, result.stdout)


def test_F1_estimates_in_json(promising_server: str):
    queue = json.loads(run("queue", "-o", "json", "--server", promising_server).stdout)
    wide = next(row for row in queue["groups"] if row["name"] == "wide")
    (told,) = json.loads(run("explain", "wide", "-o", "json", "--server", promising_server).stdout)["groups"]
    assert wide["estimate"] == told["promise"]["start"] == told["group"]["estimate"] > queue["as_of"]
    assert wide["promised"] and not wide["promised_last"]
    assert set(told["promise"]["nodes"]) <= {"n0", "n1"}  # advisory: a promise need not name any
    assert [blocker["name"] for blocker in told["promise"]["after"]] == ["long", "next"]


def test_a_large_cluster_fits_100_columns():
    """Long names everywhere, real capacities, many nodes and groups."""
    name = "ip-10-20-30-{}.eu-central-1.compute.internal.example"
    uses = (
        ResourceUse("cpu", 127_610, 127_500, 110),
        ResourceUse("memory", 1_056_280_428_544, 980_000_000_001, 76_280_428_543),
        ResourceUse("ephemeral-storage", 10**12, 0, 10**12),
        ResourceUse("hugepages-2Mi", 1 << 30, 0, 1 << 30),
        ResourceUse("nvidia.com/gpu", 8, 8, 0),
        ResourceUse("rdma/infiniband", 1000, 17, 983),
        ResourceUse("pods", 250, 31, 219),
    )
    groups = tuple(f"research-and-development/a-group-of-some-name-{i}" for i in range(9))
    rows = tuple(NodeRow(name.format(i), i != 1, i == 2, True, uses, 31, groups, "", False) for i in range(3))
    out = tables.console()
    with out.capture() as text:
        out.print(tables.nodes(NodePage(0, "scheduler", (), rows), width=100))
    shown = "\n".join(line.rstrip() for line in text.get().splitlines())
    assert all(len(line) <= 100 for line in shown.splitlines())
    golden("nodes-large.txt", shown + "\n")


def test_running_on_many_nodes_is_a_range():
    row = msgspec.structs.replace(
        views.row(past(), 0), state=tables.State.RUNNING, nodes=tuple(f"n{i}" for i in range(500))
    )
    assert tables.where_or_why(row) == "n0-n499"


def test_broken_groups_stand_out():
    row = msgspec.structs.replace(views.row(past(), 0), broken="only 1 of 2 members could be bound")
    assert tables.where_or_why(row) == "BROKEN: only 1 of 2 members could be bound"


def test_F1_a_promised_start_is_a_column():
    row = msgspec.structs.replace(views.row(past(), 0), estimate=192_000, text="behind ns/big", nodes=())
    row = msgspec.structs.replace(row, state=tables.State.WAITING)
    out = tables.console()
    with out.capture() as text:
        out.print(tables.queue(QueuePage(0, "scheduler", 1, {}, (), (row,))))
    header, line = text.get().splitlines()
    assert header.index("STARTS") == line.index("in 3m12s, ")
    assert line.rstrip().endswith("behind ns/big")


def test_hostile_texts_stay_texts():
    """Markup and escape sequences of other people's labels are shown, not obeyed."""
    row = msgspec.structs.replace(views.row(past(), 0), text="[red]\x1b[2J[link=http://x]", nodes=())
    page = QueuePage(0, "scheduler", 1, {}, (), (row,))
    out = tables.console(wide=True)
    with out.capture() as text:
        out.print(tables.queue(page, wide=True))
    assert "[red]\ufffd[2J[link=http://x]" in text.get()


def test_colours_only_where_wanted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR")
    assert not tables.console().is_terminal  # the output of a test is no terminal
    assert tables.console().color_system is None


def test_rows_left_out_are_counted(server: str):
    result = run("queue", "--limit", "2", "--server", server)
    counts = "8 groups: 1 assembling, 2 held, 3 waiting, 1 running, 1 rejected"
    assert result.stderr == f"{counts}; 6 more not shown (--limit 0 shows all)\n"


def test_explain_tells_of_all_that_live_and_names_the_dead():
    live = [story.explain(STATE, g, STATE.now) for g in story.find(STATE, "big")]
    dead = [story.explain_record(past(), STATE.now)]
    told, others = prose.chosen(ExplanationPage(0, "scheduler", (), (*live, *dead)))
    assert (told, others) == (live, dead)
    told, others = prose.chosen(ExplanationPage(0, "scheduler", (), (*dead, *dead)))
    assert told == dead


# -- JSON --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "kind"),
    [(["queue", "--all"], QueuePage), (["nodes"], NodePage), (["explain", "big"], ExplanationPage)],
)
def test_json_is_what_the_server_says(server: str, words: list[str], kind: Any):
    result = run(*words, "-o", "json", "--server", server)
    assert result.exit_code == 0
    page = msgspec.json.decode(result.stdout, type=kind)
    assert page.source == "scheduler"
    assert result.stderr == ""


def test_json_of_an_empty_queue_is_still_json(server: str):
    assert json.loads(run("queue", "-n", "none", "-o", "json", "--server", server).stdout)["groups"] == []
    result = run("queue", "-n", "none", "--server", server)
    assert (result.stdout, result.stderr) == ("", "no groups\n")


# -- watching ----------------------------------------------------------------------------------------


def test_watch_prints_again_and_again_until_interrupted(
    server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    looks = iter([None, KeyboardInterrupt])

    def sleep(_: float) -> None:
        if error := next(looks):
            raise error

    monkeypatch.setattr(commands.time, "sleep", sleep)
    commands.queue(
        ask.Where(server), output="json", ended=False, namespace="", limit=1, watch=True, interval=1
    )
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["total"] for line in lines] == [8, 8]


def test_watch_shows_an_error_and_goes_on():
    def away() -> QueuePage:
        raise errors.CliError("nobody answers")

    frame = commands._frame(away, "table", False, 100, 40)  # pyright: ignore[reportPrivateUsage]
    assert "nobody answers" in frame.plain


# -- who is asked ------------------------------------------------------------------------------------


def test_address_file_leads_to_the_server(server: str, tmp_path: Path):
    path = address.write(tmp_path, server)
    assert path.stat().st_mode & 0o777 == 0o600
    assert address.read(tmp_path) == address.Address(server, os.getpid())
    result = run("queue", "--data-dir", str(tmp_path), "-o", "json")
    assert json.loads(result.stdout)["total"] == 8
    address.remove(tmp_path)
    assert not path.exists()


def test_address_file_of_another_process_is_left_alone(tmp_path: Path):
    (tmp_path / address.FILE).write_bytes(msgspec.json.encode(address.Address("http://127.0.0.1:1", 1)))
    address.remove(tmp_path)
    assert address.read(tmp_path) is not None
    (tmp_path / address.FILE).write_text("{half")
    assert address.read(tmp_path) is None


def test_environment_names_the_server(server: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FAIRLEAD_SERVER", server.removeprefix("http://"))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # not for us
    assert run("nodes").exit_code == 0


def test_nobody_answers(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    line = failing(capsys, "queue", "--data-dir", str(tmp_path))
    assert line.startswith("fairlead: nobody answers: no scheduler has left its address in ")
    assert "there is no database in" in line and "this --data-dir. Start `fairlead scheduler`" in line
    assert line.endswith("--server, --data-dir or --database-url") and "\n" not in line


def test_named_server_is_not_replaced_by_some_database(capsys: pytest.CaptureFixture[str]):
    line = failing(capsys, "queue", "--server", "127.0.0.1:1")
    assert "no scheduler answers at http://127.0.0.1:1 (Connection refused)" in line
    assert "not the database, because a server was named" in line


def test_nodes_need_a_scheduler(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert "the database does not know nodes" in failing(capsys, "nodes", "--data-dir", str(tmp_path))


def test_unknown_group(server: str, capsys: pytest.CaptureFixture[str]):
    line = failing(capsys, "explain", "nope", "--server", server)
    assert line == f"fairlead: no group 'nope' is known (says {server})"


@pytest.mark.parametrize("bad", ["ftp://x", "http://[bad"])
def test_address_that_is_none(capsys: pytest.CaptureFixture[str], bad: str):
    assert bad in failing(capsys, "queue", "--server", bad)


def test_a_stranger_at_the_address(capsys: pytest.CaptureFixture[str]):
    import http.server

    class Stranger(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Stranger) as stranger:
        threading.Thread(target=stranger.handle_request, daemon=True).start()
        line = failing(capsys, "queue", "--server", f"127.0.0.1:{stranger.server_port}")
    assert "does not answer like a scheduler of this version" in line


# -- errors ------------------------------------------------------------------------------------------


def raising(error: Exception) -> Callable[..., None]:
    def command(*_: object, **__: object) -> None:
        raise error

    return command


def known_errors() -> list[Exception]:
    from fairlead.api.server import ServerError
    from fairlead.kube.errors import ConfigError, KubeError
    from fairlead.localcluster.errors import ClusterError
    from fairlead.runtime.errors import ConfigError as SettingError
    from fairlead.store.errors import StoreError

    kinds = (ServerError, KubeError, ConfigError, ClusterError, StoreError, SettingError, errors.CliError)
    return [kind("what is wrong, and what to do") for kind in kinds]


@pytest.mark.parametrize("error", known_errors(), ids=lambda e: f"{type(e).__module__}.{type(e).__name__}")
def test_a_users_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
):
    monkeypatch.setattr(commands, "nodes", raising(error))
    assert failing(capsys, "nodes") == "fairlead: what is wrong, and what to do"


def test_traceback_on_demand_and_for_bugs(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ZeroDivisionError), errors.told():
        raise ZeroDivisionError
    monkeypatch.setenv("FAIRLEAD_TRACEBACK", "1")
    with pytest.raises(errors.CliError), errors.told():
        raise errors.CliError("x")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--policy", "easiest"], "--policy 'easiest' is not known: choose fcfs"),
        (["--match", "best"], "--match 'best' is not known: choose first or pack or spread"),
        (["--pod-events", "maybe"], "--pod-events 'maybe' is not known: choose on or off"),
        (["--log-format", "xml"], "--log-format 'xml' is not known: choose text or json"),
    ],
)
def test_scheduler_names_the_choices(capsys: pytest.CaptureFixture[str], words: list[str], text: str):
    assert text in failing(capsys, "scheduler", *words)


def test_scheduler_passes_its_options_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    given: list[dict[str, Any]] = []
    stub = types.SimpleNamespace(Options=dict, run=given.append)
    monkeypatch.setitem(sys.modules, "fairlead.app", stub)  # type: ignore[arg-type]
    words = ["--kubeconfig", str(tmp_path), "--match", "pack", "--pod-events", "off", "--port", "8080"]
    assert run("scheduler", *words).exit_code == 0
    (options,) = given
    assert options["kubeconfig"] == tmp_path
    assert (options["match"], options["pod_events"], options["port"]) == ("pack", False, 8080)
    assert (options["host"], options["scheduler"], options["policy"]) == ("127.0.0.1", "", "")
    words = ["--config", "f.yaml", "--policy", "hybrid", "--reservation-depth", "-1", "--queue-depth", "9"]
    assert run("scheduler", *words).exit_code == 0
    found = [given[1][name] for name in ("config", "policy", "reservation_depth", "queue_depth")]
    assert found == [Path("f.yaml"), "hybrid", -1, 9]


def test_scheduler_options_are_those_of_the_composition_root():
    from fairlead.app import Options
    from fairlead.cli import scheduler

    stub = types.SimpleNamespace(Options=Options, run=lambda options: options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "fairlead.app", stub)  # type: ignore[arg-type]
        scheduler.scheduler()


def test_replay_needs_a_file(capsys: pytest.CaptureFixture[str]):
    assert failing(capsys, "replay", "nowhere.jsonl") == "fairlead: nowhere.jsonl is not a file"


# -- help, version, kubectl, completion --------------------------------------------------------------

COMMANDS = (
    "queue", "queues", "explain", "nodes", "graph", "scheduler", "replay", "filter", "jobspec", "version",
    "audit",
)  # fmt: skip
SUB_COMMANDS = (
    "cluster up", "cluster down", "cluster status", "db url", "db shell", "state dump", "state show",
)  # fmt: skip


@pytest.mark.parametrize("words", [*COMMANDS, *SUB_COMMANDS])
def test_every_command_has_an_example(words: str):
    result = run(*words.split(), "--help")
    assert result.exit_code == 0
    assert "Example: " in result.stdout or "Examples: " in result.stdout


def test_version():
    assert run("version").stdout == f"fairlead {fairlead.__version__}\n"


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


IMPORTS = """
import sys
from fairlead.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
heavy = ("numpy", "aiohttp", "psycopg", "cryptography", "starlette", "uvicorn", "lightkube")
print("heavy:", [name for name in heavy if name in sys.modules])
"""


@pytest.mark.parametrize("word", ["--help", "version"])
def test_help_imports_nothing_heavy(word: str):
    result = python(IMPORTS, word)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "heavy: []"


def test_asking_a_server_needs_no_database_driver(server: str):
    result = python(IMPORTS.replace('"cryptography", ', ""), "queue", "--server", server)
    assert result.stdout.splitlines()[-1] == "heavy: []"


def test_kubectl_finds_the_plugin_under_its_name(server: str, tmp_path: Path):
    """kubectl runs the program `kubectl-fairlead` on PATH with the words after `fairlead`."""
    plugin = tmp_path / "kubectl-fairlead"
    plugin.write_text(f"#!{sys.executable}\nfrom fairlead.cli.main import main\nmain()\n")
    plugin.chmod(0o755)
    found = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "FAIRLEAD_SERVER": server}
    command = ["kubectl-fairlead", "queue", "-o", "json"]
    result = subprocess.run(command, capture_output=True, text=True, env=found, timeout=120)
    assert json.loads(result.stdout)["total"] == 8
    result = subprocess.run(
        ["kubectl-fairlead", "--help"], capture_output=True, text=True, env=found, timeout=120
    )
    assert "Usage: kubectl fairlead" in result.stdout


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["que"], ["queue", "queues", ":4"]),
        (["queue", "--names"], ["--namespace", ":4"]),
        (["queue", "-o", ""], ["table", "wide", "json", ":4"]),
        (["db", ""], ["url", "shell", ":4"]),
        (["queue", "--data-dir", ""], [":0"]),
    ],
)
def test_completion_for_kubectl(words: list[str], lines: list[str]):
    result = python("from fairlead.cli.complete import main; main()", *words)
    assert result.stdout.split() == lines, result.stderr


def test_completion_module_is_the_script_that_kubectl_looks_for():
    assert complete.main.__module__ == "fairlead.cli.complete"
    scripts = (Path(__file__).parent.parent.parent / "pyproject.toml").read_text()
    assert 'kubectl_complete-fairlead = "fairlead.cli.complete:main"' in scripts
