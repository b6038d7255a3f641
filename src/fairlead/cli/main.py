"""The command line: `fairlead` and, found by kubectl as a plugin, `kubectl fairlead`.

The entry point of both console scripts. Imports next to nothing, so that help and completion are quick:
what a command needs is imported when it runs, and sub-apps when they are named.
"""

import importlib
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fairlead import __version__
from fairlead.cli.audit import EPILOG as AUDIT_EXAMPLES
from fairlead.cli.audit import audit
from fairlead.cli.demo import demo
from fairlead.cli.errors import told
from fairlead.cli.fluxion_service import fluxion_service
from fairlead.cli.notify import EPILOG as NOTIFY_EXAMPLE
from fairlead.cli.notify import notify
from fairlead.cli.replay import EPILOG as REPLAY_EXAMPLES
from fairlead.cli.replay import replay
from fairlead.cli.resource_query import resource_query
from fairlead.cli.scheduler import scheduler
from fairlead.cli.simulate import EPILOG as SIMULATE_EXAMPLES
from fairlead.cli.simulate import simulate


class Output(StrEnum):
    """How answers are printed."""

    table = "table"
    wide = "wide"
    json = "json"


class Graphs(StrEnum):
    """How the cluster's tree is printed."""

    table = "table"
    wide = "wide"
    jgf = "jgf"
    json = "json"


class Jobspecs(StrEnum):
    """How jobspecs are printed."""

    yaml = "yaml"
    json = "json"


def late(module: str, default: str = "") -> type[TyperGroup]:
    """A group of commands whose module is imported when one of them is wanted.

    `default` is the one that is meant where none is named.
    """

    class Late(TyperGroup):
        def _load(self) -> None:
            if not self.commands:
                app = importlib.import_module(module).app
                importlib.import_module("fairlead.cli.quiet").quiet()
                self.commands = typer.main.get_group(app).commands
                for name, command in self.commands.items():
                    command.epilog = command.epilog or EXAMPLES.get(f"{self.name} {name}")

        def list_commands(self, ctx: Any) -> list[str]:
            self._load()
            return super().list_commands(ctx)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            self._load()
            return super().get_command(ctx, cmd_name)

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if default and (not args or (args[0].startswith("-") and args[0] not in ("-h", "--help"))):
                args = [default, *args]
            return super().parse_args(ctx, args)

    return Late


SUB_APPS = {
    "cluster": ("fairlead.cli.cluster", "A Kubernetes control plane on this machine: up, down, status."),
    "db": ("fairlead.cli.db", "The database: its address, or a shell in it."),
    "esi": (
        "fairlead.cli.esi",
        "External schedulers: Testbeds, jobs, Schedulings; enrol nodes, reset jobs, try an algorithm.",
    ),
    "history": (
        "fairlead.cli.history",
        "What was recorded: pods and nodes over time, latencies, usage, SQL, export.",
    ),
    "recorder": (
        "fairlead.cli.recorder",
        "Record what happens to pods and nodes, whoever schedules them: run (if none is named), and more.",
    ),
    "state": ("fairlead.cli.state", "What a running scheduler takes to be true: dump, show."),
}

DEFAULTS = {"recorder": "run"}
"""What is run where a sub-app alone is named."""

EXAMPLES = {
    "cluster up": "Example: fairlead cluster up --name demo --nodes 20",
    "cluster down": "Example: fairlead cluster down --name demo",
    "cluster status": "Example: fairlead cluster status",
    "db url": 'Example: psql "$(fairlead db url)" -c "SELECT * FROM queue"',
    "db shell": "Example: fairlead db shell",
}
"""For commands of sub-apps that bring none of their own."""

app = typer.Typer(
    name="fairlead",
    help="Batch scheduling for Kubernetes: gangs start all-or-nothing, and everyone can see when and why.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: fairlead queue --watch",
)
for _name, (_module, _help) in SUB_APPS.items():
    _default = DEFAULTS.get(_name, "")
    _sub = typer.Typer(cls=late(_module, _default), help=_help, no_args_is_help=not _default)
    app.add_typer(_sub, name=_name)

app.command(epilog="Example: fairlead scheduler --config fairlead.yaml --port 8080")(scheduler)

app.command(epilog="Example: fairlead demo --keep")(demo)

app.command(epilog=SIMULATE_EXAMPLES)(simulate)

app.command(epilog=AUDIT_EXAMPLES)(audit)

app.command(epilog=REPLAY_EXAMPLES)(replay)

app.command(
    "resource-query",
    epilog='Example: echo "match allocate job.yaml" | fairlead resource-query -L tiny.graphml',
)(resource_query)

app.command("fluxion-service", epilog="Example: fairlead fluxion-service --graph cluster.json -P lonode")(
    fluxion_service
)

app.command(epilog=NOTIFY_EXAMPLE)(notify)

OutputOption = Annotated[Output, typer.Option("--output", "-o", help="table, wide or json.")]
ServerOption = Annotated[
    str,
    typer.Option("--server", help="Address of a scheduler; else $FAIRLEAD_SERVER, else the data folder's."),
]
DataDirOption = Annotated[Path | None, typer.Option("--data-dir", help="The scheduler's data folder.")]
DatabaseOption = Annotated[
    str, typer.Option("--database-url", help="Asked if no scheduler answers; else the embedded one.")
]
NamespaceOption = Annotated[str, typer.Option("--namespace", "-n", help="Only this namespace.")]


