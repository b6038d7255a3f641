"""What a policy function sees, what becomes of what it says, how it is found, and simulations with it."""

from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from policy_support import ROOT, busy, function, under
from typer.testing import CliRunner

from fairlead.api.source import EngineSource
from fairlead.cli import main
from fairlead.cli.errors import CliError
from fairlead.core.engine import Engine
from fairlead.model import event as ev
from fairlead.model.event import PlanProposed
from fairlead.model.group import Why
from fairlead.model.outside import Reserve, Start, View, Wait
from fairlead.model.plan import Placement, Plan
from fairlead.model.plan import Reject as Rejected
from fairlead.model.plan import Start as Granted
from fairlead.model.plan import Wait as Waits
from fairlead.model.settings import PolicyFunction, Settings
from fairlead.runtime import policy_process
from fairlead.runtime.config import Given, settings
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.policy_pipe import AnswerError, pack, unpack
from fairlead.runtime.policy_worker import load
from fairlead.sim import inputs, play
from fairlead.sim.play import Player

SHORTEST = PolicyFunction("shortest.py:shortest", "live", 20_000, str(ROOT / "examples/policies"))
NEIGHBOURS = PolicyFunction("neighbours.py:neighbours", "live", 20_000, str(ROOT / "examples/policies"))
EVERYBODY = "return everybody(view)"


# -- what it sees ------------------------------------------------------------------------------------

CLUSTER = """
{kind: List, apiVersion: v1, items: [
  {kind: Node, metadata: {name: a, labels: {zone: x, topology.kubernetes.io/rack: r1}},
   status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}, conditions: [{type: Ready, status: "True"}]}},
  {kind: Node, metadata: {name: b, labels: {zone: y, topology.kubernetes.io/rack: r2}},
   status: {allocatable: {cpu: "2", memory: 8Gi, pods: "10"}, conditions: [{type: Ready, status: "True"}]}}]}
---
"""


def pod(
    name: str, *, cpu: int = 1, size: int = 1, app: str = "", run: int = 60, spec: str = "", note: str = ""
) -> str:
    """A group of so many single pods."""
    text = ""
    for i in range(size):
        text += f"""
kind: Pod
apiVersion: v1
metadata:
  name: {name}-{i}
  namespace: lab
  labels: {{fairlead.dev/group: {name}, fairlead.dev/group-size: "{size}", app: "{app}"}}
  annotations: {{fairlead.dev/duration: {run}s, fairlead.dev/run-time: {run}s{note}}}
spec:
  containers: [{{name: c, image: i, resources: {{requests: {{cpu: "{cpu}"}}}}}}]
  {spec}
---
"""
    return text


def played(tmp_path: Path, text: str, plan, policy: str = "easy"):  # type: ignore[no-untyped-def]
    """A player whose function is `plan`, called in this process; to be run."""
    path = tmp_path / "work.yaml"
    path.write_text(CLUSTER + text, encoding="utf-8")
    workload = inputs.load(path)
    return Player(workload, under(PolicyFunction("here:plan", "live"), policy), plan)


def test_F19_a_function_sees_nodes_the_queue_and_what_runs(tmp_path: Path):
    views: list[View] = []

    def plan(view: View) -> list[object]:
        views.append(view)
        return [Start(w.id, optional=True) for w in view.waiting]

    near = "nodeSelector: {zone: y}"
    text = pod("one", cpu=3, run=100) + pod("two", size=2, app="io", spec=near, run=30) + pod("late", cpu=4)
    played(tmp_path, text, plan).run()
    first = views[0]
    assert first.nodes.names == ("a", "b")
    assert [labels["zone"] for labels in first.nodes.labels] == ["x", "y"]
    cpu, memory = (first.nodes.resources.index(name) for name in ("cpu", "memory"))
    assert first.nodes.capacity[cpu].tolist() == first.free[cpu].tolist() == [4000, 2000]
    assert first.nodes.capacity[memory].tolist() == [8 << 30] * 2
    one, two, late = first.waiting
    assert (one.namespace, one.name, one.count, one.walltime, one.joins) == ("lab", "one", 1, 100_000, False)
    assert two.labels["app"] == "io" and two.count == 2
    assert two.tasks[0].amounts[cpu] == 1000
    assert first.feasible[one.tasks[0].feasible].tolist() == [True, True]
    assert first.feasible[two.tasks[0].feasible].tolist() == [False, True]
    later = next(view for view in views if view.running)
    (running,) = later.running
    assert (running.name, running.until - running.started) == ("one", 100_000)
    assert running.held[0].nodes == (0,) and running.held[0].amounts[cpu] == 3000
    assert later.free[cpu].tolist() == [1000, 2000]
    with pytest.raises(ValueError):
        first.free[0, 0] = 1
    assert later.nodes is first.nodes and later.waiting[0] is late
    again = unpack(pack(later, None), None)
    assert again.waiting == later.waiting and again.running == later.running
    assert np.array_equal(again.free, later.free) and np.array_equal(again.feasible, later.feasible)


