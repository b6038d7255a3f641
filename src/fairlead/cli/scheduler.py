"""`fairlead scheduler`: options in, `fairlead.app.run` called.

Registered by `cli.main`. Refuses words it does not know before anything is started, naming those it
does; imports the scheduler itself only when it is about to run. Must not hold any logic of its own.
"""

import importlib
from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.errors import CliError
from fairlead.core.durations import duration
from fairlead.model.settings import MATCHES, POLICIES

SWITCH = ("on", "off")
LOG_FORMATS = ("text", "json")


def one_of(option: str, value: str, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices; empty means not given."""
    if value and value not in choices:
        raise CliError(f"{option} {value!r} is not known: choose {' or '.join(choices)}")
    return value


def seconds(option: str, value: str) -> float:
    """A duration such as 15s, 500ms or 1m30s."""
    found = duration(value)
    if not found:
        raise CliError(f"{option} {value!r} is no duration above zero such as 15s, 500ms or 1m30s")
    return found / 1000


def scheduler(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Else $KUBECONFIG, the pod's own account, ~/.kube/config.")
    ] = None,
    context: Annotated[str, typer.Option(help="Which context of the kubeconfig.")] = "",
    data_dir: Annotated[
        Path | None, typer.Option(help="Database, address and locks; one scheduler per folder.")
    ] = None,
    database_url: Annotated[str, typer.Option(help="Your own PostgreSQL instead of the embedded one.")] = "",
    config: Annotated[
        Path | None, typer.Option(help="Queues, partitions and more (YAML); SIGHUP reads it again.")
    ] = None,
    policy: Annotated[
        str, typer.Option(help=f"Who may start, in the default queue: {', '.join(POLICIES)}; else fcfs.")
    ] = "",
    reservation_depth: Annotated[
        int | None,
        typer.Option(help="With hybrid: how many waiting groups hold a reservation; -1 none, 0 all."),
    ] = None,
    queue_depth: Annotated[
        int | None,
        typer.Option(help="How many waiting groups of the default queue one cycle looks at; 0 = all."),
    ] = None,
    match: Annotated[str, typer.Option(help=f"Which nodes: {', '.join(MATCHES)}; else first.")] = "",
    scheduler_name: Annotated[
        str, typer.Option(help="The schedulerName of the pods to place; else fairlead.")
    ] = "",
    pod_events: Annotated[str, typer.Option(help="A Scheduled Event per pod: on or off.")] = "on",
    record: Annotated[
        Path | None, typer.Option(help="Write all event batches into this file, for `fairlead replay`.")
    ] = None,
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
    host: Annotated[str, typer.Option(help="Where the HTTP server listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Its port; 0 takes a free one.", min=0, max=65535)] = 0,
    grpc: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Groups and nodes over gRPC, for kubectl plugins.")
    ] = "",
    grpc_allow_remote: Annotated[
        bool,
        typer.Option("--grpc-allow-remote", help="Let --grpc be an address that others reach: no login."),
    ] = False,
    audit_interval: Annotated[
        str,
        typer.Option(help="How often the picture is held against a fresh list of the cluster; 0 = never."),
    ] = "10m",
    leader_elect: Annotated[
        bool,
        typer.Option(
            "--leader-elect", help="One of several replicas: lead or stand by. Needs --database-url."
        ),
    ] = False,
    lease_duration: Annotated[
        str, typer.Option(help="How long a standby waits for a sign of life before it takes over.")
    ] = "15s",
    renew_deadline: Annotated[
        str, typer.Option(help="How long the leader tries to renew its lease before it steps down.")
    ] = "10s",
    retry_period: Annotated[str, typer.Option(help="Between two looks at the lease.")] = "2s",
    lease_name: Annotated[str, typer.Option(help="The Lease of these replicas.")] = "fairlead",
    lease_namespace: Annotated[
        str, typer.Option(help="Its namespace; else the pod's own, outside of a cluster kube-system.")
    ] = "",
) -> None:
    """Schedule groups of pods until it is stopped.

    Pods with `schedulerName: fairlead` are placed; those of others are counted and left alone.
    """
    given = {
        "kubeconfig": kubeconfig,
        "context": context,
        "data_dir": data_dir,
        "database_url": database_url,
        "config": config,
        "policy": one_of("--policy", policy, POLICIES),
        "reservation_depth": reservation_depth,
        "queue_depth": queue_depth,
        "match": one_of("--match", match, MATCHES),
        "scheduler": scheduler_name,
        "pod_events": one_of("--pod-events", pod_events, SWITCH) == "on",
        "record": record,
        "log_format": one_of("--log-format", log_format, LOG_FORMATS),
        "host": host,
        "port": port,
        "grpc": grpc,
        "grpc_allow_remote": grpc_allow_remote,
        "audit_interval": seconds("--audit-interval", audit_interval) if audit_interval != "0" else 0.0,
        "leader_elect": leader_elect,
        "lease_duration": seconds("--lease-duration", lease_duration),
        "renew_deadline": seconds("--renew-deadline", renew_deadline),
        "retry_period": seconds("--retry-period", retry_period),
        "lease_name": lease_name,
        "lease_namespace": lease_namespace,
    }
    app = importlib.import_module("fairlead.app")
    app.run(app.Options(**given))
