"""What `fairlead queue`, `queues`, `explain`, `nodes` and `graph` do once their options are read.

Called by `cli.main`, which imports this late: it brings rich along. stdout carries the answer, stderr
how old it is and what is not shown, so that a pipe gets nothing but rows.
"""

import time
from collections.abc import Callable
from typing import Any

import msgspec
import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from fairlead.cli import ask, prose, tables, words
from fairlead.cli.ask import Where
from fairlead.cli.errors import CliError
from fairlead.model.view import ExplanationPage, GraphPage, NodePage, QueuePage, QueuesPage

Page = QueuePage | QueuesPage | ExplanationPage | NodePage | GraphPage


def queue(
    where: Where, *, output: str, ended: bool, namespace: str, limit: int, watch: bool, interval: float
) -> None:
    """One table, or one after the other until Ctrl-C."""

    def get() -> QueuePage:
        return ask.queue(where, ended=ended, namespace=namespace, limit=limit)

    if watch:
        return _watch(get, output, bool(namespace), interval)
    page = get()
    if output == "json":
        return _json(page)
    _tell_age(page)
    if page.groups:
        _show(page, output, bool(namespace))
    typer.echo(tables.summary(page).plain, err=True)
    return None


def queues(where: Where, *, output: str) -> None:
    """All queues as a table."""
    page = ask.queues(where)
    if output == "json":
        return _json(page)
    _tell_age(page)
    out = tables.console(output == "wide")
    tables.show(out, tables.queues(page, output == "wide", out.width))
    return None


def explain(where: Where, name: str, *, output: str) -> None:
    """The story of the groups of that name."""
    page = ask.explain(where, name)
    if output == "json":
        return _json(page)
    _tell_age(page)
    prose.print_explanation(tables.console(output == "wide"), page, output == "wide")
    return None


def nodes(where: Where, *, output: str) -> None:
    """All nodes as a table."""
    page = ask.nodes(where)
    if output == "json":
        return _json(page)
    _tell_age(page)
    if page.nodes:
        out = tables.console(output == "wide")
        tables.show(out, tables.nodes(page, output == "wide", out.width))
    else:
        typer.echo("no nodes", err=True)
    return None


def graph(where: Where, *, output: str, whole: bool) -> None:
    """The cluster's tree as a table or a file."""
    from fairlead.cli import graph as drawing  # it brings numpy along

    page = ask.graph(where)
    if output == "json":
        return _json(page)
    _tell_age(page)
    if output == "jgf":
        typer.echo(drawing.text(page, whole), nl=False)
    else:
        out = tables.console(output == "wide")
        tables.show(out, drawing.table(page, output == "wide", out.width))
    return None


def _show(page: QueuePage, output: str, one_namespace: bool) -> None:
    out = tables.console(output == "wide")
    tables.show(out, tables.queue(page, output == "wide", one_namespace, out.width))


def _json(page: Page, indent: int = 2) -> None:
    typer.echo(msgspec.json.format(msgspec.json.encode(page), indent=indent).decode())


def _tell_age(page: Page) -> None:
    for line in _age(page):
        typer.echo(line, err=True)


def _age(page: Page) -> list[str]:
    """Where the answer comes from, if not from the scheduler of this moment."""
    lines = [words.clean(warning) for warning in page.warnings]
    if page.source != "scheduler":
        age = f", {words.span(int(time.time() * 1000) - page.as_of)} ago" if page.as_of else ""
        lines.append(f"as of {words.instant(page.as_of)}{age}: from the {page.source}, which may be behind")
    return lines


# -- watching ----------------------------------------------------------------------------------------


def _watch(get: Callable[[], QueuePage], output: str, one_namespace: bool, interval: float) -> None:
    """Ctrl-C is how this ends, so it is no error."""
    out = tables.console(output == "wide")
    try:
        if output == "json" or not out.is_terminal:
            return _print_each(get, output, one_namespace, interval)
        with Live(console=out, auto_refresh=False, screen=False, vertical_overflow="crop") as live:
            while True:
                live.update(_frame(get, output, one_namespace, out.width, out.height), refresh=True)
                time.sleep(interval)
    except KeyboardInterrupt:
        return None


def _frame(get: Callable[[], QueuePage], output: str, one_namespace: bool, width: int, height: int) -> Any:
    """One picture; an error takes the table's place until somebody answers again."""
    try:
        page = get()
    except CliError as error:
        return Text(f"{time.strftime('%H:%M:%S')}  {error}", "red")
    rows = page.groups[: max(height - 5, 3)]
    shown = msgspec.structs.replace(page, groups=rows)
    title = Text(f"{time.strftime('%H:%M:%S')}  Ctrl-C ends", "dim")
    notes = [Text(line, "yellow") for line in _age(page)]
    table = tables.queue(shown, output == "wide", one_namespace, width)
    return Group(title, *notes, table, tables.summary(page))


def _print_each(get: Callable[[], QueuePage], output: str, one_namespace: bool, interval: float) -> None:
    """Into a file or a pipe: one table (or one line of JSON) per look."""
    while True:
        page = get()
        if output == "json":
            _json(page, indent=-1)
        else:
            _tell_age(page)
            _show(page, output, one_namespace)
            typer.echo("")
        time.sleep(interval)
