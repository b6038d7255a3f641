"""What a second reading of the ladder, of races and of set-asides has found: worlds that went wrong."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from pathlib import Path

import msgspec
from asking_support import amounts, gang, node
from msgspec import structs
from test_races import evicted, foreign, job, over, world_of

from fairlead import app
from fairlead.control.ladder import MAX_EVICTIONS
from fairlead.core.encounters import MOMENT
from fairlead.core.invariants import check
from fairlead.kube.lease import Elector, Lease, Spec, Timing
from fairlead.kube.port import KubePort
from fairlead.kube.translate import PODS
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.command import REVOKED
from fairlead.model.event import BindError
from fairlead.model.group import Phase
from fairlead.model.pod import Pod, Shape
from fairlead.model.settings import Settings
from fairlead.sim.faults import Faults
from fairlead.sim.world import World
from fairlead.wire import objects
from fairlead.wire.structs import WireOwner
from kube_fake import FakeApi, ListInbox, answers
from kube_fake import pod as wire_pod


class Unsteady(Faults):
    """One member is bound late, one is never heard of, one is refused; later one of them is late again."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}

    def bind(self, bind: cmd.Bind) -> BindError | None:
        number = self.asked[bind.pod] = self.asked.get(bind.pod, 0) + 1
        errors = {"a-0": [BindError.UNKNOWN], "a-2": [BindError.REFUSED]}
        errors["a-1"] = [BindError.UNKNOWN, BindError.UNKNOWN, BindError.REFUSED]
        return (errors.get(bind.pod, []) + [None] * number)[number - 1]

    def unknown_took_effect(self, bind: cmd.Bind) -> bool:
        return bind.pod == "a-0" or self.asked[bind.pod] == 2

    def unknown_delay(self, bind: cmd.Bind) -> int:
        return 1 if bind.pod == "a-0" else 8_000


def test_a_grant_that_was_revoked_is_never_bound_again() -> None:
    """Step 1 had revoked it when a late bind of another member made it step 2: it joins by a new grant."""
    world = World(faults=Unsteady())
    sent: list[tuple[str, str | None]] = []
    carry_out: Callable[[cmd.Bind], None] = world._bind

    def noted(bind: cmd.Bind) -> None:
        sent.append((bind.grant, world.pods[bind.pod].annotations.get(REVOKED)))
        carry_out(bind)

    world._bind = noted  # type: ignore[method-assign]
    for i in range(3):
        world.node(node(f"n{i}", cpu=1))
    gang(world, "a", 3, cpu=1)
    world.run(500)
    gang(world, "b", 1, cpu=1)
    world.run(60_000)
    assert any(revoked for _, revoked in sent), "nothing was revoked: the test misses its point"
    assert not [grant for grant, revoked in sent if grant == revoked]
    assert over(world) == [] and check(world.engine.state) == []


def test_what_was_acknowledged_before_a_backup_was_restored_is_bound_again() -> None:
    world = World()
    world.node(node("n0", cpu=1))
    bind, lost = world._bind_here, []
    world._bind_here = lambda each: lost.append(each.pod)  # type: ignore[method-assign,func-returns-value]
    gang(world, "a", 1, cpu=1)
    world.run(100)
    world._bind_here = bind  # type: ignore[method-assign]
    assert lost == ["a-0"] and world.engine.state.intents["a-0"].acknowledged
    world.tell(ev.Rewound("Pod"), *world.listing("pods"))
    world.run(60_000)
    assert world.pods["a-0"].node == "n0" and not world.engine.state.intents


def test_a_backup_restored_with_higher_versions_is_noticed_by_the_list() -> None:
    """As `etcdutl snapshot restore --bump-revision` does: the list is newer than all, what is in it older."""
    world = World()
    world.node(node("n0", cpu=1))
    gang(world, "a", 1, cpu=1)
    old = world.pods["a-0"]
    world.run(1_000)
    assert world.engine.state.pods["a-0"].node == "n0"
    world.pods["a-0"] = old
    world.version += 1_000_000
    world.tell(*world.listing("pods"))
    world.run(1)
    assert world.engine.state.pods["a-0"] == old and check(world.engine.state) == []
    world.run(60_000)
    assert world.pods["a-0"].node == "n0"


