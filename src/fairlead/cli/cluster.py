"""`fairlead cluster up | down | status`: the local control plane from the command line.

Mounted by `fairlead.cli.main`; `python -m fairlead.cli.cluster` works too. It only turns options into calls
of `fairlead.localcluster` and results into text; stdout carries results, stderr all else.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from fairlead.localcluster import (
    Cluster,
    ClusterError,
    NodeShape,
    UpOptions,
    bring_down,
    bring_up,
    find_cluster,
    list_clusters,
)
from fairlead.localcluster.progress import Progress
from fairlead.localcluster.up import Interrupted

app = typer.Typer(
    no_args_is_help=True,
    help="A Kubernetes control plane on this machine, with as many fake nodes as you like.",
)

Name = Annotated[str, typer.Option(help="Which cluster; several may run side by side.")]


class Output(StrEnum):
    """How `status` prints."""

    table = "table"
    json = "json"


@app.command()
def up(
    name: Name = "default",
    nodes: Annotated[int, typer.Option(help="How many equal nodes to create.")] = 10,
    node_file: Annotated[
        Path | None,
        typer.Option(
            help="Nodes from a file instead: Node manifests (.yaml, .json) or .csv; .gz and .xz too."
        ),
    ] = None,
    kube_scheduler: Annotated[bool, typer.Option("--kube-scheduler", help="Run kube-scheduler too.")] = False,
    scheduler_config: Annotated[
        Path | None, typer.Option(help="A KubeSchedulerConfiguration for it, such as one with extenders.")
    ] = None,
    feature_gates: Annotated[str, typer.Option(help="As of kube-apiserver: Name=true,Other=false.")] = "",
    runtime_config: Annotated[str, typer.Option(help="As of kube-apiserver: group/version=true.")] = "",
    kubeconfig: Annotated[Path | None, typer.Option(help="Write the kubeconfig here.")] = None,
    node_cpu: Annotated[str, typer.Option(help="cpu of each node.")] = "32",
    node_memory: Annotated[str, typer.Option(help="memory of each node.")] = "128Gi",
    node_pods: Annotated[int, typer.Option(help="How many pods a node may hold.")] = 110,
    zones: Annotated[int, typer.Option(help="Over how many zones the nodes are spread.")] = 3,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for each part to be ready.")] = 120.0,
) -> None:
    """Start a cluster and wait until it is ready; the last line printed is its kubeconfig.

    \b
    fairlead cluster up                                  # ten nodes of 32 cpu and 128Gi
    fairlead cluster up --name big --nodes 1000 --node-cpu 64 --kube-scheduler
    fairlead cluster up --name real --node-file machines.csv.xz
    export KUBECONFIG=$(fairlead cluster up --name test | tail -n 1)

    The columns of a CSV are sn,cpu_milli,memory_mib,gpu,model. Pods run as long as their annotation
    fairlead.dev/run-time says (such as 5s), pods of a Job else for 1s, all others for ever.
    The first start builds the control plane with Go, which takes minutes.
    """
    options = UpOptions(
        name=name,
        nodes=nodes,
        node_file=str(node_file) if node_file else None,
        shape=NodeShape(cpu=node_cpu, memory=node_memory, pods=node_pods, zones=zones),
        kube_scheduler=kube_scheduler,
        scheduler_config=str(scheduler_config.absolute()) if scheduler_config else None,
        feature_gates=feature_gates,
        runtime_config=runtime_config,
        kubeconfig=str(kubeconfig) if kubeconfig else None,
        timeout=timeout,
    )
    with _plain_errors():
        print(bring_up(options, Progress()).kubeconfig)


@app.command()
def down(name: Name = "default") -> None:
    """End a cluster and remove all its files; done already is fine too.

    \b
    fairlead cluster down
    fairlead cluster down --name big
    """
    with _plain_errors():
        existed = bring_down(name)
        Progress().say(f"cluster {name!r} is gone" if existed else f"there is no cluster {name!r}")


@app.command()
def status(
    name: Annotated[str | None, typer.Option(help="Only this cluster.")] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="table or json.")] = Output.table,
) -> None:
    """Show the clusters and their components.

    \b
    fairlead cluster status
    fairlead cluster status --name big -o json
    """
    with _plain_errors():
        found = _chosen(name)
        described = [cluster.describe() for cluster in found]
    if output is Output.json:
        print(msgspec.json.format(msgspec.json.encode(described)).decode())
    elif described:
        Console().print(_table(described))
    else:
        Progress().say("no cluster; start one with: fairlead cluster up")


def _chosen(name: str | None) -> list[Cluster]:
    if name is None:
        return list_clusters()
    cluster = find_cluster(name)
    if cluster is None:
        raise ClusterError(f"there is no cluster {name!r}; start it with: fairlead cluster up --name {name}")
    return [cluster]


def _table(described: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("CLUSTER", "STATE", "NODES", "SERVER", "COMPONENT", "PID"):
        table.add_column(heading, no_wrap=True)
    for cluster in described:
        nodes = "-" if cluster["nodes"] is None else str(cluster["nodes"])
        head = [cluster["name"], cluster["state"], nodes, cluster["server"].removeprefix("https://")]
        for part in cluster["components"]:
            table.add_row(*head, part["name"], str(part["pid"]) if part["running"] else "ended")
            head = ["", "", "", ""]
    return table


@contextmanager
def _plain_errors() -> Generator[None]:
    """One clear message and exit code 1 for what a user can cause; the shell's usual code for a signal."""
    try:
        yield
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except Interrupted as stop:
        print(f"interrupted by {signal.Signals(stop.number).name}; all is cleaned up", file=sys.stderr)
        raise typer.Exit(128 + stop.number) from None


if __name__ == "__main__":
    app()
