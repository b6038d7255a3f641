"""resource-query on small graphs of our own: each operation, policy and format, without the oracle's data.

A session in tests/data/tree is the options (`$`), the commands (`>`) and below each what is answered;
lines on stderr begin with `! `.
"""

import io
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairlead.cli import main

FOLDER = Path(__file__).parent.parent / "data" / "tree"
SESSIONS = sorted(path.stem for path in FOLDER.glob("*.session"))


def session(text: str) -> str:
    """The text with what the program answers now below each command."""
    from fairlead.cli.query_run import Options, graph_of
    from fairlead.cli.query_session import Session

    first, *lines = text.splitlines()
    given = shlex.split(first.removeprefix("$ "))
    chosen = dict(zip(given[::2], given[1::2], strict=True))
    options = Options(
        Path(chosen["-L"]),
        chosen.get("-f", "grug"),
        chosen["-P"],
        chosen.get("-F", "simple"),
        "CA",
        chosen.get("-T", "simple"),
        None,
        chosen.get("-p", "ALL:core,ALL:node"),
        False,
        False,
    )
    out, errors = io.StringIO(), io.StringIO()
    running = Session(graph_of(options), out, options.match_format, False)
    told = [first]
    for line in lines:
        if not line.startswith("> "):
            continue
        told.append(line)
        with redirect_stderr(errors), redirect_stdout(out):
            assert running.line(line[2:])
        told += out.getvalue().splitlines()
        told += [f"! {each}" for each in errors.getvalue().splitlines()]
        for stream in (out, errors):
            stream.seek(0)
            stream.truncate()
    return "\n".join(told) + "\n"


@pytest.mark.parametrize("name", SESSIONS)
def test_session(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    text = (FOLDER / f"{name}.session").read_text()
    told = session(text)
    times = [line for line in told.splitlines() if line.startswith("INFO: ") and "yaml, " in line]
    for line in times:  # the last word of `list` is how long it took
        told = told.replace(line, line.rpartition(" ")[0])
    assert told == text


def test_the_command_reads_lines_and_writes_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    out = tmp_path / "answers"
    words = ["resource-query", "-L", "two-racks.graphml", "-P", "low", "-t", str(out), "-e", "-d"]
    result = CliRunner().invoke(
        main.app, words, input="match allocate pod.yaml\nquit\nmatch allocate pod.yaml\n"
    )
    assert result.exit_code == 0, result.output
    told = out.read_text().splitlines()
    assert told[0] == "      ------------core0[1:x]"
    assert "INFO: JOBID=1" in told
    assert any(line.startswith("INFO: ELAPSE=0.") for line in told)
    assert "INFO: JOBID=2" not in told, "nothing is done after quit"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["-L", "nowhere.json", "-f", "jgf"], "nowhere.json: No such file"),
        (["-L", "one-rack.json"], "one-rack.json: GRUG: not XML"),
        (["-L", "two-racks.graphml", "-f", "hwloc"], "unknown format 'hwloc'; known: grug, jgf, rv1exec"),
        (["-L", "two-racks.graphml", "-P", "best"], "unknown match policy 'best'"),
        (["-L", "two-racks.graphml", "-P", "node_centric=true"], "say policy=high or policy=low"),
        (["-L", "two-racks.graphml", "-F", "xml"], "unknown format 'xml'"),
        (["-L", "two-racks.graphml", "-S", "IBA"], "only CA"),
        (["-L", "two-racks.graphml", "-p", "core"], "pruning filter 'core'"),
        (["-L", "rank1.json", "-f", "jgf"], "JGF: the key 'graph' is missing"),
        (["-L", "one-rack.json", "-f", "rv1exec"], "R: the key 'version' must be 1"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(
    words: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FOLDER)
    monkeypatch.setattr("sys.argv", ["fairlead", "resource-query", *words])
    with pytest.raises(SystemExit) as end:
        main.main()
    assert end.value.code == 1
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
