"""What comes late, twice, in another order, or out of an older past gives the same picture."""

from itertools import permutations
from typing import Any

import pytest
from msgspec import structs

from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.core.invariants import check
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, Shape
from fairlead.model.settings import Settings
from fairlead.model.thing import Namespace

SOURCES = ("nodes", "pods", "owners")


def node(version: int, cpu: int = 8, name: str = "n0") -> ev.NodeSeen:
    return ev.NodeSeen(Node(f"u-{name}", name, version, (("cpu", cpu * 1000), ("pods", 110))))


def pod(uid: str, version: int, on: str = "", cpu: int = 2, **fields: Any) -> ev.PodSeen:
    made = Pod(uid, "d", uid, version, Shape((("cpu", cpu * 1000), ("pods", 1))), "fairlead", node=on)
    return ev.PodSeen(structs.replace(made, **fields))


def engine(*events: ev.Event) -> Engine:
    made = Engine(Settings(pace=0), RECONCILERS)
    first = (ev.Tick(1_000), ev.StoreReady(1), *(ev.Synced(s) for s in made.state.settings.sources))
    made.learn((*first, *events))
    return made


def free(made: Engine, name: str = "n0") -> int:
    inventory = made.state.inventory
    return int(inventory.free[inventory.resources["cpu"], inventory.rows[name]])


def told(made: Engine, *events: ev.Event) -> list[cmd.Command]:
    commands = made.learn((ev.Tick(made.state.now + 10), *events))
    assert not check(made.state)
    return commands


# -- order and repetition ----------------------------------------------------------------------------

JOB = Owner("o", "Job", "d", "j", 3, 2)
OF_JOB = {"owner": OwnerRef("Job", "j", "o")}
NEWS = (node(2), ev.OwnerSeen(JOB), pod("a", 4, **OF_JOB), pod("b", 5, **OF_JOB), pod("x", 6, "n0", 3))


@pytest.mark.parametrize("order", list(permutations(range(len(NEWS)))), ids=lambda o: "".join(map(str, o)))
def test_L3_news_of_pods_nodes_and_owners_in_any_order_give_one_picture(order: tuple[int, ...]) -> None:
    """A pod before its node, an owner after its pods; each told twice."""
    made = engine()
    proposals: list[cmd.Propose] = []
    for index in order:
        for _ in range(2):
            proposals += [c for c in told(made, NEWS[index]) if isinstance(c, cmd.Propose)]
    assert free(made) == 5000
    (mine,) = [g for g in made.state.groups.values() if g.owners]
    assert (mine.size, mine.seen, mine.phase) == (2, 2, Phase.QUEUED)
    assert proposals
    wanted = made.state.waiting[mine.id]
    assert sorted(uid for request in wanted for task in request.tasks for uid in task.uids) == ["a", "b"]


def test_L3_older_news_after_newer_changes_nothing() -> None:
    made = engine(node(5), pod("x", 9, "n0", phase="Succeeded"))
    told(made, pod("x", 8, "n0"), node(4, cpu=2))
    assert free(made) == 8000


def test_L3_what_is_gone_stays_gone() -> None:
    made = engine(node(5), pod("x", 9, "n0"))
    told(made, ev.PodGone("x", 11), ev.PodGone("x", 11), pod("x", 10, "n0"))
    assert free(made) == 8000 and not made.state.pods


# -- an older past -----------------------------------------------------------------------------------


def restored() -> tuple[Engine, list[cmd.Command]]:
    """When the backup was made `bound` was unbound, `gone` there, `newer` not yet, and the node smaller."""
    made = engine(
        node(60, cpu=16), pod("bound", 70, "n0"), pod("gone", 40, "n0", scheduler="other"),
        pod("newer", 80, "n0", 4, scheduler="other"),
    )  # fmt: skip
    told(made, ev.PodGone("gone", 75))
    assert free(made) == 10_000
    commands = told(made, ev.Rewound("Node"), node(30), ev.Listed("Node", ("u-n0",), 50))
    commands += told(
        made, ev.Rewound("Pod"), pod("bound", 35), pod("gone", 40, "n0", scheduler="other"),
        ev.Listed("Pod", ("bound", "gone"), 50),
    )  # fmt: skip
    return made, commands


def test_L3_after_versions_went_back_what_is_listed_is_what_there_is() -> None:
    made, _ = restored()
    assert sorted(made.state.pods) == ["bound", "gone"]
    assert made.state.inventory.held.keys() == {"gone"} and free(made) == 6000


def test_L3_after_versions_went_back_news_is_heard_again() -> None:
    made, _ = restored()
    told(made, pod("gone", 51, "n0", scheduler="other", phase="Succeeded"), node(52, cpu=4))
    assert free(made) == 4000


def test_L3_who_is_unbound_again_after_versions_went_back_is_placed_again() -> None:
    made, commands = restored()
    assert any(isinstance(each, cmd.Propose) for each in commands)
    (group,) = made.state.groups.values()
    assert group.id in made.state.waiting


def test_L3_owners_and_surroundings_are_learned_anew_too() -> None:
    made = engine(
        ev.OwnerSeen(structs.replace(JOB, version=90)), ev.ThingSeen("n", 90, Namespace("d", {"a": "2"}))
    )
    told(made, ev.OwnerSeen(structs.replace(JOB, version=20, size=5)))
    assert made.state.owners["o"].size == 2
    told(made, ev.Rewound("Job"), ev.OwnerSeen(structs.replace(JOB, version=20, size=5)))
    told(made, ev.Rewound("Namespace"), ev.ThingSeen("n", 20, Namespace("d", {"a": "1"})))
    assert made.state.owners["o"].size == 5
    assert made.state.surroundings.namespaces["d"] == {"a": "1"}
    told(made, ev.Listed("Namespace", (), 19), ev.Listed("Job", (), 19))
    assert made.state.surroundings.namespaces and made.state.owners
    told(made, ev.Rewound("Namespace"), ev.Listed("Namespace", (), 19))
    told(made, ev.Rewound("Job"), ev.Listed("Job", (), 19))
    assert not made.state.surroundings.namespaces and not made.state.owners


def test_a_pod_that_cannot_be_read_holds_what_can_be_read_and_is_not_placed() -> None:
    odd = Shape((("cpu", 3000), ("pods", 1)), unsupported=("unreadable: cpu",))
    made = engine(node(2), pod("x", 3, "n0", shape=odd, scheduler="other"), pod("y", 4, shape=odd))
    assert free(made) == 5000
    (group,) = made.state.groups.values()
    assert group.phase is Phase.HELD and "unreadable" in group.reason.text
