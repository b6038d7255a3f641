"""Groups that mind other pods, in drawn worlds: every single placement is one that all filters allow."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from fairlead.control import RECONCILERS
from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.core.filters.cluster import cluster_of
from fairlead.core.filters.run import feasible, verdicts
from fairlead.core.invariants import check
from fairlead.core.inventory import Inventory
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Phase, Why
from fairlead.model.node import Node
from fairlead.model.plan import Placement
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.rules import NO_RULES, PodTerm, Rules, Spread
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import QueueSettings, Settings

KEYS = ("zone", "rack", "kubernetes.io/hostname")
APPS = ("x", "y")
selectors = st.one_of(
    st.sampled_from(APPS).map(lambda app: (Expression("app", Operator.IN, (app,)),)),
    st.just((Expression("app", Operator.EXISTS),)),
    st.just((Expression("app", Operator.NOT_IN, ("x",)),)),
)
terms = st.builds(PodTerm, st.sampled_from(KEYS), selectors)
spreads = st.builds(Spread, st.sampled_from(KEYS), selectors, st.integers(1, 2), st.integers(1, 3))
some = st.lists(terms, max_size=1).map(tuple)
asks = st.one_of(
    st.just(NO_RULES),
    st.builds(
        Rules,
        affinity=some,
        anti_affinity=some,
        spread=st.lists(spreads, max_size=1).map(tuple),
    ),
)


class Role(NamedTuple):
    """`count` members that are alike."""

    count: int
    cpu: int
    app: str
    rules: Rules


class Step(NamedTuple):
    """A group comes or ends, a foreign pod comes or goes; `late` ones while a plan is being made."""

    verb: str
    roles: list[Role]
    minutes: int
    number: int
    late: bool
    layout: str


roles = st.builds(Role, st.integers(1, 4), st.integers(1, 3), st.sampled_from(("", *APPS)), asks)
steps = st.builds(
    Step,
    st.sampled_from(["submit", "submit", "submit", "finish", "foreign", "leave", "tick"]),
    st.lists(roles, min_size=1, max_size=2),
    st.integers(0, 3),
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from(["", "", "", "required-topology=zone", "required-topology=rack", "exclusive=true"]),
)
nodes = st.lists(
    st.tuples(st.integers(2, 6), st.sampled_from(["", "a", "b"]), st.sampled_from(["", "1", "2"])),
    min_size=1,
    max_size=6,
)


def node(i: int, cpu: int, zone: str, rack: str) -> Node:
    labels = {"zone": zone, "rack": rack, "kubernetes.io/hostname": f"n{i}"}
    amounts = (("cpu", cpu * 1000), ("pods", 110))
    return Node(f"uid-n{i}", f"n{i}", 1, amounts, labels={k: v for k, v in labels.items() if v})


class Story:
    """One engine, its answers carried out at once, and each start held against the filters."""

    def __init__(self, machines: list[Node], policy: str, match: str) -> None:
        queue = QueueSettings("default", policy=policy)
        self.engine = Engine(Settings(pace=0, queues=(queue,), match=match), RECONCILERS)
        self.machines, self.version, self.now = machines, 10, 1_000
        self.behind: list[ev.Event] = []
        sources = self.engine.state.settings.sources
        first = [ev.Tick(1_000), ev.StoreReady(1), *(ev.Synced(each) for each in sources)]
        self.tell(*first, *(ev.NodeSeen(each) for each in machines))

    @property
    def pods(self) -> dict[str, Pod]:
        return self.engine.state.pods

    def seen(self, pod: Pod, **fields: object) -> ev.PodSeen:
        self.version += 1
        return ev.PodSeen(structs.replace(pod, version=self.version, **fields))

    def tell(self, *events: ev.Event) -> None:
        """Let the engine learn, and everything it wants be done, until it wants nothing more."""
        todo = list(events)
        for _ in range(100):
            if not todo:
                self.nobody_forgotten()
                return
            commands = self.engine.learn(todo)
            assert check(self.engine.state) == []
            todo = [each for command in commands for each in self.do(command)]
        raise AssertionError("it never comes to rest")

    def do(self, command: cmd.Command) -> Iterable[ev.Event]:
        match command:
            case cmd.Propose():
                found = plan_now(command.snapshot)
                behind, self.behind = self.behind, []
                yield from behind
                yield ev.PlanProposed(found)
            case cmd.RecordAllocations():
                self.judge(command)
                yield ev.AllocationsRecorded(command.plan)
            case cmd.Bind():
                yield ev.Bound(command.pod, command.grant, command.node)
                running = PodPhase.RUNNING
                yield self.seen(self.pods[command.pod], node=command.node, phase=running, started=True)
            case _:
                return

    def judge(self, command: cmd.RecordAllocations) -> None:
        """Pod by pod, in the order in which they were placed."""
        state = self.engine.state
        granted = {place.pod for grant in command.grants for place in grant.placements}
        there = [pod for pod in state.pods.values() if pod.node]
        for uid, intent in state.intents.items():
            if uid not in granted:
                there.append(structs.replace(self.pods[uid], node=intent.node))
        for grant in command.grants:
            for place in grant.placements:
                pod = self.pods[place.pod]
                assert place.node in self.allowed(there, pod)
                there.append(structs.replace(pod, node=place.node))
            self.judge_layout(grant.group, grant.placements)

    def judge_layout(self, gid: str, placements: Iterable[Placement]) -> None:
        """Members are in one zone where that is asked for, and alone on their nodes where that is."""
        state = self.engine.state
        group = state.groups[gid]
        labels = {each.name: each.labels for each in self.machines}
        wanted = group.layout.required
        if wanted:
            there = {labels[place.node].get(wanted) for place in placements}
            assert len(there) == 1 and None not in there
        for place in placements:
            others = [uid for uid in state.inventory.holders(place.node) if uid != place.pod]
            shy = [uid for uid in (place.pod, *others) if self.is_alone(uid)]
            assert not (shy and others), (place, others)

    def is_alone(self, uid: str) -> bool:
        group = self.engine.state.groups.get(self.engine.state.group_of.get(uid, ""))
        return group is not None and group.layout.exclusive

    def allowed(self, there: list[Pod], pod: Pod) -> list[str]:
        """The nodes where the filters let the pod go."""
        inventory = Inventory()
        for each in self.machines:
            inventory.put(each)
        cluster = cluster_of(inventory, there)
        mask = feasible(cluster, verdicts(cluster, pod))
        return [name for name, row in inventory.rows.items() if mask[row]]

    def nobody_forgotten(self) -> None:
        """Whoever is first in line and alone has no node to go to, or it would be there.

        So it is with those behind who are held up by nobody, for those ahead wait for pods and not for room.
        """
        state = self.engine.state
        for _, _, request in state.line if state.ready else ():
            uids = [uid for task in request.tasks for uid in task.uids]
            if len(uids) == 1 and not request.layout.near and not self.is_alone(uids[0]):
                there = [pod for pod in state.pods.values() if pod.node and not pod.ended]
                taken = {pod.node for pod in there if self.is_alone(pod.uid)}
                assert set(self.allowed(there, self.pods[uids[0]])) <= taken
            if state.groups[request.group].reason.why is not Why.BLOCKED:
                return

    # -- what happens --------------------------------------------------------------------------------

    def carry_out(self, step: Step, i: int) -> None:
        act: Callable[[Step, int], list[ev.Event]] = getattr(self, step.verb)
        events = act(step, i)
        if step.late and step.verb in ("foreign", "leave"):
            self.behind += events
        else:
            self.tell(*events)

    def submit(self, step: Step, i: int) -> list[ev.Event]:
        size = sum(role.count for role in step.roles)
        made: list[ev.Event] = []
        for k, role in enumerate(step.roles):
            shape = Shape((("cpu", role.cpu * 1000), ("pods", 1)), rules=role.rules)
            labels = {"fairlead.dev/group": f"g{i}", "fairlead.dev/group-size": str(size)}
            labels |= {"app": role.app} if role.app else {}
            notes = {"fairlead.dev/duration": f"{step.minutes}m"} if step.minutes else {}
            if step.layout:
                notes["fairlead.dev/" + step.layout.split("=")[0]] = step.layout.split("=")[1]
            for n in range(role.count):
                name = f"g{i}-{k}-{n}"
                pod = Pod(name, "default", name, 0, shape, "fairlead", labels=labels, annotations=notes)
                made.append(self.seen(pod))
        return made

    def foreign(self, step: Step, i: int) -> list[ev.Event]:
        role, machine = step.roles[0], self.machines[step.number % len(self.machines)]
        shape = Shape((("pods", 1),), rules=role.rules)
        labels = {"app": role.app} if role.app else {}
        pod = Pod(f"f{i}", "default", f"f{i}", 0, shape, "other", labels=labels, node=machine.name)
        return [self.seen(pod, phase=PodPhase.RUNNING)]

    def leave(self, step: Step, _: int) -> list[ev.Event]:
        there = [pod for pod in self.pods.values() if pod.scheduler == "other"]
        self.version += 1
        return [ev.PodGone(there[step.number % len(there)].uid, self.version)] if there else []

    def finish(self, step: Step, _: int) -> list[ev.Event]:
        running = [g for g in self.engine.state.groups.values() if g.phase is Phase.RUNNING]
        if not running:
            return []
        pods = [self.pods[uid] for uid in running[step.number % len(running)].pods]
        return [self.seen(pod, phase=PodPhase.SUCCEEDED) for pod in pods]

    def tick(self, step: Step, _: int) -> list[ev.Event]:
        self.now += 60_000 * step.number
        return [ev.Tick(self.now)]


def story(
    machines: list[tuple[int, str, str]], happens: list[Step], policy: str = "fcfs", match: str = "first"
) -> Story:
    told = Story([node(i, *each) for i, each in enumerate(machines)], policy, match)
    for i, step in enumerate(happens):
        told.carry_out(step, i)
    return told


@settings(max_examples=400)
@given(
    nodes,
    st.lists(steps, min_size=3, max_size=14),
    st.sampled_from(["fcfs", "easy", "conservative"]),
    st.sampled_from(["first", "pack", "spread", "locality"]),
)
def test_F2_L11_I5_I8_no_pod_is_placed_where_a_filter_or_a_layout_forbids_it(
    machines: list[tuple[int, str, str]], happens: list[Step], policy: str, match: str
):
    story(machines, happens, policy, match)
