"""`fairlead history` and `fairlead recorder tail` over a real database: tables, files, figures, refusals."""

import asyncio
import csv
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars
import psycopg
import pytest
from history_support import MINUTE, PAST, T0, fill, node, pod, through, write
from store_support import DEADLINE, fresh_database
from typer.testing import CliRunner, Result

from fairlead.cli import history_sheet, history_sql, main, recorder_tailing, tables
from fairlead.cli.errors import CliError
from fairlead.model.record import Change, Source
from fairlead.store import history
from fairlead.store.reader import open_reader

HOUR = ("--since", "2026-09-21T14:13:20Z", "--until", "2026-09-21T15:13:20Z")
"""From T0 on."""


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100", "TZ": "UTC"}.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    yield


@pytest.fixture(scope="module")
def url(tcp_url: str) -> Iterator[str]:
    with fresh_database(tcp_url) as found:
        asyncio.run(fill(found, *PAST))
        yield found


def run(url: str, *words: str) -> Result:
    return CliRunner().invoke(main.app, [*words, "--database-url", url])


def told(url: str, *words: str) -> list[str]:
    result = run(url, *words)
    assert result.exit_code == 0, result.output
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert max(map(len, lines), default=0) <= 100
    return lines


def rows(url: str, *words: str) -> list[dict[str, Any]]:
    return json.loads("\n".join(told_json(url, *words)))


def told_json(url: str, *words: str) -> list[str]:
    result = run(url, *words, "-o", "json")
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def refused(url: str, *words: str) -> str:
    result = run(url, *words)
    assert isinstance(result.exception, CliError), result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


# -- pods --------------------------------------------------------------------------------------------


def test_RB2_RB10_pods_on_nodes_with_those_that_go_on_and_those_that_wait(url: str):
    lines = told(url, "history", "pods", *HOUR)
    found = {line.split()[0]: re.split(r"\s{2,}", line)[1:] for line in lines[1:]}
    assert found["team-a/a"] == ["n0", "Sep 21 14:14:21", "Sep 21 14:24:22", "10m", "succeeded"]
    assert found["team-b/c"][-1] == "failed (3)"
    assert (found["team-a/b"][2], found["team-a/b"][4]) == ("open", "runs")
    assert found["team-a/waits"][:3] == ["-", "-", "open"] and found["team-a/waits"][4] == "waits"
    assert found["team-a/gone"][4] == "deleted" and found["team-a/lost"][4] == "lost"
    told_beside = run(url, "history", "pods", *HOUR, "--limit", "2").stderr
    assert "7 pods: 2 succeeded, " in told_beside and "shown are the newest 2" in told_beside
    assert "the record has a gap from 2026-09-21 14:25:20 to 2026-09-21 14:27:20" in told_beside


def test_RB10_filters_of_the_command_line(url: str):
    def names(*words: str) -> list[str]:
        return sorted(row["name"] for row in rows(url, "history", "pods", *words))

    assert names("--open") == ["b", "waits"]
    assert names("--label", "app=web") == names("-n", "team-b") == ["c"]
    assert names("--owner", "Job/train", "--node", "n0", "--group", "train") == ["a", "told"]
    assert names("--scheduler", "default-scheduler") == ["c"]
    assert names("--at", "2026-09-21T14:18:20Z") == ["a", "b", "c", "lost", "told", "waits"]


def test_pods_in_files_for_programs(url: str, tmp_path: Path):
    json_rows = rows(url, "history", "pods", *HOUR)
    lines = list(csv.DictReader(told_csv(url, "history", "pods", *HOUR)))
    file = tmp_path / "pods.parquet"
    assert told(url, "history", "pods", *HOUR, "-o", "parquet", "--out", str(file)) == []
    frame = polars.read_parquet(file)
    assert [row["uid"] for row in json_rows] == [line["uid"] for line in lines] == frame["uid"].to_list()
    first = json_rows[0]
    assert (first["since"], first["until"]) == (T0 + 61_000, T0 + 62_000 + 10 * MINUTE)
    assert (lines[0]["since"], lines[0]["exit_code"]) == ("2026-09-21T14:14:21.000Z", "0")
    assert frame["since"][0].timestamp() * 1000 == first["since"]
    waits = next(row for row in json_rows if row["name"] == "waits")
    assert (waits["node"], waits["since"], waits["until"]) == (None, None, None)
    assert frame.filter(polars.col("name") == "waits")["since"].to_list() == [None]
    assert [path.name for path in tmp_path.iterdir()] == ["pods.parquet"]


def told_csv(url: str, *words: str) -> list[str]:
    result = run(url, *words, "-o", "csv")
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_without_polars_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(history_sheet.importlib, "import_module", missing)
    with pytest.raises(CliError, match=r"^Parquet needs polars: pip install 'fairlead\[analysis\]'$"):
        history_sheet.polars()


