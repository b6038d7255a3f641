"""Random worlds: the picture that events make is the one that is counted anew, after every single batch."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from auditing import differences, digests, listings, look
from fairlead.core.engine import Engine
from fairlead.core.moment import picturing, take
from fairlead.core.rebuild import rebuild
from fairlead.core.steps import now
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.sim.ops import MORE_VERBS, VERBS, Op
from worlds import play

numbers = st.integers(0, 11)
OPS = st.lists(
    st.builds(Op, st.sampled_from((*VERBS, *MORE_VERBS)), numbers, numbers, numbers, st.integers(0, 9)),
    min_size=3,
    max_size=25,
)
CODES = st.lists(st.integers(0, 30), min_size=1, max_size=40)


class Audited(Engine):
    """An engine whose columns are counted anew after each batch."""

    def learn(self, events: Sequence[ev.Event]) -> list[cmd.Command]:
        commands = super().learn(events)
        moment = take(self.state)
        nodes, pods = list(moment.nodes.values()), moment.pods.values()
        rebuilt = rebuild(nodes, pods, moment.intents, moment.asked, moment.marks(), moment.holds)
        incremental = now(picturing(moment))
        assert incremental.rows == rebuilt.rows
        assert incremental.digest == rebuilt.digest
        return commands


@settings(max_examples=100)
@given(OPS, CODES)
def test_D6_increments_equal_the_rebuild_after_every_batch(ops: list[Op], codes: list[int]):
    play(ops, codes, engine=Audited)


@settings(max_examples=100)
@given(OPS, CODES)
def test_D1_D5_a_world_at_rest_equals_a_fresh_list(ops: list[Op], codes: list[int]):
    world = play(ops, codes)
    state, lists = world.engine.state, listings(world)
    assert differences(state, lists) == []
    assert len(set(digests(state, lists))) == 1
    assert look(state, lists)[0].moved == 0
