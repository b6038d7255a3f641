"""Batches written to a segment are read back as they were, whatever they are and wherever it is cut."""

from collections.abc import Iterable, Sequence

import msgspec
import test_worlds
from hypothesis import given, settings
from hypothesis import strategies as st

from fairlead.model import event as ev
from fairlead.model.node import Node, Taint
from fairlead.model.owner import Owner
from fairlead.model.pod import OwnerRef, Pod, Shape, Toleration
from fairlead.model.preferences import Preferences
from fairlead.model.rules import PodTerm, Rules
from fairlead.model.selector import Expression, Operator
from fairlead.model.thing import Namespace
from fairlead.runtime.segments import Chunk, Decoder, Encoder
from fairlead.runtime.shared import Shared
from fairlead.sim.ops import Op
from worlds import play

words = st.sampled_from(["", "a", "b", "team-a", "Ω≈", "x" * 63])
labels = st.dictionaries(st.sampled_from(["app", "zone", "index", "job-name"]), words, max_size=4)
amounts = st.sampled_from([(), (("cpu", 100), ("pods", 1)), (("gpu", 1 << 62),)])
terms = st.builds(
    PodTerm, words, st.sampled_from([None, (), (Expression("app", Operator.IN, ("a", "b")),)]), st.just(())
)
rules = st.one_of(st.just(Rules()), st.builds(lambda term: Rules(anti_affinity=(term,)), terms))
shapes = st.builds(
    Shape, amounts, tolerations=st.sampled_from([(), (Toleration("k", "Exists"),)]), rules=rules
)
owners = st.none() | st.builds(OwnerRef, st.just("Job"), words, words)
wishes = st.builds(Preferences, images=st.sampled_from([(), ("image:1",)]))
pods = st.builds(
    Pod,
    uid=words,
    namespace=words,
    name=words,
    version=st.integers(0, 1 << 62),
    shape=shapes,
    node=words,
    labels=labels,
    annotations=labels,
    owner=owners,
    wishes=wishes,
)
nodes = st.builds(
    Node,
    words,
    words,
    st.integers(0, 9),
    amounts,
    labels,
    st.just((Taint("t"),)),
    images=st.just((("i", 1),)),
)
events = st.one_of(
    st.builds(ev.PodSeen, pods),
    st.builds(ev.NodeSeen, nodes),
    st.builds(
        ev.OwnerSeen, st.builds(Owner, words, words, words, words, st.integers(0, 9), annotations=labels)
    ),
    st.builds(ev.ThingSeen, words, st.integers(0, 9), st.builds(Namespace, words, labels)),
    st.builds(ev.PodGone, words, st.integers(0, 9)),
    st.builds(ev.Repaired, st.integers(0, 9), st.tuples(st.builds(ev.PodSeen, pods)), st.booleans()),
    st.builds(ev.Tick, st.integers(1, 1 << 50)),
)


def cut(batches: Iterable[Sequence[ev.Event]], every: int) -> list[Chunk]:
    encoder, chunks = Encoder(), list[Chunk | None]()
    for i, batch in enumerate(batches):
        encoder.add(batch)
        if i % every == every - 1:
            chunks.append(encoder.cut())
    chunks.append(encoder.cut())
    return [chunk for chunk in chunks if chunk is not None]


def read(chunks: Iterable[Chunk]) -> list[list[ev.Event]]:
    """As from a database: each chunk may rest on specs that came with an earlier one, and on no others."""
    known: dict[bytes, bytes] = {}
    decoder, found = Decoder(Shared()), list[list[ev.Event]]()
    for chunk in chunks:
        assert not known.keys() & chunk.specs.keys()
        known |= chunk.specs
        packed = chunk.packed()
        decoder.know({name: known[name] for name in decoder.missing(packed)})
        batches = list(decoder.batches(packed))
        assert (len(batches), sum(map(len, batches))) == (chunk.batches, chunk.events)
        found += batches
    return found


def alike(batches: Iterable[Iterable[ev.Event]]) -> None:
    """Equal shapes and wishes are one object."""
    first: dict[object, object] = {}
    for event in (event for batch in batches for event in batch):
        if isinstance(event, ev.PodSeen):
            for part in (event.pod.shape, event.pod.wishes):
                assert first.setdefault(part, part) is part


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(events, max_size=6), max_size=12), st.integers(1, 5))
def test_RB4_batches_are_read_back_as_they_were(batches: list[list[ev.Event]], every: int):
    found = read(cut(batches, every))
    assert found == batches
    assert msgspec.json.encode(found) == msgspec.json.encode(batches)  # the order in dictionaries, too
    alike(found)


@settings(max_examples=30, deadline=None)
@given(test_worlds.OPS, test_worlds.CODES, st.integers(1, 9))
def test_RB4_all_that_happens_in_a_world_is_read_back(ops: list[Op], codes: list[int], every: int):
    batches = [list(batch) for batch in play(ops, codes).batches]
    found = read(cut(batches, every))
    assert found == batches
    alike(found)


def test_RB4_a_fact_is_small_and_a_spec_is_kept_once():
    shape = Shape((("cpu", 1000), ("memory", 1 << 30)), tolerations=(Toleration("k" * 60, "Exists"),) * 2)
    owner = OwnerRef("Job", "training-run", "0b0e4a9e-4d55-4a34-9a5b-8a3f0d1d7a11")
    said = {"batch.kubernetes.io/job-name": "training-run", "batch.kubernetes.io/controller-uid": owner.uid}
    names = [f"training-run-{i:05}" for i in range(1_000)]
    batch = [
        ev.PodSeen(
            Pod(f"{owner.uid[:-5]}{i:05}", "team-a", name, i, shape, labels=said, owner=owner, node="n-1")
        )
        for i, name in enumerate(names)
    ]
    (chunk,) = cut([batch], 10)
    assert len(chunk.body) / len(batch) < 300
    assert len(chunk.packed()) / len(batch) < 60
    assert len(chunk.specs) == 3
    alone = cut([[ev.PodSeen(Pod("u", "d", "p", 1, shape, labels={"pod-name": "p"}))] * 9], 10)
    assert len(alone[0].specs) == 1  # what only one pod has is no spec