def test_older_news_that_a_list_does_not_confirm_is_none() -> None:
    world = World()
    world.node(node("n0", cpu=1))
    gang(world, "a", 1, cpu=1)
    old = world.pods["a-0"]
    world.run(1_000)
    world.tell(ev.PodSeen(old), *world.listing("pods"))  # late, and then the truth
    world.run(1)
    world.tell(*world.listing("pods"), ev.PodSeen(old))
    world.tell(ev.PodSeen(old), ev.Listed("Pod", ("a-0",), old.version))  # a list of that time
    world.run(1)
    assert world.engine.state.pods["a-0"].node == "n0"


def test_D4_who_has_been_there_for_long_does_not_give_way_for_one_that_is_not_there_yet() -> None:
    world = world_of(nodes=1, cpu=4)
    job(world, "old", 1, cpu=3)
    world.run(MOMENT * 20)
    job(world, "new", 1, cpu=1)
    world.run(2)
    assert "new-0" in world.engine.state.intents
    foreign(world, "other", "n0", cpu=2)
    world.run(60_000)
    assert evicted(world) in ([], ["new-0"]) and world.pods["old-0"].node == "n0"


def test_D4_who_is_to_give_way_is_not_forgotten_while_that_fails() -> None:
    world = World()
    world.node(node("n0", cpu=4))
    evict = world._evict
    world._evict = lambda each: world.tell(ev.Evicted(each.pod.uid, False, "403"))  # type: ignore[method-assign]
    job(world, "a", 1)
    world.run(100)
    foreign(world, "other", "n0")
    world.run(MOMENT + 5_000)
    world.node(node("n1", cpu=4))
    foreign(world, "elsewhere", "n1")
    world._evict = evict  # type: ignore[method-assign]
    world.run(world.settings.request_timeout + 1_000)
    assert over(world) == [] and "a-0" not in world.pods


def test_D4_all_members_of_a_gang_can_give_way_at_one_time() -> None:
    world = world_of(nodes=MAX_EVICTIONS + 2)
    job(world, "a", MAX_EVICTIONS + 2)
    world.run(100)
    for i in range(MAX_EVICTIONS + 2):
        foreign(world, f"other-{i}", f"n{i}")
    world.run(30_000)
    assert over(world) == [] and len(evicted(world)) == MAX_EVICTIONS + 2


class Busy(Faults):
    """One member is bound some seconds after the others."""

    def bind(self, bind: cmd.Bind) -> BindError | None:
        self.asked = getattr(self, "asked", 0) + (bind.pod == "a-1")
        return BindError.BUSY if bind.pod == "a-1" and self.asked < 4 else None


def test_D4_a_group_that_is_crowded_before_it_is_whole_stays_flagged() -> None:
    world = World(faults=Busy())
    for i in range(2):
        world.node(node(f"n{i}", cpu=4))
    gang(world, "a", 2, cpu=4)
    world.run(50)
    foreign(world, "other", world.pods["a-0"].node, cpu=1)
    world.run(30_000)
    (group,) = world.engine.state.groups.values()
    assert group.phase is Phase.RUNNING and group.broken and over(world)
    world.pod_gone("other")
    world.run(1_000)
    assert not (group.broken or group.crowded or over(world))


class Slow(Faults):
    """Pods take their time to go: the Job controller counts them before they are gone."""

    def eviction_takes(self, _: cmd.Evict) -> int:
        return 3_000


def test_D4_B12_races_on_many_nodes_at_once_use_up_no_backoff_limit() -> None:
    world = World(faults=Slow())
    for i in range(3):
        world.node(node(f"n{i}", cpu=4))
    job(world, "a", 3)
    world.owner(structs.replace(world.owners["job-a"], retries=1))
    world.run(100)
    for i in range(3):
        foreign(world, f"other-{i}", f"n{i}")
    world.run(2_000)
    assert evicted(world) == ["a-0"]
    world.owner(structs.replace(world.owners["job-a"], retries=0))
    world.run(60_000)
    assert evicted(world) == ["a-0"]


