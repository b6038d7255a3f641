"""`fairlead filter CASES`: which nodes the default filters leave for a pod, and why not the others.

Called by `cli.main`, which imports this late: it brings the engine's core along. Must not hold any rule of
its own.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from fairlead.cli import tables, words
from fairlead.core.filters.cluster import Cluster, cluster_of
from fairlead.core.filters.rank import ScoreError, rank
from fairlead.core.filters.run import feasible, verdicts
from fairlead.core.filters.scores import Wishes
from fairlead.core.filters.verdict import Verdict
from fairlead.core.inventory import Inventory
from fairlead.core.labels import image_table
from fairlead.model.pod import Pod
from fairlead.wire import cases
from fairlead.wire.cases import Case

Answer = dict[str, object]


def show(file: Path, as_json: bool, with_scores: bool) -> None:
    """A line of JSON or a table per case."""
    out = tables.console()
    for case in cases.read(file):
        cluster, pod = _cluster(case), case.pod
        found = verdicts(cluster, pod)
        if as_json:
            typer.echo(msgspec.json.encode(_answer(case, cluster, found, with_scores)).decode())
        else:
            typer.echo(_headline(case, cluster, found))
            table = _table(cluster, found)
            if table.row_count:
                tables.show(out, table)
            if with_scores:
                _show_scores(out, case, cluster, found)


def answer(case: Case, with_scores: bool = False) -> Answer:
    """The verdict of every plugin on every node of a case; only rejections are listed."""
    cluster = _cluster(case)
    return _answer(case, cluster, verdicts(cluster, case.pod), with_scores)


def _cluster(case: Case) -> Cluster:
    inventory = Inventory()
    for node in case.nodes:
        inventory.put(node)
    return cluster_of(inventory, case.pods, case.namespaces, case.storage)


def _answer(case: Case, cluster: Cluster, found: Mapping[str, Verdict], with_scores: bool) -> Answer:
    result: Answer = {
        "id": case.id,
        "feasible": _feasible(cluster, found),
        "filter": {name: rejected for name, each in found.items() if (rejected := _rejected(cluster, each))},
    }
    if case.gates:
        result["preEnqueue"] = {
            "SchedulingGates": {"code": "UnschedulableAndUnresolvable", "reasons": [_held(case)]}
        }
    return result | _scores(case, cluster, found) if with_scores else result


def _scores(case: Case, cluster: Cluster, found: Mapping[str, Verdict]) -> Answer:
    """Node -> plugin -> score, or why there are none; nothing where no node is feasible."""
    mask = feasible(cluster, found)
    if not mask.any():
        return {}
    try:
        rows = cluster.inventory.rows
        images = image_table((rows[name], there) for name, there in case.images.items())
        ranks = rank(cluster, Wishes(images, case.services), case.pod, mask)
    except ScoreError as error:
        return {"scoreError": str(error)}
    nodes: dict[str, dict[str, int]] = {node: {} for node in _feasible(cluster, found)}
    for plugin, column in ranks.items():
        for row, score in zip(nodes.values(), column, strict=True):
            row[plugin] = int(score)
    return {"scores": nodes}


def _show_scores(out: Console, case: Case, cluster: Cluster, found: Mapping[str, Verdict]) -> None:
    """One row per feasible node, the best first."""
    answer = _scores(case, cluster, found)
    if "scoreError" in answer:
        typer.echo(words.clean(f"no scores: {answer['scoreError']}"))
    ranks = cast("dict[str, dict[str, int]]", answer.get("scores", {}))
    if not ranks:
        return
    plugins = list(next(iter(ranks.values())))
    table = Table("NODE", *plugins, box=None, header_style="bold", pad_edge=False)
    for node in sorted(ranks, key=lambda node: -ranks[node]["total"]):
        table.add_row(node, *(str(ranks[node][name]) for name in plugins))
    tables.show(out, table)


def _held(case: Case) -> str:
    return f"waiting for scheduling gates: [{' '.join(case.gates)}]"


def _feasible(cluster: Cluster, found: Mapping[str, Verdict]) -> list[str]:
    names = cluster.classes.names
    return [names[row] for row in feasible(cluster, found).nonzero()[0]]


def _rejected(cluster: Cluster, verdict: Verdict) -> dict[str, object]:
    return {
        node: {"code": verdict.code(row).label, "reasons": verdict.reasons(row)}
        for row, node in _nodes(cluster, verdict)
    }


def _nodes(cluster: Cluster, verdict: Verdict) -> Iterator[tuple[int, str]]:
    for row in verdict.codes.nonzero()[0]:
        yield int(row), cluster.classes.names[row]


def _headline(case: Case, cluster: Cluster, found: Mapping[str, Verdict]) -> str:
    pod: Pod = case.pod
    names = _feasible(cluster, found)
    held = f", {_held(case)}" if case.gates else ""
    fit = f"{len(names)} of {words.counted(len(cluster), 'node')}"
    listed = f": {' '.join(names)}" if names else ""
    return words.clean(f"{case.id}  {pod.namespace}/{pod.name}{held}: feasible {fit}{listed}")


def _table(cluster: Cluster, found: Mapping[str, Verdict]) -> Table:
    """One row per plugin, code and reasons, with the nodes that share them."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("PLUGIN", "NODES", "CODE", "REASONS"):
        table.add_column(heading, no_wrap=heading in ("PLUGIN", "CODE"))
    for name, verdict in found.items():
        groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for row, node in _nodes(cluster, verdict):
            groups.setdefault((verdict.code(row).label, verdict.reasons(row)), []).append(node)
        for (code, reasons), nodes in groups.items():
            table.add_row(name, " ".join(nodes), code, words.clean("; ".join(reasons)))
    return table