# -- occupancy, latency, usage -----------------------------------------------------------------------


def test_RB3_occupancy_at_a_moment_and_over_time(url: str):
    lines = told(url, "history", "occupancy", "--at", "2026-09-21T14:18:20Z")
    assert [line.split() for line in lines] == [
        ["NODE", "PODS", "CPU", "MEMORY", "GPU", "STATE"],
        ["n0", "2/110", "4/8", "8Gi/32Gi", "2/2", "ready"],
        ["n1", "2/110", "4/8", "8Gi/32Gi", "2/2", "ready"],
    ]
    late = told(url, "history", "occupancy", "--at", "2026-09-21T14:53:20Z")
    assert late[2].split() == ["n1", "1/110", "2/8", "4Gi/32Gi", "1/2", "not", "usable"]
    found = rows(url, "history", "occupancy", *HOUR, "--what", "cpu", "--every", "30m")
    cells = {(row["node"], row["since"]): row for row in found}
    edge = T0 - T0 % (30 * MINUTE) + 30 * MINUTE
    assert [since for _, since in cells][:3] == [T0, edge, edge + 30 * MINUTE]
    until = edge - T0
    held = (until - 61_000) + 7 * MINUTE
    assert cells["n1", T0]["mean"] == pytest.approx(2000 * held / until)
    assert (cells["n1", T0]["peak"], cells["n1", T0]["capacity"]) == (4000, 8000)
    table = told(url, "history", "occupancy", *HOUR, "--what", "cpu")
    assert [line.split()[0] for line in table] == ["NODE", "all", "n0", "n1"]
    assert table[3].split()[1][-1] == "▂" and "█" not in table[3]


def test_RB5_latency_by_kind_of_pods(url: str):
    lines = [line.split() for line in told(url, "history", "latency", *HOUR, "--by", "namespace")]
    assert lines[0][:3] == ["NAMESPACE", "STAGE", "PODS"]
    queue = next(line for line in lines if line[:2] == ["team-a", "queue"])
    assert queue == ["team-a", "queue", "3", "1m00s", "3m00s", "3m00s", "3m00s", "1", "58m", "2"]
    found = rows(url, "history", "latency", *HOUR)
    assert {row["stage"]: row["pods"] for row in found} == {
        "queue": 4, "bind": 3, "start": 3, "ready": 3, "run": 2, "total": 3,
    }  # fmt: skip
    run_ = next(row for row in found if row["stage"] == "run")
    assert (run_["open"], run_["max_ms"]) == (1, 20 * MINUTE)


def test_RB3_usage_with_what_was_down_and_what_was_of_no_use(url: str):
    found = {row["resource"]: row for row in rows(url, "history", "usage", *HOUR)}
    assert found["cpu"]["capacity"] == 16_000
    assert found["cpu"]["down"] == pytest.approx(0.25)
    seconds = (601 + 3539 + 1201 + 420 + 120) * 2000 / 3600
    assert found["cpu"]["used"] == pytest.approx(seconds)
    result = run(url, "history", "usage", *HOUR)
    assert "the most common request: cpu=2 memory=4Gi gpu=1 (7 of 7 pods)" in result.stderr
    mine = {row["resource"]: row for row in rows(url, "history", "usage", *HOUR, "-n", "team-b")}
    assert mine["cpu"]["used"] == pytest.approx(1201 * 2000 / 3600)
    assert mine["cpu"]["fragmentation"] == found["cpu"]["fragmentation"]


def test_RB3_what_nobody_recorded_is_not_taken_for_idle(tcp_url: str):
    """The recorder ended ten minutes after the begin, long ago; an import came later and watched nothing."""
    with fresh_database(tcp_url) as url:
        asyncio.run(fill(url, node("n0"), through("a", "n0", 0, 0)))

        def mark(kind: str, at: int) -> None:
            with psycopg.connect(url) as conn:
                conn.execute("INSERT INTO fairlead.watch_mark VALUES (%s, 7, %s)", (kind, at))

        mark("import:x", T0 + 99 * MINUTE)
        assert "recorded up to" not in run(url, "history", "usage").stderr
        mark("Pod", T0 + 10 * MINUTE)
        result = run(url, "history", "usage", "-o", "json")
        assert "recorded up to 2026-09-21 14:23:20 only" in result.stderr
        (used,) = [row for row in json.loads(result.stdout) if row["resource"] == "cpu"]
        assert (used["since"], used["until"]) == (T0, T0 + 10 * MINUTE)
        assert used["used"] == pytest.approx(2000 * (600 - 61) / 600)
        (asked,) = [row for row in rows(url, "history", "usage", *HOUR) if row["resource"] == "cpu"]
        assert asked["until"] == T0 + 60 * MINUTE