def test_B12_a_failure_that_the_job_controller_is_about_to_count_counts() -> None:
    text = b"""{"metadata": {"uid": "u", "name": "j", "namespace": "a", "resourceVersion": "1"},
        "spec": {"backoffLimit": 3},
        "status": {"failed": 1, "uncountedTerminatedPods": {"succeeded": ["x"], "failed": ["y"]}}}"""
    assert objects.owner("Job", msgspec.json.decode(text, type=WireOwner)).retries == 1


def test_one_that_cannot_be_read_at_a_start_keeps_nobody_from_starting() -> None:
    world = world_of()
    gang(world, "before", 2)
    bad = Pod("bad", "default", "bad", 0, Shape(amounts(cpu=1)), "fairlead")
    world.pod(structs.replace(bad, labels=[]))
    world.run()
    world.crash()
    gang(world, "after", 2)
    world.store_down()
    world.start()
    world.run(10)
    assert len(world.engine.state.early) == 5 and not world.engine.state.synced
    world.store_up()  # the store answers last, as it does
    world.run()
    state = world.engine.state
    assert state.synced and list(state.poisoned) == ["bad"]
    assert {g.name: g.phase for g in state.groups.values()} == {
        "before": Phase.RUNNING,
        "after": Phase.RUNNING,
    }


# -- a standby whose watch is late -------------------------------------------------------------------


class Alone:
    """A Lease that nobody else wants."""

    async def get(self, timeout: float) -> Lease | None:
        assert timeout > 0

    async def create(self, spec: Spec, timeout: float) -> Lease:
        assert timeout > 0
        return Lease({}, spec)

    async def update(self, lease: Lease, timeout: float) -> Lease:
        assert timeout > 0
        return lease


async def test_RA3_a_new_leader_lists_what_its_watch_may_not_have_told() -> None:
    """The old leader's start is seen bound and settled: of it only the cluster tells."""
    async with FakeApi() as api:
        api.pages = [[wire_pod("a", nodeName="n0")], [wire_pod("b")]]
        port = KubePort(api.access, kinds=(PODS,))
        told = await port.catch_up()
        await port.close()
    assert [each.pod.node for each in told[:2] if isinstance(each, ev.PodSeen)] == ["n0", ""]
    assert told[2] == ev.Listed("Pod", ("uid-default-a", "uid-default-b"), 500)


async def test_RA3_it_connects_to_the_database_only_then(tmp_path: Path) -> None:
    async with FakeApi() as api:
        api.fault("GET", "/nodes", answers(500))
        elector = Elector(Alone(), Timing(duration=30.0))
        life = app.Life(app.Options(database_url="postgresql://x"), Settings(), api.access, tmp_path, elector)
        life._inbox = inbox = ListInbox()
        waits = asyncio.create_task(life._elected(elector))
        await asyncio.sleep(0)
        assert not api.requests  # a standby asks for nothing
        await elector.acquire()
        async with asyncio.timeout(60):
            await waits
            listed = [each.kind for each in inbox.events if isinstance(each, ev.Listed)]
            assert sorted(listed) == ["Node", "Pod"]
            seen = len(api.requests)
            await life._elected(elector)  # for another connection of the same life
        assert len(api.requests) == seen
        await life.kube.close()


async def test_RA3_nothing_is_left_of_a_life_that_is_over(tmp_path: Path) -> None:
    async with FakeApi() as api:
        elector = Elector(Alone(), Timing())
        options = app.Options(database_url="postgresql://127.0.0.1:1/x")
        old: list[weakref.ref[object]] = []
        for _ in range(3):
            life = app.Life(options, Settings(), api.access, tmp_path, elector)
            old.append(weakref.ref(life.engine))
            running = asyncio.create_task(life.run(None, lambda: None))
            async with asyncio.timeout(60):
                while not life.engine.state.version:
                    await asyncio.sleep(0.01)
                life.store.fenced.set()  # another one leads
                assert "another one writes" in await running
        del life, running
        gone = [each() is None for each in old]
    gc.unfreeze()
    assert gone == [True, True, False]  # signals still go to the last one