# -- what it says ------------------------------------------------------------------------------------


def refused(tmp_path: Path, text: str, plan) -> list[str]:  # type: ignore[no-untyped-def]
    """What became of the decisions of the first cycle that cannot be done."""
    player = played(tmp_path, text, lambda view: plan(view) if view.now == play.ORIGIN else [])
    player.run()
    return [each.partition(": ")[2] for each in player.refused]


def test_F19_decisions_that_cannot_be_done_are_refused_each_with_its_reason(tmp_path: Path):
    def plan(view: View) -> list[object]:
        big, wide, other, last = view.waiting
        return [
            Start("nobody"),
            Start(big.id, (1,)),
            Start(big.id, (0,)),
            Start(wide.id, (0,)),
            Start(other.id, (0, 5)),
            Start(last.id, ("elsewhere",)),
        ]

    text = pod("big", cpu=3) + pod("wide", size=2) + pod("other", size=2) + pod("last")
    assert refused(tmp_path, text, plan) == [
        "no such group waits",
        "b has cpu=2 left and it needs cpu=3 there",
        "was decided on already",
        "it has 2 pods and 1 nodes were named",
        "there is no node 5: they are numbered 0 to 1",
        "there is no node 'elsewhere'",
    ]


def test_F19_all_that_a_node_may_be_forbidden_for_is_looked_at(tmp_path: Path):
    apart = (
        "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: io}}}]}}"
    )
    rack = ", fairlead.dev/required-topology: rack"

    def plan(view: View) -> list[object]:
        zone, alone, near, over, past = view.waiting
        return [
            Start(zone.id, ("a",)),
            Start(alone.id, ("a", "a")),
            Start(near.id, ("a", "b")),
            Start(over.id, ("a", "a", "a", "a", "a")),
            Reserve(past.id, view.now),
        ]

    text = (
        pod("zone", spec="nodeSelector: {zone: y}")
        + pod("alone", size=2, app="io", spec=apart)
        + pod("near", size=2, note=rack)
        + pod("over", size=5)
        + pod("past")
    )
    said = refused(tmp_path, text, plan)
    assert said[0] == "its selector, affinity, tolerations or the node forbid a"
    assert said[1].startswith("it may not be on a: 1 node(s) didn't match pod anti-affinity")
    assert said[2] == "its pods have to lie within one topology.kubernetes.io/rack"
    assert said[3] == "a has cpu=4 left and it needs cpu=5 there"
    assert said[4] == f"{play.ORIGIN} is not later than now ({play.ORIGIN})"


def test_F19_starts_reservations_and_words_are_what_people_see(tmp_path: Path):
    states = {}

    def plan(view: View) -> list[object]:
        states.update({w.name: player.engine.state.groups[w.id] for w in view.waiting})
        if view.now > play.ORIGIN:
            return [Start(w.id, ("a",)) for w in view.waiting if w.name == "later"]
        first, later, never, _, impossible = view.waiting
        return [
            Start(first.id, ("b", "a")),
            Reserve(later.id, view.now + 5_000, ("a",), "after lunch"),
            Wait(never.id, "because I say so"),
            Start(impossible.id, ("a",)),
        ]

    text = pod("first", size=2, run=900) + pod("later") + pod("never") + pod("last") + pod("huge", cpu=64)
    player = played(tmp_path, text, plan)
    rows = {row.job_id.rpartition("/")[2]: row for row in player.run().rows}
    assert (rows["first"].start, rows["first"].nodes) == (0, ("b", "a"))
    assert (rows["later"].promised, rows["later"].start) == (5_000, 5_000)
    assert states["never"].reason == structs.replace(
        states["never"].reason, why=Why.QUEUED, text="because I say so"
    )
    assert states["last"].reason.text == "the policy here:plan has not chosen it yet"
    assert rows["huge"].outcome == "rejected"


def test_a_refused_start_says_why_in_explain_and_is_not_asked_for_in_a_loop(tmp_path: Path):
    text = pod("one", size=7)  # more than there is room for: 6 at once

    def plan(view: View) -> list[object]:
        return [Start(w.id) for w in view.waiting]

    player = played(tmp_path, text + pod("two", cpu=4), plan)
    first = player.run()
    waits = [row for row in first.rows if row.start < 0]
    assert [row.outcome for row in waits] == ["rejected"]
    assert first.cycles < 10


