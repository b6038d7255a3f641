"""`fairlead jobspec -f FILE`: pods and what creates pods, as the canonical jobspecs of their groups.

Called by `cli.main`, which imports this late. Groups are those that the scheduler would form. Must not hold
any rule of what a jobspec says: that is `wire.jobspec_text`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import msgspec
import typer
import yaml
from msgspec import structs

from fairlead.cli import words
from fairlead.cli.errors import CliError
from fairlead.core import grouping
from fairlead.core.containment import type_of
from fairlead.core.labels import NodeClasses
from fairlead.core.topology import HOST, NODE, Topology, short
from fairlead.model.group import Why
from fairlead.model.layout import Layout
from fairlead.model.node import Node
from fairlead.model.settings import DEFAULT_QUEUE, QueueSettings, Settings
from fairlead.sim import manifests
from fairlead.sim.logs import Faults
from fairlead.sim.workload import Arrival
from fairlead.wire import files
from fairlead.wire.jobspec_text import MEMORY_UNITS, Asked, written

_SETTINGS = Settings()


def show(file: Path, as_json: bool, group: str, unit: str) -> None:
    """Print the jobspecs, remarks on stderr. Raises CliError and FileError."""
    if unit not in MEMORY_UNITS:
        raise CliError(f"--memory-unit is {unit!r}; give one of {', '.join(MEMORY_UNITS)}")
    found: list[dict[str, Any]] = []
    for asked in _chosen(file, groups(file), group):
        jobspec, remarks = written(asked, unit)
        found.append(jobspec)
        for remark in remarks:
            typer.echo(words.clean(f"{file}: group {asked.name}: {remark}"), err=True)
    if as_json:
        for jobspec in found:
            typer.echo(msgspec.json.encode(jobspec).decode())
    else:
        typer.echo(yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True), nl=False)


def groups(file: Path) -> list[Asked]:
    """The groups of a file in its order, at least one. Raises CliError and FileError."""
    text = files.text(file)
    objects = list(files.objects(file, text))
    if not objects:
        raise CliError(f"{file}: the file is empty: give one with Pods, Jobs or JobSets")
    faults = Faults(file, strict=False)
    arrivals = manifests.read(file, text, 0, faults).arrivals
    for fault in faults.found:
        if fault.kind == "bad":
            raise CliError(f"{file}: {fault.text}")
        typer.echo(f"{file}: {fault.text}", err=True)
    if not arrivals:
        kinds = ", ".join(dict.fromkeys(str(fields.get("kind", "no kind")) for _, fields in objects))
        raise CliError(f"{file}: no pods in it, only {kinds}: give Pods, Jobs, JobSets, Deployments or such")
    least = _least(fields for _, fields in objects)
    return [_asked(file, arrival, least) for arrival in arrivals]


def _chosen(file: Path, found: list[Asked], name: str) -> list[Asked]:
    chosen = [asked for asked in found if name in ("", asked.name)]
    if not chosen:
        known = ", ".join(asked.name for asked in found[:10])
        raise CliError(f"{file}: no group {name!r} in it; its groups are {known}")
    return chosen


def _asked(file: Path, arrival: Arrival, least: dict[tuple[str, str], int]) -> Asked:
    """What the group asks for, read as the scheduler reads it."""
    pods, owners = arrival.pods, [arrival.owner] if arrival.owner is not None else []
    key, notes = grouping.key_of(pods[0]), grouping.annotations(pods, owners)
    queue = notes.get(grouping.QUEUE, "")
    known = structs.replace(_SETTINGS, queues=(QueueSettings(queue or DEFAULT_QUEUE),))
    levels = _levels(notes)
    demand = grouping.demand(key.source, pods, owners, False, known, lambda: levels)
    if demand.hold is not None and demand.hold.why is Why.INVALID:
        raise CliError(f"{file}: group {arrival.name}: {demand.hold.text}")
    size = max(demand.size, least.get((pods[0].namespace, key.name), 0) if key.source == "label" else 0)
    return Asked(
        arrival.name,
        pods,
        size,
        demand.duration,
        queue,
        _type(f"{file}: group {arrival.name}", demand.layout, max(size, len(pods)), levels.keys),
        demand.layout.exclusive,
    )


def _levels(notes: dict[str, str]) -> Topology:
    """The levels that are known without a cluster, and those that the group names."""
    keys = _SETTINGS.topology
    named = [notes.get(key, "") for key in (grouping.REQUIRED_TOPOLOGY, grouping.PREFERRED_TOPOLOGY)]
    others = [name for name in named if name and name.strip().lower() not in map(short, keys)]
    return Topology(NodeClasses([Node("", "", 1, (), dict.fromkeys((*keys, *others), ""))], [False]), keys)


def _type(place: str, layout: Layout, size: int, keys: tuple[str, ...]) -> str:
    """The type of vertex that holds all members; "" if it does not matter."""
    if layout.required != HOST:
        return (
            type_of(layout.required, tuple(dict.fromkeys((*keys, layout.required))))
            if layout.required
            else ""
        )
    if layout.exclusive and size > 1:
        raise CliError(
            f"{place}: {grouping.REQUIRED_TOPOLOGY} wants one node for all members and {grouping.EXCLUSIVE}"
            " one for each: leave one of them out"
        )
    return "" if layout.exclusive else NODE


def _least(objects: Iterable[files.Fields]) -> dict[tuple[str, str], int]:
    """(namespace, name) -> minMember of the PodGroups in the file."""
    found: dict[tuple[str, str], int] = {}
    for fields in objects:
        meta, spec = fields.get("metadata"), fields.get("spec")
        if fields.get("kind") != "PodGroup" or not isinstance(meta, dict) or not isinstance(spec, dict):
            continue
        named, least = cast("files.Fields", meta), cast("files.Fields", spec).get("minMember", 0)
        if isinstance(least, int):
            found[str(named.get("namespace") or "default"), str(named.get("name"))] = least
    return found
