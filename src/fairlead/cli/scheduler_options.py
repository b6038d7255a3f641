"""The options of `fairlead scheduler`, each with its help.

Used by `cli.scheduler` alone. Words only: what they mean is checked there.
"""

from pathlib import Path
from typing import Annotated

import typer

from fairlead.model.settings import MATCHES, POLICIES

Kubeconfig = Annotated[
    Path | None, typer.Option(help="Else $KUBECONFIG, the pod's own account, ~/.kube/config.")
]
Context = Annotated[str, typer.Option(help="Which context of the kubeconfig.")]
DataDir = Annotated[Path | None, typer.Option(help="Database, address and locks; one scheduler per folder.")]
DatabaseUrl = Annotated[str, typer.Option(help="Your own PostgreSQL instead of the embedded one.")]
Config = Annotated[
    Path | None, typer.Option(help="Queues, partitions and more (YAML); SIGHUP reads it again.")
]
Policy = Annotated[
    str, typer.Option(help=f"Who may start, in the default queue: {', '.join(POLICIES)}; else fcfs.")
]
ReservationDepth = Annotated[
    int | None,
    typer.Option(help="With hybrid: how many waiting groups hold a reservation; -1 none, 0 all."),
]
QueueDepth = Annotated[
    int | None,
    typer.Option(help="How many waiting groups of the default queue one cycle looks at; 0 = all."),
]
Match = Annotated[str, typer.Option(help=f"Which nodes: {', '.join(MATCHES)}; else first.")]
SchedulerName = Annotated[str, typer.Option(help="The schedulerName of the pods to place; else fairlead.")]
PodEvents = Annotated[str, typer.Option(help="A Scheduled Event per pod: on or off.")]
Record = Annotated[
    Path | None, typer.Option(help="Write all event batches into this file, for `fairlead replay`.")
]
Ledger = Annotated[
    bool,
    typer.Option("--ledger", help="Write every decision into the database, for history and replay."),
]
LogFormat = Annotated[str, typer.Option(help="text or json.")]
Host = Annotated[str, typer.Option(help="Where the HTTP server listens.")]
Port = Annotated[int, typer.Option(help="Its port; 0 takes a free one.", min=0, max=65535)]
Grpc = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Groups and nodes over gRPC, for kubectl plugins.")
]
GrpcAllowRemote = Annotated[
    bool,
    typer.Option("--grpc-allow-remote", help="Let --grpc be an address that others reach: no login."),
]
LedgerInterval = Annotated[
    str,
    typer.Option(
        "--ledger-interval", help="How often the whole state goes into the ledger, for replays to begin with."
    ),
]
LedgerRetention = Annotated[
    str, typer.Option("--ledger-retention", help="How long the ledger is kept; whole days are dropped.")
]
AuditInterval = Annotated[
    str,
    typer.Option(help="How often the picture is held against a fresh list of the cluster; 0 = never."),
]
LeaderElect = Annotated[
    bool,
    typer.Option("--leader-elect", help="One of several replicas: lead or stand by. Needs --database-url."),
]
LeaseDuration = Annotated[
    str, typer.Option(help="How long a standby waits for a sign of life before it takes over.")
]
RenewDeadline = Annotated[
    str, typer.Option(help="How long the leader tries to renew its lease before it steps down.")
]
RetryPeriod = Annotated[str, typer.Option(help="Between two looks at the lease.")]
LeaseName = Annotated[str, typer.Option(help="The Lease of these replicas.")]
AlsoListen = Annotated[
    str,
    typer.Option(metavar="PORT,...", help="More ports for the HTTP server, such as ESI's own: 8080,8082."),
]
Esi = Annotated[
    bool, typer.Option("--esi", help="Serve external schedulers: Testbeds, BatchJobs, Schedulings and REST.")
]
EsiBinder = Annotated[
    str,
    typer.Option(help="Who places their pods: fairlead, or a kube-scheduler with Fairlead as its extender."),
]
EsiNamespace = Annotated[str, typer.Option(help="The namespace of requests that name none.")]
Extender = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", help="Where that kube-scheduler asks; else where the HTTP server is."),
]
ExtenderTls = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="With tls.crt, tls.key, ca.crt: TLS there, only for those with a certificate signed by ca.crt.",
    ),
]
ExtenderAllowRemote = Annotated[
    bool,
    typer.Option("--extender-allow-remote", help="Without TLS, let others reach the extender: no login."),
]
InsecureEsi = Annotated[
    bool,
    typer.Option(
        "--insecure-esi", help="REST without tokens; only where none but this machine can reach it."
    ),
]
EsiOldGets = Annotated[
    bool, typer.Option("--esi-old-gets", help="Let the debug verbs be called by GET, too, as ESI has it.")
]
LeaseNamespace = Annotated[
    str, typer.Option(help="Its namespace; else the pod's own, outside of a cluster kube-system.")
]
