"""`fairlead state dump | show`: the whole picture that a running scheduler has of its cluster.

A sub-app of `cli.main`. A dump has one node, pod, group … a line, so that grep finds and diff compares them;
`-o jgf` is the same file as `fairlead graph -o jgf` writes. Must not change anything.
"""

import json
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import msgspec
import typer

from fairlead.cli import ask, words
from fairlead.model.dump import Holds, StateDump

app = typer.Typer(no_args_is_help=True)


class Format(StrEnum):
    """How a picture is written."""

    json = "json"
    jgf = "jgf"


Server = Annotated[
    str,
    typer.Option("--server", help="Address of a scheduler; else $FAIRLEAD_SERVER, else the data folder's."),
]
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="The scheduler's data folder.")]
_DUMP = "\n\n".join(
    [
        "Example: fairlead state dump > before.json",
        "Then, what has changed: fairlead state dump | diff before.json -",
        'Who holds what of a node: fairlead state dump | grep \'"name": "node-0003"\'',
        "The tree, for resource-query: fairlead state dump --format jgf > cluster.json",
    ]
)


@app.command(epilog=_DUMP)
def dump(
    form: Annotated[
        Format, typer.Option("--output", "-o", "--format", help="json, or jgf: the cluster's tree alone.")
    ] = Format.json,
    whole: Annotated[
        bool, typer.Option("--whole", help="With jgf: one vertex for all that a node has of a resource.")
    ] = False,
    server: Server = "",
    data_dir: DataDir = None,
) -> None:
    """All that the scheduler takes to be true: nodes and who holds what, pods, groups, intents, promises."""
    where = ask.Where(server, data_dir)
    if form is Format.jgf:
        from fairlead.cli import commands

        return commands.graph(where, output="jgf", whole=whole)
    for line in lines(ask.state(where)):
        typer.echo(line)
    return None


@app.command(epilog="Example: fairlead state show --server 127.0.0.1:8080")
def show(server: Server = "", data_dir: DataDir = None) -> None:
    """The same in short: how much there is of everything, and who holds most."""
    for line in summary(ask.state(ask.Where(server, data_dir))):
        typer.echo(line)


# -- JSON --------------------------------------------------------------------------------------------


def lines(picture: StateDump) -> Iterator[str]:
    """The picture as a JSON document; each entry of a list of objects is a line."""
    fields: dict[str, Any] = msgspec.to_builtins(picture)
    yield "{"
    for i, (name, value) in enumerate(fields.items(), 1):
        comma = "," if i < len(fields) else ""
        entries = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
        if entries and isinstance(entries[0], dict):
            yield f'  "{name}": ['
            yield ",\n".join(f"    {_text(each)}" for each in entries)
            yield f"  ]{comma}"
        else:
            yield f'  "{name}": {_text(cast("object", value))}{comma}'
    yield "}"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- in short ----------------------------------------------------------------------------------------

MOST = 10
"""Holders shown, those with most cpu first."""


def summary(picture: StateDump) -> Iterator[str]:
    """The picture for people, at most 100 columns wide."""
    batches = f"{picture.version} {'batch' if picture.version == 1 else 'batches'} learned"
    yield (
        f"{'ready' if picture.ready else 'NOT READY'} as of {words.instant(picture.as_of)}: "
        f"fairlead {picture.program}, epoch {picture.epoch}, {batches}"
    )
    yield from (f"  {words.clean(warning)}" for warning in picture.warnings)
    counts = picture.counts
    yield f"nodes   {counts['nodes']}, and {counts['nodes_gone']} gone"
    yield f"pods    {counts['pods']}, of which {counts['pods_holding']} hold room"
    phases = Counter(str(group.record.phase) for group in picture.groups)
    yield f"groups  {', '.join(f'{n} {phase}' for phase, n in sorted(phases.items())) or 'none'}"
    granted = sum(len(grant.pods) for grant in picture.grants)
    yield (
        f"grants  {len(picture.grants)} open, for {words.counted(granted, 'pod')}; "
        f"{words.counted(len(picture.promises), 'start')} promised"
    )
    yield f"audit   {_audit(picture)}"
    for each in picture.set_aside:
        yield words.shorten(words.clean(f"SET ASIDE {each.kind} {each.name}: {each.text}"), 100)
    yield from _holders(picture)


def _audit(picture: StateDump) -> str:
    """Whether the picture was right when it was last held against the cluster."""
    last = picture.audit
    if last is None:
        return "none yet: `fairlead audit` makes one"
    told = last.result
    if last.differences:
        told = f"{words.counted(last.differences, 'difference')}, {last.repaired} repaired"
    return f"{told}, {words.span(picture.as_of - last.at)} ago"


class _Part(NamedTuple):
    """What one group, or another scheduler's pods of one namespace, hold."""

    nodes: dict[str, None]
    pods: Counter[str]
    amounts: Counter[str]


def _holders(picture: StateDump) -> Iterator[str]:
    parts: dict[str, _Part] = {}
    names = {group.record.id: f"{group.record.namespace}/{group.record.name}" for group in picture.groups}
    for node in (*picture.nodes, *picture.strays):
        for pod in node.held:
            name = names.get(pod.group) or f"{pod.namespace} (of others)"
            if pod.why is Holds.SLOT:
                name = f"{pod.namespace} (slots kept free)"
            part = parts.setdefault(name, _Part({}, Counter(), Counter()))
            part.nodes[node.name] = None
            part.pods[pod.why] += pod.why is not Holds.SLOT
            part.amounts.update(pod.amounts)
    most = sorted(parts.items(), key=lambda item: (-item[1].amounts["cpu"], item[0]))
    if most:
        yield ""
        yield f"{'HOLDS MOST':<50}{'NODES':>8}{'PODS':>8}{'INTENDED':>10}{'CPU':>10}{'MEMORY':>12}"
    for name, part in most[:MOST]:
        cpu, memory = (words.amount(what, part.amounts[what]) for what in ("cpu", "memory"))
        yield (
            f"{words.shorten(words.clean(name), 49):<50}{len(part.nodes):>8}{part.pods.total():>8}"
            f"{part.pods[Holds.INTENT]:>10}{cpu:>10}{memory:>12}"
        )
    if len(most) > MOST:
        yield f"{len(most) - MOST} more hold less"
