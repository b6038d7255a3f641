"""What the demo submits, read from the examples themselves, and how far each of it has come.

Called by `cli.demo_run`. Pure but for reading the files of the examples: what is known of a group comes in
as rows of the scheduler's API.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import yaml
from msgspec import Struct

from fairlead.cli.errors import CliError
from fairlead.core.grouping import GROUP
from fairlead.model.view import QueueRow, State

ORDER = (
    "services",
    "pod.yaml",
    "job.yaml",
    "default-scheduler.yaml",
    "gang.yaml",
    "gang-waits",
    "unsatisfiable.yaml",
    "leader-workers.yaml",
    "batch",
    "deadlock",
)
"""Pods of kube-scheduler come before the large gangs: later they would wait, and race for every gap."""
SERVICES = "services"
IMPOSSIBLE = "unsatisfiable.yaml"
Manifest = dict[str, Any]


class Item(Struct, frozen=True):
    """A group that an example makes, or (`service`) several groups of one, named `name-...`."""

    example: str
    name: str
    kind: str
    pods: int
    ours: bool = True

    @property
    def service(self) -> bool:
        return self.example == SERVICES

    @property
    def expected(self) -> str:
        return State.REJECTED if self.example == IMPOSSIBLE else State.COMPLETED


class Standing(Struct, frozen=True):
    """How far an item has come; `state` is "" before it was seen. Times in milliseconds."""

    item: Item
    state: str = ""
    waited: int = 0
    ran: int = 0
    nodes: tuple[str, ...] = ()
    text: str = ""

    @property
    def settled(self) -> bool:
        """Nothing more will happen to it by itself."""
        if self.item.service:
            return self.state == State.RUNNING
        return self.state in (
            State.COMPLETED,
            State.FAILED,
            State.CANCELLED,
            State.TIMEOUT,
            State.REJECTED,
        )


def folder() -> Path:
    """Where the examples are: inside an installed package, else in the checkout."""
    package = Path(__file__).resolve().parents[1]
    for place in (package / "examples", package.parents[1] / "examples"):
        if (place / "README.md").is_file():
            return place
    raise CliError("the examples are not installed: run the demo from a checkout, with `make demo`")


def read(examples: Path) -> list[Item]:
    """All that the examples make, in order of submission; Jobs of one group are one item."""
    found: dict[tuple[str, str], Item] = {}
    for example in ORDER:
        for manifest in _manifests(examples / example):
            item = _item(example, manifest)
            if item is None:
                continue
            known = found.get((example, item.name))
            pods = item.pods + (known.pods if known else 0)
            found[example, item.name] = Item(example, item.name, item.kind, pods, item.ours)
    return list(found.values())


def _manifests(path: Path) -> Iterator[Manifest]:
    for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
        for document in yaml.safe_load_all(file.read_text("utf-8")):
            yield cast("Manifest", document)


def _item(example: str, manifest: Manifest) -> Item | None:
    kind, name = manifest["kind"], manifest["metadata"]["name"]
    if kind == "PriorityClass":
        return None
    spec: Manifest = manifest["spec"]
    template: Manifest = manifest if kind == "Pod" else spec["template"]
    labels: Manifest = template["metadata"].get("labels") or {}
    pods = int(spec.get("parallelism", spec.get("replicas", 1)))
    ours = template["spec"].get("schedulerName") == "fairlead"
    return Item(example, labels.get(GROUP, name), kind, pods, ours)


def standing(item: Item, rows: Iterable[QueueRow], now: int) -> Standing:
    """What the scheduler's rows say about an item."""
    if item.service:
        return _service(item, [row for row in rows if row.name.startswith(f"{item.name}-")], now)
    mine = [row for row in rows if row.name == item.name]
    if not mine:
        return Standing(item)
    row = max(mine, key=lambda each: each.first_seen)
    return Standing(item, row.state.value, row.waited, _ran(row, now), row.nodes, _text(row))


def _text(row: QueueRow) -> str:
    if row.state is State.ASSEMBLING and not row.text:
        return f"has {row.seen} of {row.size}"
    return row.text


def _ran(row: QueueRow, now: int) -> int:
    begun = row.started_at or row.bound_at
    return max((row.ended_at or now) - begun, 0) if begun else 0


def _service(item: Item, rows: list[QueueRow], now: int) -> Standing:
    live = [row for row in rows if row.state is State.RUNNING]
    if not rows:
        return Standing(item)
    if all(row.ended_at for row in rows):
        state, shown = "stopped", rows
    elif len(live) == item.pods:
        state, shown = State.RUNNING, live
    else:
        state, shown = ("stopping" if any(row.ended_at for row in rows) else State.WAITING), live
    return Standing(
        item,
        state,
        max((row.waited for row in shown), default=0),
        max((_ran(row, now) for row in shown), default=0),
        tuple(dict.fromkeys(node for row in shown for node in row.nodes)),
        "" if len(live) == item.pods else f"{len(live)} of {item.pods} run",
    )


def of_job(item: Item, job: Manifest | None) -> Standing:
    """A Job of another scheduler: Fairlead counts its pods but knows no group."""
    status: Manifest = (job or {}).get("status") or {}
    if status.get("succeeded", 0) == item.pods:
        return Standing(item, State.COMPLETED, text="placed by kube-scheduler")
    if status.get("ready", 0):
        return Standing(item, State.RUNNING, text="placed by kube-scheduler, counted by Fairlead")
    return Standing(item, State.WAITING if job else "", text="left to kube-scheduler")
