"""The checks of the policies can fail: each rule sees the fault that it is there for."""

import random
from collections.abc import Callable
from functools import cached_property

import pytest
from msgspec import structs

from fairlead.core.backfill import Horizon
from fairlead.core.engine import Engine
from fairlead.core.lane import Lane
from fairlead.core.snapshot import Request
from fairlead.model.group import Reason
from fairlead.model.plan import Decision, Plan, Reserve, Start
from yard import CALM, ENDLESS, ONE, SLOTS, Act, Judged, Watched, Yard, queues
from yard_rest import at_rest, never_later
from yard_rules import (
    Case,
    depth_is_kept,
    endless_work_waits_for_the_undated,
    kept_promises_only_move_up,
    new_promises_are_earliest,
    nobody_could_start,
    nobody_overtakes,
    nothing_is_taken_twice,
    promises_are_the_laid,
    starts_are_whole,
)

SECOND = 1_000


def story(seed: int, verbs: tuple[str, ...] = CALM) -> list[Act]:
    draw = random.Random(seed)
    return [Act(draw.choice(verbs), *[draw.randrange(28) for _ in range(5)]) for _ in range(30)]


class Changed(Watched):
    """Plans that are changed when they are made."""

    def change(self, decisions: list[Decision]) -> list[Decision]:
        raise NotImplementedError

    def _plan(self) -> Plan:
        plan = super()._plan()
        return structs.replace(plan, decisions=tuple(self.change(list(plan.decisions))))


class Overtaking(Watched):
    """Never closes a queue."""

    def _decide(self, request: Request, lane: Lane) -> None:
        super()._decide(request, lane)
        lane.closed = False


class Greedy(Watched):
    """Starts whoever fits at this moment, whatever is promised."""

    @cached_property
    def horizon(self) -> Horizon:
        found = Watched.horizon.func(self)
        start = found.start

        def careless(request: Request) -> object:
            return start(request._replace(duration=1))

        found.start = careless  # pyright: ignore
        return found


class Idle(Watched):
    """Backfills nobody."""

    def _start(self, request: Request) -> bool:
        return self.plain and super()._start(request)

    def _promise(self, request: Request, lane: Lane) -> None:
        lane.stop(request)


class Deep(Watched):
    """Promises a start to one more than the policy allows."""

    def __init__(self, snapshot: object) -> None:
        super().__init__(snapshot)  # pyright: ignore
        for lane in self.lanes.values():
            lane.depth += 1


class Heedless(Watched):
    """Lets work without an end pass by who waits without a date."""

    def _start(self, request: Request) -> bool:
        if not self.plain:
            self.horizon.undated = 0  # pyright: ignore
        return super()._start(request)


class Double(Changed):
    def change(self, decisions: list[Decision]) -> list[Decision]:
        return decisions + [d for d in decisions if isinstance(d, Start)][:1]


class Partial(Changed):
    def change(self, decisions: list[Decision]) -> list[Decision]:
        return [
            structs.replace(d, placements=d.placements[1:]) if isinstance(d, Start) else d for d in decisions
        ]


class Late(Changed):
    """Promises every start a second later than it was found, old ones too."""

    def change(self, decisions: list[Decision]) -> list[Decision]:
        told = {d.group for d in decisions}
        moved = [
            structs.replace(d, start=d.start + SECOND) if isinstance(d, Reserve) and d.start else d
            for d in decisions
        ]
        old = [p for gid, p in self.old.items() if gid not in told and p.start]
        return moved + [Reserve(p.request.group, p.start + SECOND, (), p.reason) for p in old]


class Silent(Changed):
    """Gives no reasons."""

    def change(self, decisions: list[Decision]) -> list[Decision]:
        return [d if isinstance(d, Start) else structs.replace(d, reason=Reason()) for d in decisions]


class Clinging(Engine):
    """Forgets no promise of one who waits no more."""

    def learn(self, events):  # pyright: ignore
        self.state.unpromise = lambda _: None
        return super().learn(events)


RULES = [
    (starts_are_whole, Double, "easy", ONE, "starts twice"),
    (starts_are_whole, Partial, "easy", ONE, "starts partly"),
    (promises_are_the_laid, Late, "replan", "mixed", "not promised what was laid"),
    (nothing_is_taken_twice, Greedy, "hybrid:0", SLOTS, "takes what is used or promised"),
    (nothing_is_taken_twice, Greedy, "easy", "mixed", "takes what is used or promised"),
    (nobody_could_start, Idle, "easy", SLOTS, "could start"),
    (nobody_could_start, Idle, "hybrid:2", "mixed", "could start"),
    (nobody_overtakes, Overtaking, "fcfs", SLOTS, "overtakes"),
    (nobody_overtakes, Overtaking, "fcfs", "mixed", "overtakes"),
    (depth_is_kept, Deep, "hybrid:2", ONE, "holds 3 promises"),
    (endless_work_waits_for_the_undated, Heedless, "hybrid:2", ONE, "passes by"),
    (new_promises_are_earliest, Late, "replan", SLOTS, "and could have"),
    (new_promises_are_earliest, Late, "easy", ONE, "and could have"),
    (kept_promises_only_move_up, Late, "conservative", SLOTS, "and had|one sweep gives it"),
]


@pytest.mark.parametrize(
    ("rule", "cycle", "policy", "machine", "words"), RULES, ids=lambda x: getattr(x, "__name__", str(x))
)
def test_a_rule_sees_what_it_is_there_for(
    rule: Callable[[Case], None], cycle: type[Watched], policy: str, machine: str, words: str
):
    def judge(judged: Judged) -> None:
        rule(Case(judged))

    with pytest.raises(AssertionError, match=words):
        for seed in range(40):
            yard = Yard(machine, *queues(policy), cycle=cycle, judge=judge)
            for act in story(seed, ENDLESS):
                yard.do(act)


def _until_seen(words: str, policy: str, look: Callable[[Yard], None], **broken: object) -> None:
    with pytest.raises(AssertionError, match=words):
        for seed in range(40):
            yard = Yard(ONE, *queues(policy), **broken)  # pyright: ignore
            for act in story(seed):
                yard.do(act)
                look(yard)


def test_rest_sees_who_waits_without_a_reason():
    _until_seen("has no reason|without a reason", "easy", at_rest, cycle=Silent)


def test_rest_sees_a_promise_that_is_left_over():
    _until_seen("promised a start (and waits not|but does not wait)", "hybrid:2", at_rest, engine=Clinging)


def test_a_promise_that_comes_later_is_seen():
    _until_seen("was promised", "conservative", never_later, cycle=Late)


def test_a_promise_that_a_restart_loses_is_seen():
    yard = Yard(ONE, *queues("conservative"))
    for _ in range(3):
        yard.submit(1, 9, 9, cpu=8)
        yard.settle()
    yard.reservations = yard.reservations[1:]
    with pytest.raises(AssertionError, match="the store holds other promises"):
        at_rest(yard)
