"""What must hold of a yard in which nothing is due, and of its story as a whole; for tests of the policies.

`at_rest` compares what the engine keeps, what the store holds and what the last plan says; the others look
at all that was made durable since the beginning.
"""

from collections.abc import Iterator, Sequence

from fairlead.core import views
from fairlead.core.policy import lookahead
from fairlead.core.state import State
from fairlead.model.group import Why
from fairlead.model.plan import Grant, Reserve
from yard import Act, Yard


def play(yard: Yard, story: Sequence[Act]) -> Yard:
    """Let it all happen, with a look at every moment of rest."""
    for act in story:
        yard.do(act)
        at_rest(yard)
    if not any(act.verb == "kill" for act in story):  # a grant whose binds were never sent may be given up
        started_once(yard)
    return yard


def at_rest(yard: Yard) -> None:
    """Promises are the plan's, the store's and of groups that wait; everybody who waits has a reason."""
    state = yard.engine.state
    _promises_are_the_plans(yard, state)
    assert len(state.line) == sum(map(len, state.waiting.values()))
    shapes = {id(t.shape) for asked in state.waiting.values() for r in asked for t in r.tasks}
    assert shapes == set(state.wanted)
    assert not state.fresh and not state.due_now
    if state.waiting:  # else there was no plan to say so
        assert all(gid in state.waiting for gid in state.heads.values()), "a head that waits not"
    for row in views.queue_page(state, yard.now, limit=0).groups:
        if row.position:
            assert row.why is not Why.NONE and row.text, f"{row.id} has no reason"
    for group in state.groups.values():
        live = [uid for uid in group.pods if not state.pods[uid].ended]
        here = {bool(state.pods[uid].node) or uid in state.intents for uid in live}
        assert len(here) < 2, f"{group.id} has started partly"


def _promises_are_the_plans(yard: Yard, state: State) -> None:
    held = {gid: r.start for gid, r in state.promises.items()}
    if yard.judge is not None:
        planned = yard.planned if state.waiting else {}
        assert held == planned, f"promises are held that no plan made, or lost: {held} for {planned}"
    dated = {gid: r for gid, r in state.promises.items() if r.start}
    assert {r.group: r for r in yard.reservations} == dated, "the store holds other promises"
    assert len(yard.reservations) == len(dated)
    for gid, start in held.items():
        assert gid in state.waiting, f"{gid} is promised a start and waits not"
        assert state.groups[gid].estimate == start


def nothing_left(yard: Yard) -> None:
    """Everybody has come and gone: nothing is kept of them."""
    state = yard.engine.state
    assert not yard.pods
    assert not yard.reservations and not yard.grants
    kept = {
        name: value
        for name in (
            "groups", "pods", "waiting", "line", "wanted", "fresh", "due_now", "arrivals", "started",
            "promises", "rejected", "intents", "grants", "to_bind", "recording", "touched", "loose",
        )
        if (value := getattr(state, name))
    }  # fmt: skip
    assert not kept, f"left over: {kept}"


def _records(yard: Yard) -> Iterator[Grant | Reserve]:
    """What the store was given, in order: starts, and the promises beside them."""
    for command in yard.durable:
        yield from command.grants
        yield from command.reservations


def never_later(yard: Yard) -> None:
    """Nobody is ever promised a later start than before, or starts later than promised."""
    best: dict[str, int] = {}
    for record in _records(yard):
        start = record.start if isinstance(record, Reserve) else record.at
        before = best.get(record.group, start)
        assert start <= before, f"{record.group} was promised {before}, now it is {start}"
        best[record.group] = start
    state = yard.engine.state
    for gid in best:
        queue = yard.settings.queue(state.groups[gid].queue) if gid in state.waiting else None
        assert queue is None or gid in state.promises or not lookahead(queue).keep, f"{gid} lost its promise"


def started_once(yard: Yard) -> None:
    """Nobody is granted a start twice."""
    granted = [grant.group for command in yard.durable for grant in command.grants]
    assert len(granted) == len(set(granted)), "a group was started twice"