@pytest.mark.parametrize("ending", ["html", "svg"])
@pytest.mark.parametrize(
    "words, texts",
    [
        (("pods",), ("Pods on nodes", "team-b/c", "a gap in the record")),
        (("occupancy", "--what", "gpu"), ("Occupancy: gpu", "n1", "on average")),
        (("latency", "--by", "label:app"), ("Latency: queue", "web", "are in it still")),
        (("usage",), ("Utilisation", "Fragmentation", "memory")),
    ],
)
def test_figures_are_whole_files_that_load_nothing(
    url: str, tmp_path: Path, words: tuple[str, ...], texts: tuple[str, ...], ending: str
):
    file = tmp_path / f"figure.{ending}"
    told(url, "history", *words, *HOUR, "--plot", str(file))
    text = file.read_text(encoding="utf-8")
    assert all(part in text for part in texts)
    assert not re.search(r"""(src|href)=["'](?!data:)""", text) and "<script" not in text
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)


def test_a_figure_of_very_many_cells_is_one_picture(url: str, tmp_path: Path):
    file = tmp_path / "many.svg"
    told(url, "history", "occupancy", *HOUR, "--every", "500ms", "--limit", "1", "--plot", str(file))
    text = file.read_text(encoding="utf-8")
    assert text.count("<image") == 1 and text.count("<rect") < 50


def test_a_figure_is_drawn_beside_a_file_too(url: str, tmp_path: Path):
    plot = tmp_path / "pods.svg"
    told(url, "history", "pods", *HOUR, "-o", "csv", "--out", str(tmp_path / "pods.csv"), "--plot", str(plot))
    assert "team-b/c" in plot.read_text(encoding="utf-8")


def test_what_ended_on_the_border_of_two_times_counts_in_one_of_them(url: str):
    def run_(*words: str) -> int:
        found = rows(url, "history", "latency", *words, "-n", "team-a")
        return sum(row["pods"] for row in found if row["stage"] == "run")

    at = "2026-09-21T14:24:22Z"  # when a finished
    assert (run_("--since", HOUR[1], "--until", at), run_("--since", at, "--until", HOUR[3])) == (0, 1)


# -- SQL, export, tail -------------------------------------------------------------------------------


def test_views_are_listed_as_the_database_has_them(url: str):
    async def views() -> dict[str, Any]:
        async with open_reader(url=url) as conn:
            return {view.name: view for view in await history.views(conn)}

    found = asyncio.run(views())
    known = history_sql.documented()
    assert {name: columns[""] for name, columns in known.items()} == {n: v.comment for n, v in found.items()}
    for name, view in found.items():
        commented = {column: told for column, _, told in view.columns if told}
        assert {column: text for column, text in known[name].items() if column} == commented
    assert "pod_node_intervals" in "\n".join(told(url, "history", "sql"))
    assert any(
        line.startswith("since_is") for line in told(url, "history", "sql", "--view", "pod_node_intervals")
    )


def test_a_query_reads_and_does_nothing_else(url: str):
    query = "SELECT name, gpu, lost FROM pods WHERE ended = 'lost'"
    assert rows(url, "history", "sql", query) == [{"name": "lost", "gpu": 1, "lost": True}]
    assert told(url, "history", "sql", query)[1].split() == ["lost", "1", "True"]
    assert "read-only" in refused(url, "history", "sql", "DELETE FROM pod_life")
    assert "multiple commands" in refused(url, "history", "sql", "COMMIT; DELETE FROM pod_life")
    assert "nope" in refused(url, "history", "sql", "SELECT nope FROM pods")
    for form in ("json", "parquet"):
        assert "two columns have one name" in refused(url, "history", "sql", "SELECT 1 a, 2 a", "-o", form)
    assert rows(url, "history", "sql", "SELECT cpu, cpu / 3 AS third FROM pods LIMIT 1") == [
        {"cpu": 2, "third": pytest.approx(2 / 3)}
    ]
    assert len(rows(url, "history", "pods")) == 7


def test_export_of_pods_nodes_and_changes(url: str):
    def lines(*words: str) -> list[dict[str, Any]]:
        result = run(url, "history", "export", "--format", "jsonl", *words)
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    assert len(lines()) == 7
    assert [(row["node"], row["ready"]) for row in lines("--of", "nodes")] == [
        ("n0", True), ("n1", True), ("n1", False),
    ]  # fmt: skip
    changes = lines("--of", "changes")
    assert changes[1]["extra"] == {"plan": "1-1", "nodes": ["n0", "n1"]}
    assert changes == sorted(changes, key=lambda row: row["seq"]) and len(changes) == 10


