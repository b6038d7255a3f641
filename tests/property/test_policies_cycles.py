"""Ten thousand cycles on end: what is promised is what the plan says, and nothing is left over."""

import random

import pytest
from msgspec import structs

from yard import MIXED, ONE, PAUSES, Act, Judged, Yard, queues
from yard_rest import at_rest, never_later, nothing_left, started_once
from yard_rules import Case

CYCLES = 10_000
VERBS = (*["submit"] * 5, "urgent", "endless", "finish", "cancel", "overrun")


class Counted:
    """Judges plans by nothing but what they promise, and counts them."""

    def __init__(self) -> None:
        self.plans = self.most = 0

    def __call__(self, judged: Judged) -> None:
        self.plans += 1
        judged.yard.planned = Case(judged).promises
        self.most = max(self.most, len(judged.yard.planned))


def test_F11_after_ten_thousand_cycles_the_promises_are_the_plans():
    seen, draw = Counted(), random.Random(4)
    yard = Yard(MIXED, *queues("conservative", "hybrid:2", "easy"), judge=seen)
    yard.check_always = False  # sums over all pods after every batch: other tests' business
    while seen.plans < CYCLES:
        crowded = len(yard.engine.state.waiting) > 12
        verb = draw.choice(("finish", "cancel") if crowded else VERBS)
        yard.do(Act(verb, *[draw.randrange(28) for _ in range(4)], draw.randrange(len(PAUSES))))
        at_rest(yard)
        yard.sweep()
        for name in [yard.engine.state.groups[gid].name for gid in yard.engine.state.rejected]:
            yard.cancel(name)
        yard.forget()
    assert seen.most > 3
    for name in [group.name for group in yard.engine.state.groups.values()]:
        yard.cancel(name)
    yard.settle()
    at_rest(yard)
    nothing_left(yard)


@pytest.mark.parametrize("policy", ["easy", "hybrid:2", "conservative"])
def test_F8_of_a_thousand_groups_in_one_second_none_is_lost_doubled_or_starved(policy: str):
    (queue,) = queues(policy)
    yard, draw = Yard(ONE, structs.replace(queue, promises=64)), random.Random(8)
    for i in range(1_000):
        limit = 1 + draw.randrange(9)
        yard.submit(1 + draw.randrange(4), limit, 1 + draw.randrange(limit), cpu=1 + draw.randrange(2))
        if not i % 100:
            yard.run(100)
    for _ in range(40):
        yard.pause(100)
        yard.sweep()
    at_rest(yard)
    started_once(yard)
    if policy != "hybrid:2":  # which lays the second promise anew
        never_later(yard)
    started = [grant.group for command in yard.durable for grant in command.grants]
    assert len(started) == 1_000
    nothing_left(yard)
