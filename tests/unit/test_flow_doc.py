"""docs/flow.md shows what really happens: its excerpts come from this run, its places in the code exist.

`FAIRLEAD_BLESS=1` writes the excerpts anew. Places are written as `core/verify.py: verify`, in all documents
that are named here.
"""

import importlib
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import pytest

from fairlead.core.snapshot import Snapshot
from fairlead.kube.translate import node_seen, pod_seen
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.settings import Settings
from fairlead.runtime.loop import Loop
from fairlead.sim.world import World

ROOT = Path(__file__).resolve().parents[2]
FLOW = ROOT / "docs" / "flow.md"
MARK = "<!-- made by tests/unit/test_flow_doc.py -->"
EXCERPT = re.compile(rf"({re.escape(MARK)}\n```json\n)(.*?)(```\n)", re.DOTALL)
PLACE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py): ([A-Za-z_][A-Za-z_.]*)`")
WITH_PLACES = ("docs/flow.md", "ARCHITECTURE.md", "README.md")
WIDTH = 118

T = TypeVar("T")


# -- the run -----------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """One batch and what the engine answered to it."""

    events: tuple[ev.Event, ...]
    commands: tuple[cmd.Command, ...]


class Told(World):
    """A world that writes down what was said in both directions."""

    heard: list[Heard]

    def start(self) -> None:
        self.heard = []
        super().start()

    def perform(self, commands: Sequence[cmd.Command]) -> None:
        self.heard.append(Heard(self.batches[-1], tuple(commands)))
        super().perform(commands)

    def batch(self, wanted: Callable[[Heard], bool]) -> Heard:
        return next(each for each in self.heard if wanted(each))


def kubernetes_pod(number: int) -> bytes:
    """A pod as the API server writes it."""
    size = {"fairlead.dev/group": "train", "fairlead.dev/group-size": "2"}
    return msgspec.json.encode(
        {
            "metadata": {
                "uid": f"uid-{number}",
                "namespace": "team-a",
                "name": f"train-{number}",
                "resourceVersion": "1",
                "labels": size,
            },
            "spec": {
                "schedulerName": "fairlead",
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "6"}}}],
            },
            "status": {"phase": "Pending"},
        }
    )


def kubernetes_node(number: int) -> bytes:
    meta = {"uid": f"uid-n{number}", "name": f"n{number}", "resourceVersion": "1"}
    return msgspec.json.encode({"metadata": meta, "status": {"allocatable": {"cpu": "8", "pods": "110"}}})


@pytest.fixture(scope="module")
def world() -> Told:
    """Two nodes; a gang of two whose second member comes seven seconds after the first."""
    world = Told(Settings(pace=0))
    for number in range(2):
        node = node_seen(kubernetes_node(number), str)
        assert node is not None
        world.node(node.node)
    world.run(1_000)
    for number in range(2):
        pod = pod_seen(kubernetes_pod(number), str)
        assert pod is not None
        world.pod(pod.pod, run_time=20_000)
        world.run(7_000)
    world.run(60_000)
    return world


def one(items: Sequence[Any], kind: type[T], at: int = 0) -> T:
    return [each for each in items if isinstance(each, kind)][at]


# -- nine excerpts -----------------------------------------------------------------------------------


def steps(world: Told) -> list[list[Any]]:
    """What each step of docs/flow.md shows, long parts left out."""
    first = world.batch(lambda h: any(isinstance(each, ev.PodSeen) for each in h.events))
    proposed = world.batch(lambda h: any(isinstance(each, cmd.Propose) for each in h.commands))
    planned = world.batch(lambda h: any(isinstance(each, ev.PlanProposed) for each in h.events))
    recorded = world.batch(lambda h: any(isinstance(each, ev.AllocationsRecorded) for each in h.events))
    bound = world.batch(lambda h: any(isinstance(each, ev.Bound) for each in h.events))
    plan = one(planned.events, ev.PlanProposed)
    record = one(planned.commands, cmd.RecordAllocations)
    settled = one(bound.commands, cmd.SettleGrants)
    seen = [each for each in bound.events if isinstance(each, ev.PodSeen)]
    told = [c for h in world.heard for c in h.commands if isinstance(c, cmd.PatchCondition | cmd.Announce)]
    saves = [h for h in (first, proposed) if any(isinstance(each, cmd.SaveGroups) for each in h.commands)]
    return [
        [plain(one(first.events, ev.PodSeen))],
        [[cut(plain(each), pod=("name",)) for each in proposed.events]],
        [group(one(h.commands, cmd.SaveGroups)) for h in saves],
        [snapshot(one(proposed.commands, cmd.Propose))],
        [plain(plan)],
        [plain(record)["grants"][0]],
        [
            cut(plain(record), grants=("id",), groups=("id", "phase")),
            plain(one(recorded.events, ev.AllocationsRecorded)),
        ],
        [
            *(plain(each) for each in recorded.commands if isinstance(each, cmd.Bind)),
            *(cut(plain(each), pod=("name", "node")) for each in seen),
            *(plain(each) for each in bound.events if isinstance(each, ev.Bound)),
            plain(settled),
            group(one(bound.commands, cmd.SaveGroups)),
        ],
        [cut(plain(each), pods=("name",), regarding=("kind", "name")) for each in told],
    ]


def plain(value: object) -> Any:
    return msgspec.to_builtins(value)


def cut(value: dict[str, Any], **keep: tuple[str, ...]) -> dict[str, Any]:
    """Of the named members (objects or lists of them) only these fields; "…" stands for the rest."""

    def less(member: Any, fields: tuple[str, ...]) -> Any:
        if isinstance(member, list | tuple):
            return [less(each, fields) for each in member]
        return {**{key: member[key] for key in fields if key in member}, "…": "…"}

    return {key: less(each, keep[key]) if key in keep else each for key, each in value.items()}


def group(save: cmd.SaveGroups) -> dict[str, Any]:
    fields = ("id", "seq", "size", "seen", "phase", "reason", "nodes")
    return cut(plain(save), groups=fields)


def snapshot(propose: cmd.Propose) -> dict[str, Any]:
    taken: Snapshot = propose.snapshot
    free = {name: taken.free[row].tolist() for name, row in taken.resources.items()}
    waiting = [{"group": each.group, "order": each.order} for each in taken.waiting]
    shown = {"now": taken.now, "names": taken.names, "free": free, "waiting": waiting, "…": "…"}
    return {"type": "propose", "version": propose.version, "snapshot": shown}


def lines(step: list[Any]) -> str:
    return "".join(f"{wrap(each)}\n" for each in step)


def wrap(value: Any, indent: int = 0) -> str:
    """JSON on one line where it fits, else as many members in a line as do."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) + indent <= WIDTH or not isinstance(value, dict | list | tuple):
        return text
    members = [("", each) for each in value]
    if isinstance(value, dict):
        members = [(f"{json.dumps(key, ensure_ascii=False)}: ", each) for key, each in value.items()]
    rows = [""]
    for name, each in members:
        member = name + wrap(each, indent + 2) + ", "
        if rows[-1] and indent + 2 + len(rows[-1]) + len(member) > WIDTH:
            rows.append("")
        rows[-1] += member
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    inner = ("\n" + " " * (indent + 2)).join(row.rstrip() for row in rows).rstrip(",")
    return f"{opening}\n{' ' * (indent + 2)}{inner}\n{' ' * indent}{closing}"


def test_excerpts_are_what_happens(world: Told):
    made = [lines(step) for step in steps(world)]
    text = FLOW.read_text(encoding="utf-8")
    if os.environ.get("FAIRLEAD_BLESS") == "1":
        fresh = iter(made)
        text = EXCERPT.sub(lambda found: found[1] + next(fresh) + found[3], text)
        FLOW.write_text(text, encoding="utf-8")
    assert [found[2] for found in EXCERPT.finditer(text)] == made, "FAIRLEAD_BLESS=1 writes them anew"


def test_the_gang_of_the_excerpts_ran_to_its_end(world: Told):
    (record,) = world.groups.values()
    assert (record.phase, record.outcome, world.grants) == ("ended", "completed", {})


# -- places ------------------------------------------------------------------------------------------


def places() -> list[tuple[str, str, str]]:
    return [
        (name, *found)
        for name in WITH_PLACES
        for found in PLACE.findall((ROOT / name).read_text(encoding="utf-8"))
    ]


def test_every_step_names_its_places():
    headings = re.split(r"^## \d\. ", FLOW.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert [bool(PLACE.search(each)) for each in headings] == [True] * 9


def test_places_exist():
    wrong = [each for each in places() if not exists(*each[1:])]
    assert wrong == []


def exists(file: str, name: str) -> bool:
    if not (ROOT / "src" / "fairlead" / file).is_file():
        return False
    found: Any = importlib.import_module("fairlead." + file[:-3].replace("/", ".").removesuffix(".__init__"))
    for part in name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def test_a_place_that_is_gone_is_noticed():
    assert exists("runtime/loop.py", "Loop.step") and Loop.step
    assert not exists("runtime/loop.py", "Loop.jump")
    assert not exists("runtime/gone.py", "Loop")
