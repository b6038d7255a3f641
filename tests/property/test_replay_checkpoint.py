"""A checkpoint at any moment of a random world goes on as the world does: commands and plans to the bit.

The worlds are those of other tests, with an engine that is saved and restored all the while (`twin.Twin`).
"""

from collections.abc import Iterator

import pytest
import test_company
import test_worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from test_company import Step

from fairlead.sim import fuzz
from fairlead.sim.ops import Op
from twin import Twin
from worlds import play

EVERY = st.tuples(st.integers(0, 6), st.integers(1, 9))


@pytest.fixture(autouse=True)
def compared() -> Iterator[None]:
    """No test here passes without having compared anything."""
    Twin.compared = 0
    yield
    assert Twin.compared > 100


def twin(every: tuple[int, int]) -> type[Twin]:
    return type("Twin", (Twin,), {"first": every[0], "every": every[1]})


@settings(max_examples=60, deadline=None)
@given(test_worlds.OPS, test_worlds.CODES, test_worlds.MATCHES, EVERY)
def test_RB4_a_checkpoint_goes_on_as_the_engine_does(
    ops: list[Op], codes: list[int], match: str, every: tuple[int, int]
):
    play(ops, codes, match, twin(every))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), EVERY)
def test_RB4_a_checkpoint_goes_on_under_each_policy_and_fault(seed: int, every: tuple[int, int]):
    assert fuzz.play(fuzz.draw(seed), twin(every)).wrong == ()


@settings(max_examples=80, deadline=None)
@given(
    test_company.nodes,
    st.lists(test_company.steps, min_size=3, max_size=14),
    st.sampled_from(["fcfs", "easy", "conservative"]),
    st.sampled_from(["first", "pack", "spread", "locality"]),
    EVERY,
)
def test_RB4_a_checkpoint_knows_who_minds_whom_and_how_members_lie(
    machines: list[tuple[int, str, str]], happens: list[Step], policy: str, match: str, every: tuple[int, int]
):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_company, "Engine", twin(every))
        test_company.story(machines, happens, policy, match)
