"""The profile against a brute force over small worlds: several nodes and resources, times full of ties."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.core import profile as profile_module
from fairlead.core.inventory import Vector
from fairlead.core.profile import Profile, Release, Share, Want

NOW = 1_000
END = NOW + 40
RESOURCES, NODES = 2, 3
Use = tuple[int, int, Share]
"""From when on, until when (0: for ever), what."""
World = tuple[np.ndarray, list[Release], list[Use]]
"""Free now, what releases, what is promised."""

times = st.integers(NOW + 1, NOW + 12)
lengths = st.integers(0, 12)
befores = st.just(0) | st.integers(NOW + 11, NOW + 20)
masks = st.lists(st.booleans(), min_size=NODES, max_size=NODES)


@pytest.fixture(params=[32, 3, 0], ids=["one by one", "mixed", "sorted in"], autouse=True)
def way_of_merging(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of bringing in what is taken must be right; the worlds here are too small for the second."""
    monkeypatch.setattr(profile_module, "_FEW", request.param)


def vector(amounts: Sequence[int]) -> Vector:
    pairs = tuple((i, a) for i, a in enumerate(amounts) if a)
    return Vector(
        np.array([i for i, _ in pairs], dtype=np.int64),
        np.array([a for _, a in pairs], dtype=np.int64),
        pairs,
    )


vectors = st.lists(st.integers(0, 3), min_size=RESOURCES, max_size=RESOURCES).filter(any).map(vector)


@st.composite
def shares(draw: st.DrawFn) -> Share:
    rows = draw(st.lists(st.integers(0, NODES - 1), min_size=1, max_size=NODES, unique=True))
    copies = [draw(st.integers(1, 2)) for _ in rows]
    return Share(draw(vectors), np.array(rows, dtype=np.int64), np.array(copies, dtype=np.int64))


@st.composite
def uses(draw: st.DrawFn) -> Use:
    start = draw(st.integers(NOW, NOW + 12))
    until = draw(st.one_of(st.just(0), st.integers(start + 1, start + 12)))
    return start, until, draw(shares())


@st.composite
def worlds(draw: st.DrawFn) -> World:
    cells = draw(st.lists(st.integers(-1, 6), min_size=RESOURCES * NODES, max_size=RESOURCES * NODES))
    free = np.array(cells, dtype=np.int64).reshape(RESOURCES, NODES)
    running = [Release(draw(times), draw(shares())) for _ in range(draw(st.integers(0, 5)))]
    return free, running, draw(st.lists(uses(), max_size=4))


def made(free: np.ndarray, running: list[Release], promised: list[Use]) -> Profile:
    profile = Profile(free, NOW, running)
    for start, until, share in promised:
        profile.take([share], start, until)
    return profile


def brute(free: np.ndarray, running: list[Release], promised: list[Use]) -> np.ndarray:
    """[instant, resource, node] by counting at every single millisecond."""
    table = np.repeat(free[None], END - NOW, axis=0)
    events = [(r.until, r.share, 1) for r in running]
    events += [(start, share, -1) for start, _, share in promised]
    events += [(until, share, 1) for _, until, share in promised if until]
    for at, share, sign in events:
        for row, copies in zip(share.rows, share.times, strict=True):
            table[at - NOW :, share.vector.rows, row] += sign * copies * share.vector.amounts
    return table


def lowest(table: np.ndarray, start: int, length: int) -> np.ndarray:
    end = start + length if length else END
    return table[start - NOW : end - NOW].min(axis=0)


