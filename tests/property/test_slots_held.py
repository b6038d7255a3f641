"""Drawn worlds with slots: testbeds edited, nodes labelled, pods that come, run and end, others' pods, kills.

The invariants of `core.invariants` are asked after every batch by the world itself, and besides them: what
Fairlead placed on a node is never more than the node has, nothing that runs is evicted, slots are counted by
a rebuild as by events, and a process that starts anew finds the same.
"""

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from auditing import differences, digests, listings
from fairlead.model import command as cmd
from fairlead.model.esi import SCHEDULER, SLOT, TESTBED_LABEL, HoldCapacity, SlotState
from fairlead.model.node import Node
from fairlead.model.pod import PodPhase
from fairlead.sim.esi_world import SETTINGS, EsiWorld
from slotted import LABEL, bed_of, plain, requests, slotted
from worlds import Drawn

NODES = ("n0", "n1", "n2")
BEDS = ("tb", "other")
PAUSES = (0, 1, 3, 50, 1_200, 12_000)
SIZES = ((600, 1024), (600, 1040), (300, 512), (700, 1024))


class Op(NamedTuple):
    verb: str
    a: int
    b: int
    c: int
    pause: int


class Slotted(EsiWorld):
    """A world with operations; it looks at what Fairlead placed after each batch."""

    count = 0

    def do(self, op: Op) -> None:
        OPS[op.verb](self, op)
        self.run(PAUSES[op.pause % len(PAUSES)])

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def look(self) -> None:
        super().look()
        state = self.engine.state
        if not state.synced:
            return
        taken: dict[tuple[str, str], int] = {}
        for uid, (node, amounts) in state.inventory.held.items():
            pod = state.pods.get(uid)
            if pod is not None and state.ours(pod):
                for name, amount in amounts:
                    taken[node, name] = taken.get((node, name), 0) + amount
        for (node, name), amount in taken.items():
            assert node not in self.nodes or amount <= dict(self.nodes[node].allocatable).get(name, 0)


def comes(world: Slotted, op: Op) -> None:
    cpu, mib = SIZES[op.c % len(SIZES)]
    keys = [f"{NODES[i % 3]}/{i // 3}" for i in (op.a, op.b, op.a + op.b)]
    ids = "_".join(str(i) for i in sorted({op.a, op.b}))
    pod = slotted(
        world.name("p"),
        ids=ids,
        slots=",".join(keys) if op.c % 2 else "",
        bed=BEDS[op.c % 5 == 4],
        asks=requests(cpu, mib << 20),
        gated=op.c % 7 == 6,
        scheduler="stock" if op.c % 3 == 2 else "external-scheduler",
    )
    world.pod(pod, run_time=(0, 100, 5_000)[op.b % 3])


def of(world: Slotted, op: Op, fits: Callable[[str], bool]) -> str:
    names = [uid for uid in world.pods if fits(uid)]
    return names[op.a % len(names)] if names else ""


def binds(world: Slotted, op: Op) -> None:
    """Another scheduler binds a pod, to where its slot is or anywhere."""
    uid = of(world, op, lambda uid: world.pods[uid].scheduler == "stock" and not world.pods[uid].node)
    if uid:
        node = world.pods[uid].annotations.get(SLOT, NODES[op.b % 3]).split("/")[0]
        world.change(uid, node=NODES[op.b % 3] if op.c % 4 == 3 else node)
        world.at(1, lambda: world._run(uid))


def ends(world: Slotted, op: Op) -> None:
    uid = of(world, op, lambda uid: bool(world.pods[uid].node) and not world.pods[uid].ended)
    if uid:
        world.change(uid, phase=PodPhase.FAILED if op.b % 3 == 2 else PodPhase.SUCCEEDED)


def goes(world: Slotted, op: Op) -> None:
    uid = of(world, op, lambda _: True)
    if uid:
        world.pod_gone(uid)


def ungated(world: Slotted, op: Op) -> None:
    uid = of(world, op, lambda uid: world.pods[uid].gated)
    if uid:
        world.change(uid, gated=False)


def foreigner(world: Slotted, op: Op) -> None:
    pod = plain(world.name("x"), 100 + 200 * (op.b % 6), scheduler="default-scheduler")
    world.pod(structs.replace(pod, node=NODES[op.a % 3], phase=PodPhase.RUNNING))


def ordinary(world: Slotted, op: Op) -> None:
    world.pod(plain(world.name("o"), 200 + 300 * (op.a % 6)), run_time=(100, 4_000)[op.b % 2])


def labelled(world: Slotted, op: Op) -> None:
    name = NODES[op.a % 3]
    if name in world.nodes:
        world.label_node(name, {LABEL: (None, "0", "1", "7", "x")[op.b % 5]})


def closed(world: Slotted, op: Op) -> None:
    node = world.nodes.get(NODES[op.a % 3])
    if node is not None:
        world.node(structs.replace(node, unschedulable=op.b % 2 == 0, ready=op.c % 3 != 0))


