"""Policies of one's own in their process: live, in shadow, replayed, reloaded, and whatever they do wrong."""

import asyncio
import shutil
from pathlib import Path

import psutil
import pytest
import structlog
from msgspec import structs
from policy_support import ROOT, Inbox, Played, Told, busy, function, gone, under
from prometheus_client import CollectorRegistry

from fairlead.control import ACTING
from fairlead.core.engine import Engine
from fairlead.model.command import Propose
from fairlead.model.event import Configured, Event
from fairlead.model.record import Change
from fairlead.model.settings import PolicyFunction, Settings
from fairlead.runtime.checkpoint import Restored
from fairlead.runtime.config import Given, settings
from fairlead.runtime.planner import Planner
from fairlead.runtime.policies import MOST_FAILURES, Policies
from fairlead.runtime.policy_worker import load
from fairlead.runtime.reloading import Reloading
from fairlead.runtime.replay import Replay, Replayer
from fairlead.sim import play
from replay_support import recorded

SHORTEST = PolicyFunction("shortest.py:shortest", "live", 20_000, str(ROOT / "examples/policies"))
NEIGHBOURS = PolicyFunction("neighbours.py:neighbours", "live", 20_000, str(ROOT / "examples/policies"))
EVERYBODY = "return everybody(view)"


# -- live, in its process ----------------------------------------------------------------------------


def test_F19_live_in_its_own_process_is_as_in_the_simulation():
    workload = busy()
    expected = play.play(workload, under(SHORTEST), function=load(SHORTEST.name, SHORTEST.path))
    player = Played(workload, under(SHORTEST))
    found = player.played()
    assert found.rows == expected.rows
    assert player.calls("answered") == found.cycles == len(player.plans)
    assert {plan.source for plan in player.plans} == {"function:shortest.py:shortest"}
    built_in = play.play(workload, under(None))
    assert [row.start for row in built_in.rows] != [row.start for row in found.rows]


WRONG = {
    "raises": ("return view.waiting[0].nothing", "failed"),
    "returns no list": ("return 7", "failed"),
    "returns rubbish": ("return [1, 'x']", "failed"),
    "returns wrong fields": ("return [Start(5, ['a', 3.5])]", "failed"),
    "recurs for ever": ("return plan(view)", "failed"),
    "hangs": ("while True: pass", "late"),
    "is slow": ("time.sleep(3600)", "late"),
    "yields for ever": ("while True: yield Start('nobody')", "late"),
    "exits": ("sys.exit(0)", "crashed"),
    "ends its process": ("os._exit(3)", "crashed"),
    "breaks its memory": ("os.kill(os.getpid(), signal.SIGSEGV)", "crashed"),
}


@pytest.mark.parametrize("what", list(WRONG))
def test_F19_whatever_it_does_the_built_in_policies_go_on(tmp_path: Path, what: str):
    body, result = WRONG[what]
    own = function(tmp_path, body, limit=200 if result == "late" else 20_000)
    workload = busy(12)
    pids: dict[int, None] = {}
    announced: list[tuple[str, str]] = []
    player = Played(workload, under(own, "fcfs"))

    def note(player: Played) -> None:
        if player.policies is not None:
            player.policies.announce = lambda *said: announced.append(said)
        process = player.policies._process if player.policies else None
        if process is not None:
            pids[process.pid] = None

    player.each = note
    with structlog.testing.capture_logs() as lines:
        found = player.played()
    expected = play.play(workload, under(None, "fcfs"))
    assert [(r.start, r.nodes, r.outcome) for r in found.rows] == [
        (r.start, r.nodes, r.outcome) for r in expected.rows
    ]
    assert {plan.source for plan in player.plans} == {"fairlead"}
    assert player.calls(result) == MOST_FAILURES and player.calls("off") == found.cycles - MOST_FAILURES
    assert player.policies is not None
    assert "own.py:plan is switched off until the configuration is read anew" in player.policies.remark()
    assert [each["log_level"] for each in lines if "switched off" in each["event"]] == ["error"]
    assert announced == [("PolicyFunctionSwitchedOff", player.policies.remark())], "once, and in all words"
    assert player.registry.get_sample_value("fairlead_policy_function_on") == 0
    assert pids and all(gone(pid) for pid in pids)


def test_F19_one_bad_cycle_costs_that_cycle_alone(tmp_path: Path):
    flag = tmp_path / "once"
    once = f"if not os.path.exists({str(flag)!r}):\n    open({str(flag)!r}, 'w').close(); os._exit(1)"
    body = f"{once}\n{EVERYBODY}"
    player = Played(busy(12), under(function(tmp_path, body)))
    found = player.played()
    assert player.calls("crashed") == 1 and player.calls("answered") == found.cycles - 1
    assert player.plans[0].source == "fairlead" and player.plans[1].source == "function:own.py:plan"


