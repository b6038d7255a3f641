"""`fairlead recorder`: `run` (also where no command is named), and the commands beside it.

Loaded by `cli.main` when one of them is wanted. Options in, `fairlead.app_recorder.run` called; that is
imported only when it is about to run. Must not hold any logic of its own.
"""

import importlib
import os
from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.errors import CliError
from fairlead.cli.recorder_import import EPILOG as IMPORT_EXAMPLE
from fairlead.cli.recorder_import import import_
from fairlead.cli.recorder_tail import EPILOG as TAIL_EXAMPLES
from fairlead.cli.recorder_tail import tail
from fairlead.cli.scheduler import LOG_FORMATS, one_of
from fairlead.cli.scheduler_options import Context, DatabaseUrl, ExtenderTls, Kubeconfig, LogFormat
from fairlead.core.durations import duration

app = typer.Typer()

DataDir = Annotated[
    Path | None,
    typer.Option(help="Where its database is; a scheduler's folder to share that one's; else its own."),
]
Grpc = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Schedulers and notifiers tell here; '' for none.")
]
Http = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Health, metrics, kube-scheduler's extender; '' for none.")
]
Extender = Annotated[
    str, typer.Option(metavar="HOST:PORT", help="Where kube-scheduler asks; else at --http.")
]
AllowRemote = Annotated[
    bool, typer.Option("--allow-remote", help="Let these be addresses that others reach: no login.")
]
Jsonl = Annotated[Path | None, typer.Option(help="Append what happens to this file, as the sniffer did.")]
Retention = Annotated[str, typer.Option(help="How long it is kept: 30d, 12h …")]
NoEvents = Annotated[bool, typer.Option("--no-events", help="Leave Kubernetes Events out.")]


@app.command(epilog="Example: fairlead recorder --retention 90d --jsonl sniffer.log")
def run(
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    data_dir: DataDir = None,
    database_url: DatabaseUrl = "",
    grpc: Grpc = "127.0.0.1:4242",
    http: Http = "127.0.0.1:8081",
    extender: Extender = "",
    extender_tls: ExtenderTls = None,
    allow_remote: AllowRemote = False,
    jsonl: Jsonl = None,
    retention: Retention = "30d",
    no_events: NoEvents = False,
    log_format: LogFormat = "text",
) -> None:
    """Record what happens to pods and nodes, whoever schedules them, until it is stopped."""
    kept = duration(retention)
    if kept is None:
        raise CliError(f"--retention {retention!r} is no duration above zero such as 30d or 12h")
    # The embedded database is started by fork and exec; gRPC would only complain of that, on stderr.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    composed = importlib.import_module("fairlead.app_recorder")
    composed.run(
        composed.Options(
            kubeconfig=kubeconfig,
            context=context,
            data_dir=data_dir,
            database_url=database_url,
            grpc=grpc,
            http=http,
            extender=extender,
            extender_tls=extender_tls,
            allow_remote=allow_remote,
            jsonl=jsonl,
            retention=kept,
            events=not no_events,
            log_format=one_of("--log-format", log_format, LOG_FORMATS),
        )
    )


app.command("import", epilog=IMPORT_EXAMPLE)(import_)

app.command(epilog=TAIL_EXAMPLES)(tail)


@app.callback()
def main() -> None:
    """What happens to pods and nodes, and what schedulers decide, in a database."""