def test_F19_what_it_promises_no_more_is_promised_no_more(tmp_path: Path):
    def plan(view: View) -> list[object]:
        waits = [w for w in view.waiting if w.name == "b"]
        if view.now == play.ORIGIN:
            return [Start(view.waiting[0].id), Reserve(waits[0].id, view.now + 10_000)]
        return []

    player = played(tmp_path, pod("a", cpu=4, run=5) + pod("b", cpu=4), plan)
    player.run()
    assert not player.engine.state.promises
    (group,) = [g for g in player.engine.state.groups.values() if g.name == "b"]
    assert group.estimate == 0 and group.promised


def test_who_joins_a_running_group_is_decided_on_like_all_others(tmp_path: Path):
    """A pod in the place of a lost one has an id of its own, and its group's walltime."""
    seen: list[tuple[str, bool]] = []

    def plan(view: View) -> list[object]:
        seen.extend((w.name, w.joins) for w in view.waiting)
        return [Start(w.id, ("b",) * w.count if w.joins else ()) for w in view.waiting]

    player = played(tmp_path, pod("team", size=2, run=900), plan)
    player._boot()
    events = [*player._submit(0)]
    player._settle([*events])
    lost = next(iter(player.pods.values()))
    new = structs.replace(lost, uid="new", version=9, node="", phase="Pending", started=False)
    player.pods["new"], player._index["new"] = new, 0
    player.now += 1000
    player._settle([ev.Tick(player.now), ev.PodGone(lost.uid, 8), ev.PodSeen(new)])
    assert seen == [("team", False), ("team", True)]
    assert player.pods["new"].node == "b" and not player.refused


def test_a_late_answer_is_no_plan_from_outside(tmp_path: Path):
    """It was asked for once, and what it was asked about is past."""
    player = played(tmp_path, pod("a"), lambda _: [])
    player.run()
    engine = player.engine
    (group,) = engine.state.groups.values()
    start = Granted(group.id, (Placement(next(iter(group.pods)), "a"),))
    assert engine.learn([PlanProposed(Plan("1-1", 1, play.ORIGIN, "function:here:plan", (start,)))]) == []
    assert engine.learn([PlanProposed(Plan("x", 0, play.ORIGIN, "somebody", (start,)))]) != []


async def test_that_it_is_switched_off_is_told_with_every_answer():
    source = EngineSource(Engine(Settings(sources=())).state)
    source.remark = lambda: "policy function x is switched off"
    page = await source.queue(ended=False, namespace="", limit=1, offset=0)
    assert "policy function x is switched off" in page.warnings


# -- mistakes of users -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{function: plan}", "function: 'plan' is neither module:function nor file.py:function"),
        ("{function: a:b, mode: maybe}", "mode: 'maybe' is unknown; choose one of: shadow, live"),
        ("{function: a:b, time-limit: 1h}", "time-limit: '1h' is more than 30s"),
        ("{function: a:b, time-limit: 0}", "time-limit: 0 is no duration above zero such as"),
        ("{function: a:b, path: nowhere}", "path: there is no folder"),
        ("{mode: live}", "the key 'function' is missing"),
        ("{function: a:b, when: now}", "unknown key 'when'; known here: function, mode, time-limit, path"),
    ],
)
def test_mistakes_in_the_file_are_told_in_a_line(tmp_path: Path, text: str, said: str):
    path = tmp_path / "fairlead.yaml"
    path.write_text(f"policy-function: {text}\n")
    with pytest.raises(ConfigError) as error:
        settings(Given(config=path))
    assert said in str(error.value) and f"{path}:1: policy-function" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "source", "said"),
    [
        ("nowhere:plan", "", "there is no module nowhere in "),
        ("nowhere.py:plan", "", "there is no file "),
        ("own.py:plan", "def other(view): return []", "own.py has no function plan; it has other"),
        ("own.py:plan", "plan = 7", "plan is a int, not a function"),
        ("own.py:plan", "1/0", "importing it failed: ZeroDivisionError: division by zero (own.py:1)"),
        ("own.py:plan", "import nothing_of_the_kind", "importing it failed: ModuleNotFoundError: No module"),
        ("own.py:plan", "def plan(:", "importing it failed: SyntaxError: invalid syntax"),
        ("own.py:plan", "raise SystemExit(3)", "importing it failed: SystemExit: 3 (own.py:1)"),
        ("own.py:plan", "import os; os._exit(3)", "importing it ended the process (with exit code 3)"),
        ("own.py:plan", "import os; os.kill(os.getpid(), 11)", "importing it ended the process (by SIGSEGV)"),
    ],
)
def test_a_function_that_cannot_be_had_is_told_at_start_in_a_line(
    tmp_path: Path, name: str, source: str, said: str
):
    if source:
        (tmp_path / "own.py").write_text(source)
    with pytest.raises(ConfigError) as error:
        policy_process.check(PolicyFunction(name, path=str(tmp_path)))
    assert f"policy function {name}: {said}" in str(error.value) and "\n" not in str(error.value)