def test_after_a_plan_of_the_built_in_policies_their_words_are_taken_back(tmp_path: Path):
    flag = tmp_path / "once"
    body = (
        f"if len(view.waiting) < 8 or os.path.exists({str(flag)!r}): return []\n"
        f"open({str(flag)!r}, 'w').close(); raise ValueError"
    )
    player = Played(busy(12), under(function(tmp_path, body), "fcfs"))
    found = player.played()
    waits = [row.reason for row in found.rows if row.start < 0]
    assert player.calls("failed") == 1 and 2 < len(waits) < 12
    assert set(waits) == {"the policy own.py:plan has not chosen it yet"}


def test_what_a_function_has_started_ends_with_it(tmp_path: Path):
    told = tmp_path / "pid"
    body = (
        "child = subprocess.Popen(['sleep', '1000'])\n"
        f"open({str(told)!r}, 'a').write(f'{{child.pid}} ')\n"
        "while True: pass"
    )
    Played(busy(3), under(function(tmp_path, body, limit=300))).played()
    pids = [int(each) for each in told.read_text().split()]
    assert pids and all(gone(pid) for pid in pids)


def test_a_function_may_print_and_read_without_harm(tmp_path: Path):
    body = f"print('hello' * 100_000)\nassert sys.stdin.read() == ''\n{EVERYBODY}"
    player = Played(busy(5), under(function(tmp_path, body)))
    cycles = player.played().cycles
    assert player.calls("answered") == cycles > 0


def test_over_placing_is_refused_and_the_rest_done(tmp_path: Path):
    body = "return [Start(w.id, (0,) * w.count) for w in view.waiting]"
    player = Played(busy(30), under(function(tmp_path, body)))
    found = player.played()
    assert [row.outcome for row in found.rows] == ["completed"] * 30
    assert max(sample.used for sample in found.samples) <= 32
    refusals = player.registry.get_sample_value("fairlead_policy_function_refusals_total")
    assert refusals and not player.calls("failed")


# -- shadow ------------------------------------------------------------------------------------------


def test_F19_shadow_changes_no_command():
    """Bit by bit, through a recorded world in which a lot happens."""
    batches, plain = recorded()
    own = structs.replace(SHORTEST, mode="shadow")
    alone, watched = Engine(plain, ACTING), Engine(structs.replace(plain, function=own), ACTING)
    registry = CollectorRegistry()

    async def through() -> int:
        policies, inbox = Policies(watched.state, registry), Inbox()
        planner = Planner(None, policies)
        running = asyncio.create_task(planner.run(inbox))
        plans = 0
        while not policies.ready:
            await asyncio.sleep(0.01)
        for batch in batches:
            expected, found = alone.learn(batch), watched.learn(batch)
            for a, b in zip(expected, found, strict=True):
                if isinstance(a, Propose) and isinstance(b, Propose):
                    assert (a.version, a.snapshot.waiting) == (b.version, b.snapshot.waiting)
                    planner.perform([b])
                    plans += (await inbox.plans.get()).source == "fairlead"
                    while policies._asking is not None:
                        await asyncio.sleep(0)
                else:
                    assert a == b
        running.cancel()
        await planner.close()
        return plans

    plans = asyncio.run(through())
    name = "fairlead_policy_function_calls_total"
    answered = registry.get_sample_value(name, {"mode": "shadow", "result": "answered"})
    assert answered == plans > 8


def test_F19_shadow_is_compared_and_recorded():
    workload = busy()
    rows: list[Change] = []
    player = Played(workload, under(structs.replace(SHORTEST, mode="shadow"), "fcfs"))

    def each(player: Played) -> None:
        assert player.policies is not None
        player.policies.rows = rows.append

    player.each, player.patient = each, True
    found = player.played()
    assert found.rows == play.play(workload, under(None, "fcfs")).rows
    assert {plan.source for plan in player.plans} == {"fairlead"}
    assert player.calls("answered") >= found.cycles - 1  # the last one may be on its way
    assert rows and {(row.object, row.event) for row in rows} == {("Plan", "Shadowed")}
    extras = [row.extra or {} for row in rows]
    assert any(each["only_function"] for each in extras) and any(each["same"] for each in extras)
    assert all(each["source"] == "function:shortest.py:shortest" for each in extras)
    total = player.registry.get_sample_value("fairlead_policy_function_starts_total", {"as_builtin": "same"})
    assert total == sum(each["same"] for each in extras)


