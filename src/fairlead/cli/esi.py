"""`fairlead esi …`: Testbeds, jobs and Schedulings of external schedulers, from the command line.

A sub-app of `cli.main`, imported when it is named. All but `simulate`, `crds` and `demo` ask the REST
interface of a running `fairlead scheduler --esi`, as any other client does. Must not talk to Kubernetes.
"""

import json
import shutil
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
import typer
from rich.table import Table

from fairlead.cli import ask, tables, words
from fairlead.cli.errors import CliError

app = typer.Typer(no_args_is_help=True)
T = TypeVar("T")


class Output(StrEnum):
    """How answers are printed."""

    table = "table"
    wide = "wide"
    json = "json"


Server = Annotated[
    str,
    typer.Option("--server", help="Address of a scheduler; else $FAIRLEAD_SERVER, else the data folder's."),
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="The scheduler's data folder.")]
Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Where they are, if not in the default.")]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar="FAIRLEAD_TOKEN",
        help="Bearer token, as from kubectl create token.",
        show_default=False,
    ),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table, wide or json.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
Name = Annotated[str, typer.Argument(help="Only this one.")]


class _Asked:
    """One question to the interface."""

    def __init__(self, server: str, data_dir: Path | None, namespace: str, token: str) -> None:
        self._where, self._token = ask.Where(server, data_dir), token
        self._query: list[tuple[str, str]] = [("namespace", namespace)] if namespace else []

    def get(self, path: str) -> Any:
        return self._ask(f"/external/{path}", "GET", [])

    def do(self, verb: str, query: list[tuple[str, str]]) -> Any:
        return self._ask(f"/debug/{verb}", "POST", query)

    def _ask(self, path: str, method: str, query: list[tuple[str, str]]) -> Any:
        text = urlencode([*self._query, *query])
        return ask.esi(self._where, f"{path}?{text}" if text else path, self._token, method)