def node(world: Slotted, op: Op) -> None:
    name = NODES[op.a % 3]
    if name in world.nodes and op.b % 3 == 0:
        world.node_gone(name)
    elif name not in world.nodes:
        found = {"cpu": 2_000, "memory": 20 << 30, "pods": 110}
        labels = {LABEL: str(op.b)} if op.c % 3 else {}
        world.node(Node(world.name(name), name, 0, tuple(sorted(found.items())), labels))


def edited(world: Slotted, op: Op) -> None:
    name = BEDS[op.c % 2]
    if world.thing("Testbed", name) is None:
        world.put(structs.replace(bed_of(name), created=world.now))
        return
    if op.c % 6 == 5:
        world.delete("Testbed", name)
        return
    hold = (HoldCapacity.NONE, HoldCapacity.PODS)[op.b % 4 == 3]
    size = ("600m", "1", "300m")[op.b % 3]
    spec = {"slotsPerNode": 1 + op.a % 4, "fairlead": {"holdCapacity": str(hold)}}
    world.edit("Testbed", name, {"spec": {**spec, "resourcesPerSlot": {"cpu": size}}})


def killed(world: Slotted, op: Op) -> None:
    world.crash()
    if op.b % 2:
        world.run(PAUSES[op.a % 5])
    world.start()


def overtaken(world: Slotted, op: Op) -> None:
    """Another one leads, and what this one has sent arrives later."""
    world.take_over((0, 3, 20, 1_500)[op.a % 4])


def deaf(world: Slotted, op: Op) -> None:
    world.gap(("pods", "nodes", "surroundings")[op.a % 3], (10, 700, 3_000)[op.b % 3])


OPS: dict[str, Callable[[Slotted, Op], None]] = {
    "comes": comes,
    "comes too": comes,
    "binds": binds,
    "ends": ends,
    "goes": goes,
    "ungated": ungated,
    "foreigner": foreigner,
    "ordinary": ordinary,
    "labelled": labelled,
    "closed": closed,
    "node": node,
    "edited": edited,
    "killed": killed,
    "overtaken": overtaken,
    "deaf": deaf,
}
number = st.integers(0, 11)
DRAWN = st.lists(
    st.builds(Op, st.sampled_from(tuple(OPS)), number, number, number, st.integers(0, 5)),
    min_size=4,
    max_size=25,
)
CODES = st.lists(st.integers(0, 30), min_size=1, max_size=30)


def played(ops: list[Op], codes: list[int]) -> Slotted:
    faults = Drawn(codes)
    world = Slotted(SETTINGS, faults)
    for i, name in enumerate(NODES):
        world.node(name, {LABEL: str(i)})
    world.put(bed_of())
    for op in ops:
        world.do(op)
    faults.off = True
    world.run(60_000)
    return world


def occupied(world: Slotted) -> dict[str, str]:
    """Who sits where. One of which nothing says where it sits may sit elsewhere on its node after a start."""
    esi = world.engine.state.esi
    return {
        f"{esi.testbeds[uid].name}/{slot.key}": slot.pod
        for uid, table in esi.tables.items()
        for slot in table.slots.values()
        if slot.state is SlotState.OCCUPIED and SLOT in world.pods[slot.pod].annotations
    }


@settings(max_examples=100)
@given(DRAWN, CODES)
def test_RA2_RA10_slots_are_never_booked_twice_and_no_edit_ends_what_runs(
    ops: list[Op], codes: list[int]
) -> None:
    world = played(ops, codes)
    assert not [each for _, each in world.log if isinstance(each, cmd.Evict | cmd.End)]
    deleted = [each.ref.name for _, each in world.log if isinstance(each, cmd.DeleteObject)]
    assert all(name.startswith("ghostpod-") for name in deleted)
    said = [
        (pod.labels[TESTBED_LABEL], pod.annotations[SLOT])
        for pod in world.pods.values()
        if pod.node and not pod.ended and pod.scheduler == SCHEDULER and SLOT in pod.annotations
    ]
    assert len(said) == len(set(said)), "two pods say that they have one slot"
    assert not world.engine.state.esi.guessed


@settings(max_examples=100)
@given(DRAWN, CODES)
def test_RA11_a_rebuild_and_a_new_process_find_the_same_slots(ops: list[Op], codes: list[int]) -> None:
    world = played(ops, codes)
    state, lists = world.engine.state, listings(world)
    assert differences(state, lists) == []
    assert len(set(digests(state, lists))) == 1
    before = occupied(world)
    world.crash()
    world.start()
    world.run(60_000)
    assert occupied(world) == before
    esi, ours = world.engine.state.esi, world.engine.state.ours
    idle = [uid for uid in esi.places if ours(world.pods[uid]) and not world.pods[uid].node]
    assert [
        uid for uid in idle if uid not in esi.refused
    ] == []  # who has a slot runs there, or knows why not
