"""What `fairlead resource-query` does once its options are read: a graph, a session, and its lines.

Called by `cli.resource_query`, which imports this late. Must not know the commands.
"""

import sys
from pathlib import Path
from typing import NamedTuple, TextIO

import typer

from fairlead.cli.errors import CliError
from fairlead.cli.query_session import Session
from fairlead.core.tree.columns import Tree, TreeError
from fairlead.core.tree.graph import Graph
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.wire import grug, jgf, rv1
from fairlead.wire.files import text as file_text
from fairlead.wire.treetext import FORMATS

READERS = {"grug": grug.read, "jgf": jgf.read, "rv1exec": rv1.read}
_SUBSYSTEMS = ("CA", "containment")


class Options(NamedTuple):
    """The options, as they were typed."""

    load_file: Path
    load_format: str
    match_policy: str
    match_format: str
    match_subsystems: str
    traverser: str
    output: Path | None
    prune_filters: str
    elapse_time: bool
    disable_prompt: bool


def run(o: Options) -> None:
    """Read the graph, then commands until quit. Raises CliError."""
    if o.match_format not in FORMATS:
        raise CliError(f"unknown format {o.match_format!r}; known: {', '.join(FORMATS)}")
    if o.match_subsystems not in _SUBSYSTEMS:
        raise CliError(f"unknown subsystem {o.match_subsystems!r}; only CA (containment) is supported")
    if o.traverser not in ("simple", "flexible"):
        raise CliError(f"unknown traverser {o.traverser!r}; known: simple, flexible")
    graph = graph_of(o)
    if o.output is None:
        return _lines(Session(graph, sys.stdout, o.match_format, o.elapse_time), o.disable_prompt)
    try:
        o.output.write_text("")
        with o.output.open("a") as out:
            return _lines(Session(graph, out, o.match_format, o.elapse_time), o.disable_prompt)
    except OSError as error:
        raise CliError(f"{o.output}: {error.strerror or error}") from None


def graph_of(o: Options) -> Graph:
    """The graph that the options name. Raises CliError."""
    if o.load_format not in READERS:
        raise CliError(f"unknown format {o.load_format!r}; known: {', '.join(READERS)}")
    content = file_text(o.load_file)
    try:
        tree = Tree(READERS[o.load_format](content))
        policy = match_policy(o.match_policy)
        return Graph(tree, policy, filters=o.prune_filters, flexible=o.traverser == "flexible")
    except TreeError as error:
        raise CliError(f"{o.load_file}: {error}") from None


def _lines(session: Session, quiet: bool) -> None:
    """Read commands until quit or the end of the input."""
    prompt = "" if quiet or not sys.stdin.isatty() else "resource-query> "
    while True:
        line = _line(prompt, sys.stdin)
        if not line or not session.line(line):
            return


def _line(prompt: str, source: TextIO) -> str:
    if prompt:
        typer.echo(prompt, nl=False)
    return source.readline()
