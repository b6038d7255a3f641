"""What `fairlead fluxion-service` does once its options are read: a graph, a matcher, and a gRPC server.

Called by `cli.fluxion_service`, which imports this late. Must not know messages.
"""

import asyncio
import signal
from pathlib import Path
from typing import NamedTuple

import typer

from fairlead.api.listen import listen
from fairlead.api.rpc.call import Service
from fairlead.api.rpc.door import Door
from fairlead.api.rpc.fluxion import FLUXCLI, FLUXION, FluenceMatching, JobspecMatching, PodMatching
from fairlead.api.rpc.matcher import Matcher
from fairlead.api.rpc.plugin import EXTERNAL_PLUGIN, ExternalPlugin
from fairlead.cli.errors import CliError
from fairlead.cli.query_run import Options as QueryOptions
from fairlead.cli.query_run import graph_of
from fairlead.core.tree.columns import Tree, TreeError
from fairlead.core.tree.graph import Graph
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.runtime import eventloop, logs


class Options(NamedTuple):
    """The options, as they were typed."""

    graph: Path | None
    load_format: str
    match_policy: str
    prune_filters: str
    messages: str
    listen: str
    allow_remote: bool


def run(o: Options) -> None:
    """Serve until SIGINT or SIGTERM. Raises CliError, FileError or ServerError for people."""
    logs.configure("text")
    door = Door(services(o), listen(o.listen, o.allow_remote, "--allow-remote"))
    eventloop.run(_serve(door))


def services(o: Options) -> dict[str, Service]:
    """All that is served, over one graph."""
    matcher = _matcher(o)
    fluxion = JobspecMatching(matcher) if o.messages == "fluxion" else PodMatching(matcher)
    return {
        FLUXION: fluxion.methods(),
        FLUXCLI: FluenceMatching(matcher).methods(),
        EXTERNAL_PLUGIN: ExternalPlugin(matcher.jgf).methods(),
    }


def _matcher(o: Options) -> Matcher:
    try:
        default = match_policy(o.match_policy)
    except TreeError as error:
        raise CliError(str(error)) from None

    def make(tree: Tree, policy: str) -> Graph:
        return Graph(tree, match_policy(policy) if policy else default, filters=o.prune_filters)

    if o.graph is None:
        return Matcher(make)
    query = QueryOptions(
        load_file=o.graph,
        load_format=o.load_format,
        match_policy=o.match_policy,
        match_format="jgf",
        match_subsystems="CA",
        traverser="simple",
        output=None,
        prune_filters=o.prune_filters,
        elapse_time=False,
        disable_prompt=True,
    )
    return Matcher(make, graph_of(query))


async def _serve(door: Door) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await door.start()
    try:
        typer.echo(f"listening on {door.address}")
        if door.warning:
            typer.echo(f"warning: {door.warning}", err=True)
        await ended.wait()
    finally:
        await door.stop()
