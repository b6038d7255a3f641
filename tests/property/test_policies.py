"""Queue policies in drawn worlds: each plan and each moment of rest against what can be counted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yard import CALM, ENDLESS, MACHINES, ONE, QUIET, ROUGH, Act, Yard, acts, queues
from yard_rest import play
from yard_rules import plan_holds

POLICIES = ("fcfs", "easy", "hybrid:2", "hybrid:0", "hybrid:-1", "conservative", "replan")
STORIES = acts(CALM) | acts(ENDLESS) | acts(ROUGH)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=50)
@given(story=STORIES)
def test_F9_every_plan_starts_who_fits_and_delays_no_promise(policy: str, machine: str, story: list[Act]):
    play(Yard(machine, *queues(policy), judge=plan_holds), story)


@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=50)
@given(policies=st.lists(st.sampled_from(POLICIES), min_size=2, max_size=3), story=STORIES)
def test_F9_so_it_does_with_a_policy_per_queue(machine: str, policies: list[str], story: list[Act]):
    play(Yard(machine, *queues(*policies), judge=plan_holds), story)


@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=30)
@given(story=acts(CALM))
def test_F9_fcfs_starts_in_the_order_of_arrival(machine: str, story: list[Act]):
    yard = play(Yard(machine, *queues("fcfs")), story)
    started = [int(grant.group.partition("/g")[2][:-2]) for c in yard.durable for grant in c.grants]
    assert started == sorted(started)


@pytest.mark.parametrize("policy", ["easy", "hybrid:2", "hybrid:0", "conservative", "replan"])
def test_what_has_no_end_does_not_pass_by_who_waits_without_a_date(policy: str):
    yard = Yard(ONE, *queues(policy), judge=plan_holds)
    for limit, cpu in ((0, 5), (5, 6), (0, 1), (5, 1)):
        yard.submit(1, limit, limit or 50, cpu=cpu)
        yard.settle()
    assert [yard.group(name).granted_at > 0 for name in ("g1", "g2", "g3", "g4")] == [
        True,
        False,
        False,
        True,
    ]


def test_who_starts_is_not_the_head_of_a_queue_though_it_waited_without_a_date():
    yard = Yard(ONE, *queues("conservative"))
    for limit, cpu in ((0, 5), (5, 6), (5, 4)):
        yard.submit(1, limit, 4, cpu=cpu)
        yard.settle()
    yard.pause(4)
    assert yard.group("g2").granted_at
    assert yard.engine.state.heads == {"default": yard.group("g3").id}


@settings(max_examples=30)
@given(story=acts(QUIET))
def test_easy_is_hybrid_of_depth_one(story: list[Act]):
    easy, hybrid = (play(Yard(ONE, *queues(policy)), story) for policy in ("easy", "hybrid:1"))
    assert easy.durable == hybrid.durable