def _as(found: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise CliError(f"this is not ESI's interface as this version knows it: {error}") from None


def _show_json(found: Any) -> None:
    typer.echo(json.dumps(found, indent=2))


def _width() -> int:
    out = tables.console()
    return shutil.get_terminal_size((out.width, 24)).columns if out.is_terminal else out.width


def _listed(asked: _Asked, path: str, name: str, output: Output, shape: type[T]) -> list[T] | None:
    """The one that is named, or all; None where JSON was wanted, which is printed already."""
    found = asked.get(f"{path}/{quote(name)}" if name else path)
    if output is Output.json:
        _show_json(found)
        return None
    if name:
        return [_as(found, shape)]
    if isinstance(found, dict):
        return list(_as(found, dict[str, shape]).values())
    return _as(found, list[shape])


def _show(table: Callable[[list[T], int, bool], Table], shapes: list[T], output: Output) -> None:
    wide = output is Output.wide
    tables.show(tables.console(wide), table(shapes, _width(), wide))


@app.command(epilog="Example: fairlead esi testbeds scheduler-slots -o wide")
def testbeds(
    name: Name = "",
    output: OutputOption = Output.table,
    namespace: Namespace = "",
    server: Server = "",
    data_dir: DataDir = None,
    token: Token = "",
) -> None:
    """Testbeds with their slots counted; of one that is named, every slot and who is in it."""
    from fairlead.api.esi.shapes import TestbedShape
    from fairlead.cli import esi_tables

    asked = _Asked(server, data_dir, namespace, token)
    shapes = _listed(asked, "testbeds", name, output, TestbedShape)
    if shapes is None:
        return
    _show(esi_tables.testbeds, shapes, output)
    if name:
        typer.echo("")
        _show(lambda found, width, wide: esi_tables.slots(found[0], width, wide), shapes, output)


@app.command(epilog="Example: fairlead esi jobs -o json")
def jobs(
    name: Name = "",
    output: OutputOption = Output.table,
    namespace: Namespace = "",
    server: Server = "",
    data_dir: DataDir = None,
    token: Token = "",
) -> None:
    """Jobs: their states, how often they ran, how long the last time, and for whom."""
    from fairlead.api.esi.shapes import JobShape
    from fairlead.cli import esi_tables

    asked = _Asked(server, data_dir, namespace, token)
    if (shapes := _listed(asked, "jobs", name, output, JobShape)) is not None:
        _show(esi_tables.jobs, shapes, output)


@app.command(epilog="Example: fairlead esi schedulings")
def schedulings(
    name: Name = "",
    output: OutputOption = Output.table,
    namespace: Namespace = "",
    server: Server = "",
    data_dir: DataDir = None,
    token: Token = "",
) -> None:
    """Schedulings: their states, how far their jobs are, and what they wait for."""
    from fairlead.api.esi.shapes import SchedulingShape
    from fairlead.cli import esi_tables

    asked = _Asked(server, data_dir, namespace, token)
    if (shapes := _listed(asked, "schedulings", name, output, SchedulingShape)) is not None:
        _show(esi_tables.schedulings, shapes, output)


@app.command(epilog="Example: fairlead esi enrol scheduler-slots --count 3 --dry-run")
def enrol(
    testbed: Annotated[str, typer.Argument(help="The Testbed that gets nodes.")],
    count: Annotated[int, typer.Option("--count", help="How many nodes it is to have.", min=0, max=100_000)],
    remove: Annotated[bool, typer.Option("--remove", help="Take its label from all other nodes.")] = False,
    dry_run: DryRun = False,
    output: OutputOption = Output.table,
    namespace: Namespace = "",
    server: Server = "",
    data_dir: DataDir = None,
    token: Token = "",
) -> None:
    """Give nodes the label of a Testbed: members first, then those of which least is requested."""
    from fairlead.api.esi.operations import LABELLED, REMOVED, Enrolment
    from fairlead.cli import esi_tables

    query = [("name", testbed), ("count", str(count)), ("remove", str(remove).lower())]
    asked = _Asked(server, data_dir, namespace, token)
    found = asked.do("node-set-up", [*query, ("dryRun", str(dry_run).lower())])
    if output is Output.json:
        return _show_json(found)
    enrolment = _as(found, Enrolment)
    tables.show(tables.console(output is Output.wide), esi_tables.enrolment(enrolment, _width()))
    changed = sum(each.change in (LABELLED, REMOVED) for each in enrolment.nodes)
    done = "would be changed" if dry_run else "changed"
    typer.echo(f"{words.counted(changed, 'node')} {done}; the label is {enrolment.node_label}")
    return None


@app.command(epilog="Example: fairlead esi reset spark-pi")
def reset(
    names: Annotated[list[str] | None, typer.Argument(metavar="[JOB...]", help="Which failed jobs.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All that have failed.")] = False,
    dry_run: DryRun = False,
    namespace: Namespace = "",
    server: Server = "",
    data_dir: DataDir = None,
    token: Token = "",
) -> None:
    """Make failed jobs ready again; labels, events and notes stay."""
    if bool(names) == all_:
        raise CliError("say which jobs: JOB ..., or --all for all that have failed")
    query = [("name", name) for name in names or []]
    asked = _Asked(server, data_dir, namespace, token)
    found = asked.do("reset-all-jobs", [*query, ("dryRun", str(dry_run).lower())])
    for name in _as(found, list[str]):
        typer.echo(f"{name} {'would be reset' if dry_run else 'reset'}")
    if not found:
        typer.echo("no job has failed")


_SIMULATE = "\n\n".join(
    [
        "Example: fairlead esi simulate --port 8082",
        "Then: examples/esi/scheduler.py http://127.0.0.1:8082 -p profiler-slots -s scheduler-slots",
    ]
)


@app.command(epilog=_SIMULATE)
def simulate(
    file: Annotated[
        Path | None, typer.Argument(help="Nodes, testbeds, jobs and their run times; else ESI's evaluation.")
    ] = None,
    nodes: Annotated[int | None, typer.Option(help="So many nodes instead.", min=1, max=10_000)] = None,
    speed: Annotated[float, typer.Option(help="Simulated seconds per second of ours.")] = 1000.0,
    port: Annotated[int, typer.Option(help="Where to listen on loopback; 0 = a free port.")] = 0,
) -> None:
    """ESI's interface over a simulated cluster, to try an algorithm in seconds."""
    from fairlead.cli import esi_simulate

    esi_simulate.run(file, nodes, speed, port)


@app.command(epilog="Example: fairlead esi crds | kubectl apply -f -")
def crds() -> None:
    """The definitions of ESI's custom resources, for kubectl apply."""
    from fairlead.wire.crds import files

    typer.echo("---\n".join(files().values()), nl=False)


@app.command(epilog="Example: fairlead esi demo --rounds 2")
def demo(
    rounds: Annotated[int, typer.Option(help="How often every pair is measured.", min=1, max=100)] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Leave cluster and scheduler running.")] = False,
) -> None:
    """ESI's evaluation on a cluster on this machine: two Testbeds, three jobs, the example scheduler."""
    from fairlead.cli import demo_esi

    demo_esi.run(rounds, keep)