def room(low: np.ndarray, want: Want) -> int:
    total = 0
    for node in range(NODES):
        if want.mask[node]:
            total += max(min(low[r, node] // a for r, a in want.vector.pairs), 0)
    return total


@given(worlds(), st.integers(NOW, NOW + 14), lengths)
def test_window_is_the_minimum_of_every_instant(world, start, length):
    table, profile = brute(*world), made(*world)
    assert (profile.window(start, length) == lowest(table, start, length)).all()
    assert (profile.at(start) == table[start - NOW]).all()


@given(
    worlds(),
    st.lists(
        st.tuples(vectors, masks, st.integers(1, 5)),
        min_size=1,
        max_size=2,
    ),
    lengths,
    st.integers(NOW, NOW + 10),
    befores,
)
def test_candidates_begin_with_the_earliest_start(world, wanted, length, not_before, before):
    wants = [Want(v, np.array(mask), copies) for v, mask, copies in wanted]
    agree(world, wants, length, not_before, before)


def test_so_they_do_in_worlds_drawn_evenly():
    """Hypothesis likes small and equal numbers; these are a thousand worlds without a liking."""
    chance = random.Random(1)

    def share() -> Share:
        rows = chance.sample(range(NODES), chance.randint(1, NODES))
        copies = [chance.randint(1, 2) for _ in rows]
        return Share(vector([chance.randint(0, 2), 1]), np.array(rows), np.array(copies))

    def use() -> Use:
        start = NOW + chance.randint(0, 12)
        return start, chance.choice((0, start + chance.randint(1, 12))), share()

    for _ in range(1000):
        cells = [chance.randint(0, 6) for _ in range(RESOURCES * NODES)]
        free = np.array(cells, dtype=np.int64).reshape(RESOURCES, NODES)
        running = [Release(NOW + chance.randint(1, 12), share()) for _ in range(chance.randint(0, 5))]
        world = free, running, [use() for _ in range(chance.randint(0, 4))]
        mask = np.array([chance.random() < 0.8 for _ in range(NODES)])
        want = Want(vector([chance.randint(0, 2), 1]), mask, chance.randint(1, 6))
        agree(world, [want], chance.randint(0, 12), NOW + chance.randint(0, 8))


def agree(world: World, wants: list[Want], length: int, not_before: int, before: int = 0) -> None:
    table, profile = brute(*world), made(*world)
    good = [
        t
        for t in range(not_before, min(before or NOW + 26, NOW + 26))
        if all(room(lowest(table, t, length), want) >= want.copies for want in wants)
    ]
    found = list(profile.candidates(wants, length, not_before, before))
    assert found[:1] == good[:1]  # exhaustive search finds nothing earlier, and something if there is any
    _, running, promised = world
    events = [r.until for r in running] + [start for start, _, _ in promised]
    events += [until for _, until, _ in promised if until]
    looked_at = {not_before, *(t for t in events if t > not_before)}
    assert found == sorted(looked_at & set(good))  # and every event is judged rightly, on ties too


@given(worlds(), st.lists(uses(), min_size=1, max_size=3), st.data())
def test_what_is_given_back_leaves_no_trace(world, more, data):
    profile, expected = made(*world), brute(*world)
    for start, until, share in more:
        profile.take([share], start, until)
    assert (profile.window(NOW, 5) == lowest(brute(world[0], world[1], world[2] + more), NOW, 5)).all()
    for start, until, share in data.draw(st.permutations(more)):
        profile.give([share], start, until)
    for t in range(NOW, NOW + 26):
        assert (profile.at(t) == expected[t - NOW]).all()


@given(worlds(), vectors, masks, lengths, st.integers(NOW, NOW + 10), befores)
def test_a_gap_for_one_copy_is_the_first_that_is_long_enough(world, wanted, mask, length, not_before, before):
    table, profile = brute(*world), made(*world)
    want = Want(wanted, np.array(mask), 1)
    until = min(before or NOW + 26, NOW + 26)
    good = [t for t in range(not_before, until) if room(lowest(table, t, length), want)]
    assert profile.gap(want, length, not_before, before) == (good[0] if good else None)


def test_beyond_the_horizon_nothing_happens():
    one = Share(vector([1, 0]), np.array([0]), np.array([1]))
    free = np.ones((RESOURCES, NODES), dtype=np.int64)
    profile = Profile(free, NOW, [Release(NOW + (1 << 50), one)])
    assert not list(profile.candidates([Want(one.vector, np.ones(NODES, dtype=bool), 4)], 0, NOW))
    assert (profile.window(NOW, 1 << 50) == free).all()
