"""`fairlead fluxion-service`: options in, `cli.fluxion_run` called.

Registered by `cli.main`. Must stay cheap to import, and hold no logic of its own.
"""

from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.errors import CliError
from fairlead.cli.scheduler import one_of

MESSAGES = ("fluxnetes", "fluxion")


def fluxion_service(
    graph: Annotated[
        Path | None,
        typer.Option(
            "-L", "--graph", "--load-file", help="The resource graph; else clients bring it (Init)."
        ),
    ] = None,
    load_format: Annotated[
        str, typer.Option("-f", "-F", "--load-format", help="Its format: jgf, grug or rv1exec.")
    ] = "jgf",
    match_policy: Annotated[
        str, typer.Option("-P", "--match-policy", help="As for resource-query: first, low, lonode, …")
    ] = "first",
    prune_filters: Annotated[
        str,
        typer.Option("-p", "--prune-filters", help="What is counted where, for example ALL:core,rack:gpu."),
    ] = "ALL:core,ALL:node",
    messages: Annotated[
        str,
        typer.Option(
            help="Whose messages fluxion.FluxionService takes: fluxnetes (pods) or fluxion (jobspecs)."
        ),
    ] = "fluxnetes",
    listen: Annotated[str, typer.Option(help="HOST:PORT; port 0 takes a free one.")] = "127.0.0.1:4242",
    allow_remote: Annotated[
        bool,
        typer.Option("--allow-remote", help="Let --listen be an address that others reach: nobody logs in."),
    ] = False,
) -> None:
    """Match pods or jobspecs to a resource graph over gRPC, as the sidecars of fluxnetes and fluence do.

    \b
    fairlead fluxion-service --graph cluster.json -P lonode
    fairlead fluxion-service --messages fluxion              # clients call Init with their graph
    """
    one_of("--messages", messages, MESSAGES)
    if graph is None and messages != "fluxion":
        raise CliError("fluxnetes' messages have no way to bring a graph: give one with --graph FILE")
    from fairlead.cli.fluxion_run import Options, run

    run(Options(graph, load_format, match_policy, prune_filters, messages, listen, allow_remote))