def _where(server: str, data_dir: Path | None, database_url: str) -> Any:
    from fairlead.cli.ask import Where

    return Where(server, data_dir, database_url)


@app.command(epilog="Example: fairlead queue -n team-a --all -o wide")
def queue(
    output: OutputOption = Output.table,
    all_: Annotated[
        bool, typer.Option("--all", "-a", help="Ended groups too, until they are forgotten.")
    ] = False,
    namespace: NamespaceOption = "",
    limit: Annotated[int, typer.Option(help="How many rows at most; 0 = all.", min=0, max=100_000)] = 100,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 2.0,
    server: ServerOption = "",
    data_dir: DataDirOption = None,
    database_url: DatabaseOption = "",
) -> None:
    """Who waits, in order, and why; who runs, and where."""
    from fairlead.cli import commands

    commands.queue(
        _where(server, data_dir, database_url),
        output=output,
        ended=all_,
        namespace=namespace,
        limit=limit,
        watch=watch,
        interval=interval,
    )


@app.command(epilog="Example: fairlead queues -o json")
def queues(
    output: OutputOption = Output.table,
    server: ServerOption = "",
    data_dir: DataDirOption = None,
    database_url: DatabaseOption = "",
) -> None:
    """Which queues there are: policy, limits, and how many groups."""
    from fairlead.cli import commands

    commands.queues(_where(server, data_dir, database_url), output=output)


@app.command(epilog="Example: fairlead explain team-a/training")
def explain(
    group: Annotated[
        str, typer.Argument(help="NAME, NAMESPACE/NAME, an id, or the name of one of its pods.")
    ],
    output: OutputOption = Output.table,
    namespace: NamespaceOption = "",
    server: ServerOption = "",
    data_dir: DataDirOption = None,
    database_url: DatabaseOption = "",
) -> None:
    """Why a group waits, since when, who is ahead, and what would start it."""
    from fairlead.cli import commands

    name = f"{namespace}/{group}" if namespace and "/" not in group else group
    commands.explain(_where(server, data_dir, database_url), name, output=output)


@app.command(epilog="Example: fairlead nodes -o wide")
def nodes(
    output: OutputOption = Output.table,
    server: ServerOption = "",
    data_dir: DataDirOption = None,
    database_url: DatabaseOption = "",
) -> None:
    """What every node has, what of it is used, and by which groups."""
    from fairlead.cli import commands

    commands.nodes(_where(server, data_dir, database_url), output=output)


@app.command(epilog="Example: fairlead graph -o jgf > cluster.json")
def graph(
    output: Annotated[
        Graphs, typer.Option("--output", "-o", help="table, wide, jgf or json.")
    ] = Graphs.table,
    whole: Annotated[
        bool, typer.Option("--whole", help="With jgf: one vertex for all that a node has of a resource.")
    ] = False,
    server: ServerOption = "",
    data_dir: DataDirOption = None,
    database_url: DatabaseOption = "",
) -> None:
    """The cluster as a tree of zones, racks and nodes; -o jgf for `fairlead resource-query -f jgf`."""
    from fairlead.cli import commands

    commands.graph(_where(server, data_dir, database_url), output=output, whole=whole)


@app.command(name="filter", epilog="Example: fairlead filter cases.jsonl.xz --json > verdicts.jsonl")
def filter_(
    file: Annotated[Path, typer.Argument(help="Cases, one per line: a pod, nodes, pods, storage.")],
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON per case.")] = False,
    scores: Annotated[bool, typer.Option("--scores", help="Rank the nodes that are left, too.")] = False,
) -> None:
    """Which nodes the default filters leave for a pod, and why not the others."""
    from fairlead.cli import filter

    filter.show(file, as_json, scores)


@app.command(epilog="Example: fairlead jobspec -f job.yaml -o json")
def jobspec(
    file: Annotated[Path, typer.Option("--file", "-f", help="Manifests: Pods, Jobs, JobSets, Deployments.")],
    output: Annotated[
        Jobspecs, typer.Option("--output", "-o", help="yaml, or json: one jobspec a line.")
    ] = Jobspecs.yaml,
    group: Annotated[str, typer.Option(help="Only this group.")] = "",
    memory_unit: Annotated[str, typer.Option(help="What memory is counted in: MB or GB.")] = "MB",
) -> None:
    """The canonical jobspec of each group that these manifests make up."""
    from fairlead.cli import jobspec as command

    command.show(file, output is Jobspecs.json, group, memory_unit)


@app.command(epilog="Example: fairlead version")
def version() -> None:
    """The version of this program."""
    typer.echo(f"fairlead {__version__}")


def main() -> None:
    """Run one command; kubectl's plugins are called with their own name."""
    plugin = Path(sys.argv[0]).name.startswith("kubectl-")
    with told():
        app(prog_name="kubectl fairlead" if plugin else "fairlead")