def test_the_scheduler_does_not_start_without_its_function(tmp_path: Path):
    config = tmp_path / "fairlead.yaml"
    config.write_text("policy-function: {function: nowhere:plan}\n")
    found = CliRunner().invoke(main.app, ["scheduler", "--config", str(config), "--data-dir", str(tmp_path)])
    assert isinstance(found.exception, ConfigError) and "there is no module nowhere" in str(found.exception)


# -- the simulator -----------------------------------------------------------------------------------


def simulate(*words: str) -> str:
    found = CliRunner().invoke(
        main.app, ["simulate", str(ROOT / "tests/data/sim/busy.csv"), "--procs", "32", *words]
    )
    if isinstance(found.exception, Exception):
        raise found.exception
    return found.output


def test_F19_RA7_the_simulator_compares_a_function_with_the_built_in_policies():
    own = str(ROOT / "examples/policies/shortest.py:shortest")
    said = simulate("--limit", "60", "--policy-function", own, "--compare", "fcfs,easy")
    head = next(line for line in said.splitlines() if line.startswith("measure"))
    assert head.split() == ["measure", "fcfs", "easy", "shortest"]
    one, again = (simulate("--limit", "60", "--policy-function", own, "-o", "json") for _ in range(2))
    cut = [text[text.index("{") : text.rindex("}") + 1] for text in (one, again)]
    assert cut[0] == cut[1] and '"policy": "shortest"' in cut[0]


def test_a_function_that_fails_in_the_simulator_is_told_with_its_place(tmp_path: Path):
    own = function(tmp_path, "return 1 / 0")
    with pytest.raises(
        CliError, match=r"policy function plan: ZeroDivisionError: division by zero \(own.py:\d+\)"
    ):
        simulate("--policy-function", f"{own.path}/own.py:plan")
    with pytest.raises(CliError, match="write it as FILE"):
        simulate("--policy-function", "plan")
    with pytest.raises(CliError, match="takes the place of --policy"):
        simulate("--policy-function", "a:b", "--policy", "easy")
    function(tmp_path, "return [Start('nobody')]")
    assert "decisions refused, the first:\n  nobody: no such group waits" in simulate(
        "--limit", "3", "--policy-function", f"{own.path}/own.py:plan"
    )
    with pytest.raises(AnswerError):
        play.play(busy(2), under(own), function=lambda _: 3)  # type: ignore[arg-type, return-value]


# -- co-location -------------------------------------------------------------------------------------


def test_F19_RA7_co_location_by_a_function_keeps_those_apart_that_slow_each_other_down(tmp_path: Path):
    text = "".join(pod(f"{app}{i}", app=app, run=100) for i in range(2) for app in ("io", "cpu", "net"))
    path = tmp_path / "work.yaml"
    path.write_text(CLUSTER + text, encoding="utf-8")
    workload = inputs.load(path)

    def together(rows) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
        """Pairs of I/O-bound jobs that ran at the same time on one node."""
        io = [row for row in rows if row.job_id.rpartition("/")[2].startswith("io")]
        return [
            (a.job_id, b.job_id)
            for i, a in enumerate(io)
            for b in io[i + 1 :]
            if set(a.nodes) & set(b.nodes) and a.start < b.end and b.start < a.end
        ]

    built_in = play.play(workload, under(None))
    own = play.play(workload, under(NEIGHBOURS), function=load(NEIGHBOURS.name, NEIGHBOURS.path))
    assert together(built_in.rows) and not together(own.rows)
    assert [row.outcome for row in own.rows] == ["completed"] * 6 and not own.refused


def test_impossible_groups_are_told_at_once_whatever_the_function_says(tmp_path: Path):
    plans: list[Plan] = []
    player = played(tmp_path, pod("huge", cpu=99) + pod("fine"), lambda _: [])
    note = player._note
    player._note = lambda plan: (plans.append(plan), note(plan))[1]  # type: ignore[method-assign]
    player.run()
    kinds = [type(each) for each in plans[0].decisions]
    assert kinds == [Rejected, Waits]
