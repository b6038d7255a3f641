"""Promises over time, in drawn worlds: who is never delayed, what a cancel leaves, what a restart keeps."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yard import CALM, ENDLESS, MACHINES, MIXED, ONE, QUIET, ROUGH, SLOTS, Act, Judged, Yard, acts, queues
from yard_rest import at_rest, never_later, play
from yard_rules import Case, plan_holds

REPLANNED = ("easy", "hybrid:2", "hybrid:0", "replan")
PROMISING = (*REPLANNED, "conservative")


@pytest.mark.parametrize("machine", [ONE, SLOTS])
@settings(max_examples=50)
@given(story=acts(CALM) | acts(ENDLESS))
def test_F8_conservative_never_postpones_a_promise(machine: str, story: list[Act]):
    never_later(play(Yard(machine, *queues("conservative")), story))


@settings(max_examples=50)
@given(story=acts(CALM))
def test_F8_conservative_never_postpones_a_promise_on_unlike_nodes(story: list[Act]):
    never_later(play(Yard(MIXED, *queues("conservative")), story))


def test_who_is_urgent_takes_no_node_that_is_promised_for_the_same_instant():
    yard = Yard(MIXED, *queues("conservative"), judge=plan_holds)
    yard.submit(2, 3, 3, cpu=3)
    yard.settle()
    yard.submit(1, 1, 1, cpu=3, gpu=1, zone="a")  # only n0 has both
    yard.settle()
    yard.submit(2, 13, 13, cpu=3, priority=1)  # has room on n1 and n2, and on n0 and n1
    yard.settle()
    assert yard.group("g2").estimate == yard.group("g3").estimate == yard.now + 3_000
    yard.pause(3)
    never_later(yard)


class Foremost:
    """Judges plans: the first in the queue is never promised a later start than before."""

    def __init__(self) -> None:
        self.best: dict[str, int] = {}

    def __call__(self, judged: Judged) -> None:
        plan_holds(judged)
        case = Case(judged)
        now = judged.snapshot.now
        for gid in case.started:
            assert now <= self.best.get(gid, now), f"{gid} was to start at {self.best[gid]}"
        waiting = [r for r in case.requests.values() if r.group not in {*case.started, *case.refused}]
        first = min(waiting, key=lambda r: r.order, default=None)
        if first is not None and first.group in case.promises:
            gid, start = first.group, case.promises[first.group]
            assert start <= self.best.get(gid, start), f"{gid} is delayed until {start}"
            self.best[gid] = start


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("policy", REPLANNED)
@settings(max_examples=30)
@given(story=acts(CALM))
def test_F8_nobody_delays_the_first_of_the_queue(policy: str, machine: str, story: list[Act]):
    play(Yard(machine, *queues(policy), judge=Foremost()), story)


@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=30)
@given(story=acts(CALM))
def test_F8_easy_never_postpones_a_promise(machine: str, story: list[Act]):
    never_later(play(Yard(machine, *queues("easy")), story))


# -- a promise is given up ---------------------------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("policy", PROMISING)
@settings(max_examples=30)
@given(story=acts(("submit",), 16), which=st.integers(0, 20))
def test_F11_a_cancelled_promise_is_gone_at_once_and_later_ones_move_up(
    policy: str, machine: str, story: list[Act], which: int
):
    yard = play(Yard(machine, *queues(policy), judge=plan_holds), story)
    before, state = yard.promised(), yard.engine.state
    if not before:
        return
    gone = list(before)[which % len(before)]
    orders = {gid: asked[0].order for gid, asked in state.waiting.items()}
    yard.cancel(state.groups[gone].name)
    yard.settle()
    at_rest(yard)
    after = yard.promised()
    assert gone not in after
    assert gone not in {r.group for r in yard.reservations}
    behind = sorted((gid for gid in before if orders[gid] > orders[gone]), key=lambda gid: orders[gid])
    if policy != "conservative" or machine == MIXED:
        # Laid anew in queue order: who moves up may take the place of one behind, never of one ahead.
        behind = behind[:1]
    for gid in behind:
        assert gid not in state.waiting or after[gid] <= before[gid], f"{gid} comes later by a cancel"
    for gid in before:
        if orders[gid] < orders[gone] and policy != "conservative":
            assert after[gid] == before[gid], f"{gid} stood ahead of what was cancelled"


@pytest.mark.parametrize("policy", PROMISING)
def test_F11_all_behind_a_cancelled_promise_move_up(policy: str):
    yard = Yard(ONE, *queues(policy), judge=plan_holds)
    for _ in range(4):
        yard.submit(1, 10, 10, cpu=8)
        yard.settle()
    yard.cancel("g2")
    yard.settle()
    at_rest(yard)
    second = yard.now + 10_000
    promised = [yard.group(name).estimate for name in ("g3", "g4")]
    assert promised == ([second, 0] if policy == "easy" else [second, second + 10_000])


# -- a restart ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("policy", PROMISING)
@settings(max_examples=30)
@given(story=acts(QUIET))
def test_a_restart_keeps_every_promise(policy: str, machine: str, story: list[Act]):
    yard = play(Yard(machine, *queues(policy), judge=plan_holds), story)
    before = yard.promised()
    yard.do(Act("crash", 0, 0, 0, 0, 0))
    at_rest(yard)
    after = yard.promised()
    if machine == MIXED and policy != "easy":
        first = min(before, key=lambda gid: yard.engine.state.waiting[gid][0].order, default="")
        assert set(after) == set(before)
        assert after.get(first) == before.get(first)
    else:
        assert after == before


@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=50)
@given(story=acts(ROUGH), last=st.builds(Act, st.just("kill"), *[st.integers(0, 27)] * 5))
def test_a_killed_process_loses_no_promise_that_was_durable(machine: str, story: list[Act], last: Act):
    yard = play(Yard(machine, *queues("conservative"), judge=plan_holds), story)
    held = {r.group: r.start for r in yard.reservations}
    yard.do(last)
    at_rest(yard)
    for gid in held:
        started = gid not in yard.engine.state.waiting
        assert started or gid in yard.engine.state.promises, f"{gid} lost its promise"