def test_shadow_without_a_ledger_is_a_line_in_the_log():
    with structlog.testing.capture_logs() as lines:
        Played(busy(6), under(structs.replace(SHORTEST, mode="shadow"))).played()
    found = [line for line in lines if line["event"] == "shadow plan"]
    assert found and {"same", "other_nodes", "only_builtin", "only_function", "plan"} <= set(found[0])


def test_F19_a_shadow_that_is_busy_is_left_out_and_delays_nobody(tmp_path: Path):
    gate = tmp_path / "gate"
    body = f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\n{EVERYBODY}"
    player = Played(busy(12), under(function(tmp_path, body, mode="shadow")))
    found = player.played()  # it has not answered once: everything is done all the same
    assert found.rows == play.play(busy(12), under(None)).rows
    assert player.calls("busy") == found.cycles - 1 and not player.calls("answered")


# -- replay ------------------------------------------------------------------------------------------


def replayed(player: Played) -> Replay:
    assert isinstance(player.engine, Told)
    found = Replay()
    replayer = Replayer(found, Restored(Engine(player.settings, ACTING), {}), True)
    for number, batch in enumerate(player.engine.batches):
        replayer.batch(batch, str(number))
    replayer.close()
    return found


def test_F19_replay_of_a_live_function_asks_nobody_and_finds_no_difference(tmp_path: Path):
    """Every third cycle fails, so that plans of both are in the recording."""
    count = tmp_path / "count"
    body = (
        f"n = os.path.getsize({str(count)!r})\n"
        f"open({str(count)!r}, 'a').write('x')\n"
        f"if n % 3 == 2: raise ValueError('every third')\n{EVERYBODY}"
    )
    count.touch()
    player = Played(busy(), under(function(tmp_path, body)))
    player.played()
    shutil.rmtree(tmp_path)
    found = replayed(player)
    by_function = sum(plan.source != "fairlead" for plan in player.plans)
    assert (found.wrong, found.unanswered) == (0, 0)
    assert found.outside == by_function > 5 and found.plans == len(player.plans) - by_function > 5


# -- reload ------------------------------------------------------------------------------------------


class Events:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, events) -> None:  # type: ignore[no-untyped-def]
        self.events += events


CONFIG = "policy-function: {function: own.py:plan, mode: live, time-limit: 20s}\n"


def test_F19_reading_the_configuration_again_imports_the_function_again(tmp_path: Path):
    """Whether the settings have changed or not: a function switched off is back, its file is read anew."""
    function(tmp_path, "raise ValueError('not yet')")
    config = tmp_path / "fairlead.yaml"
    config.write_text(CONFIG)
    found = settings(Given(config=config))
    player = Played(busy(20), structs.replace(under(found.function, "fcfs")))
    pids: dict[int, None] = {}

    def each(player: Played) -> None:
        assert player.policies is not None
        if player.policies._process is not None:
            pids[player.policies._process.pid] = None
        if player.calls("off") == 1 and len(pids) == 1:
            function(tmp_path, EVERYBODY)
            inbox = Events()
            Reloading(Given(config=config), found, inbox, player.policies.again)()
            assert inbox.events == [] and player.policies.remark() == ""
            player.loop.create_task(player.settled())

    player.each = each
    result = player.played()
    assert player.calls("failed") == MOST_FAILURES and len(pids) == 2
    assert player.calls("answered") + player.calls("loading") == result.cycles - MOST_FAILURES - 1
    assert all(gone(pid) for pid in pids)


def test_F19_another_function_or_none_after_a_reload(tmp_path: Path):
    function(tmp_path, EVERYBODY)
    config = tmp_path / "fairlead.yaml"
    config.write_text(CONFIG)
    first, inbox, told = settings(Given(config=config)), Events(), list[Settings]()
    reload = Reloading(Given(config=config), first, inbox, told.append)
    config.write_text(CONFIG.replace("live", "shadow"))
    reload()
    assert [e.settings.function.mode for e in inbox.events if isinstance(e, Configured)] == ["shadow"]  # type: ignore[union-attr]
    config.write_text("policy-function: {function: nothing}")
    reload()
    assert len(told) == len(inbox.events) == 1
    config.write_text("pace: 50ms")
    reload()
    assert told[-1].function is None and len(inbox.events) == 2

    async def turning() -> None:
        engine = Engine(first)
        policies = Policies(engine.state, CollectorRegistry())
        policies.begin()
        while not policies.ready:
            await asyncio.sleep(0.01)
        old = policies._process
        assert old is not None and psutil.pid_exists(pid := old.pid)
        policies.again(told[-1])
        while policies._processes:
            await asyncio.sleep(0.01)
        assert gone(pid) and not policies.ready
        await policies.close()

    asyncio.run(turning())