def test_mistakes_are_one_line_each(url: str, tmp_path: Path):
    (tmp_path / "folder").mkdir()
    assert "Is a directory" in refused(url, "history", "pods", "-o", "csv", "--out", str(tmp_path / "folder"))
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
    assert "--format xml: give one of" in refused(url, "history", "export", "--format", "xml")
    assert "--since soon: give a time" in refused(url, "history", "pods", "--since", "soon")
    assert "is not before" in refused(url, "history", "pods", "--since", "1h", "--until", "2h")
    assert "still to come" in refused(url, "history", "usage", "--since", "2999-01-01")
    assert "--label app: give KEY=VALUE" in refused(url, "history", "pods", "--label", "app")
    assert "--by uid" not in refused(url, "history", "latency", "--by", "x:y")
    assert "name it *.svg or *.html" in refused(url, "history", "pods", "--plot", "out.png")
    assert "--out FILE goes with" in refused(url, "history", "pods", "--out", "x")
    assert "--every often: give a length" in refused(url, "history", "usage", "--every", "often")
    assert "goes without" in refused(url, "history", "occupancy", "--at", "1h", "--since", "2h")


def test_tail_shows_the_last_rows_or_all_since_a_time(url: str):
    assert [line.split()[3:5] for line in told(url, "recorder", "tail", "--lines", "2")[1:]] == [
        ["Recorder", "Gap"], ["Node", "Condition"],
    ]  # fmt: skip
    assert "on n0" in told(url, "recorder", "tail", "--name", "told")[1]
    result = run(url, "recorder", "tail", *HOUR, "--object", "pod", "-o", "jsonl")
    assert [json.loads(line)["event"] for line in result.stdout.splitlines()] == [
        "Created", "FailedScheduling", "ScheduleSuccess", "Finished",
    ]  # fmt: skip


def test_tail_has_no_head_where_nothing_can_be_asked(tmp_path: Path):
    result = CliRunner().invoke(main.app, ["recorder", "tail", "--data-dir", str(tmp_path)])
    assert "there is no database in" in str(result.exception) and result.stdout == ""


def test_tail_follows_until_nobody_reads(tcp_url: str, monkeypatch: pytest.MonkeyPatch):
    """Rows that come while it runs are shown once each, and in order."""
    with fresh_database(tcp_url) as url:
        asyncio.run(fill(url, *PAST))
        monkeypatch.setattr(recorder_tailing, "_PAUSE", 0.01)
        seen: list[str] = []
        done = threading.Event()
        monkeypatch.setattr(recorder_tailing, "_nobody_reads", done.is_set)
        monkeypatch.setattr(recorder_tailing.Lines, "row", lambda _, cells: seen.append(str(cells[5])))
        thread = threading.Thread(target=run, args=(url, "recorder", "tail", "-f", "--lines", "1"))
        thread.start()
        try:
            wait(lambda: seen == ["Condition"], seen)
            for n in range(3):
                write(url, [Change("Pod", f"E{n}", T0, T0, Source.WATCH)])
                wait(lambda n=n: seen[-1] == f"E{n}", seen)
        finally:
            done.set()
            thread.join(DEADLINE)
        assert seen == ["Condition", "E0", "E1", "E2"] and not thread.is_alive()


def wait(wanted: Any, what: object) -> None:
    deadline = time.monotonic() + DEADLINE
    while not wanted():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def test_rows_that_were_committed_late_are_told_once():
    seen = recorder_tailing.Seen(10)
    assert seen.new(12) and not seen.new(12)
    seen.forget(700, 703)
    assert seen.floor == 10
    seen.forget(702, 705)
    assert seen.floor == 10 and seen.new(11)
    seen.forget(703, 705)
    assert seen.floor == 12 and seen.new(13)
    seen.forget(705, 705)
    seen.forget(705, 705)
    assert seen.floor == 13


async def test_what_is_open_in_the_database_holds_the_floor(tcp_url: str):
    with fresh_database(tcp_url) as url:
        await fill(url)
        async with open_reader(url=url) as conn:
            with psycopg.connect(url) as other:
                other.execute("SELECT pg_current_xact_id()")
                async with history.at_once(conn):
                    _, then = await history.transactions(conn)
                async with history.at_once(conn):
                    assert (await history.transactions(conn))[0] < then
            oldest = 0
            async with asyncio.timeout(DEADLINE):
                while oldest < then:
                    async with history.at_once(conn):
                        oldest, _ = await history.transactions(conn)


def test_tables_fit_however_long_names_are(tcp_url: str):
    with fresh_database(tcp_url) as url:
        long = "a-very-long-name-of-a-node-that-somebody-gave-to-it.example.org"
        asyncio.run(fill(url, through(f"{'x' * 60}-0", long), pod(f"{'y' * 60}-1", 1000)))
        for words in (("pods",), ("occupancy",), ("occupancy", "--at", "now"), ("latency", "--by", "node")):
            told(url, "history", *words)
        told(url, "recorder", "tail")
    assert tables.console().width == 100
