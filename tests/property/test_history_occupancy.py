"""Occupancy, utilisation, fragmentation and latencies are what counting each millisecond by hand gives."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.model.history import PodHistory
from fairlead.model.record import NodeLife
from fairlead.recorder import latency, occupancy
from fairlead.recorder import usage as used
from fairlead.recorder.occupancy import WHATS

END = 40
NODES = ("n0", "n1", "n2")
_pods = st.lists(
    st.tuples(
        st.sampled_from(("", *NODES)), st.integers(0, END), st.integers(0, END),
        st.integers(0, 3), st.integers(0, 4), st.integers(0, 1),
    ),
    max_size=12,
)  # fmt: skip
_nodes = st.lists(
    st.tuples(st.sampled_from(NODES), st.integers(0, END), st.integers(1, 6), st.booleans(), st.booleans()),
    max_size=6,
)
_edges = st.sets(st.integers(0, END + 5), min_size=2, max_size=6).map(lambda found: np.array(sorted(found)))


def pod(n: int, node: str, since: int, length: int, cpu: int, memory: int, gpu: int) -> PodHistory:
    """Of length 0: open."""
    requests = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpu}
    return PodHistory(
        f"u{n}", "ns", f"p{n}", "s", "", "", "", node, "Running", "", "", -1, since,
        since + length if length else 0, 0, 0, 0, since, 0, 0, 0, 0, requests, {},
    )  # fmt: skip


def made(drawn: list[tuple[str, int, int, int, int, int]]) -> list[PodHistory]:
    return [pod(n, *row) for n, row in enumerate(drawn)]


def lives(drawn: list[tuple[str, int, int, bool, bool]]) -> list[NodeLife]:
    """States of a node follow one another; the last one goes on."""
    by_start = {(name, since): rest for name, since, *rest in drawn}
    found: list[NodeLife] = []
    for name in NODES:
        starts = sorted(since for node, since in by_start if node == name)
        for since, until in zip(starts, [*starts[1:], 0], strict=False):
            cpu, ready, cordoned = by_start[name, since]
            amounts = {"cpu": cpu, "memory": 2 * cpu, "amd.com/gpu": cpu // 3, "pods": cpu // 2}
            found.append(
                NodeLife(
                    f"u-{name}",
                    name,
                    since,
                    allocatable=amounts,
                    ready=ready,
                    unschedulable=cordoned,
                    until=until,
                )
            )
    return found


def amount(requests: dict[str, int], what: str) -> int:
    gpu = sum(value for name, value in requests.items() if name.endswith("/gpu"))
    return {"count": 1, "cpu": requests.get("cpu", 0), "memory": requests.get("memory", 0), "gpu": gpu}[what]


def on(pods: list[PodHistory], node: str, what: str, moment: int) -> int:
    """By hand: what is held on a node (or on all, "") at one millisecond."""
    return sum(
        amount(p.requests, what)
        for p in pods
        if p.node and node in ("", p.node) and p.since <= moment and (not p.until or moment < p.until)
    )


@given(_pods, _edges)
def test_RB3_occupancy_is_the_count_of_every_millisecond(drawn, edges):
    pods = made(drawn)
    spans = occupancy.held(pods)
    for what in WHATS:
        found = occupancy.buckets(spans, what, edges, NODES)
        assert found.nodes == NODES
        for i, node in enumerate(NODES):
            for j, (begin, end) in enumerate(pairwise(edges)):
                counts = [on(pods, node, what, t) for t in range(begin, end)]
                assert found.mean[i, j] == pytest.approx(sum(counts) / len(counts))
                assert found.peak[i, j] == max(counts)
        whole = spans.of(what)
        assert [int(v) for v in whole.on(np.arange(END + 5))] == [
            on(pods, "", what, t) for t in range(END + 5)
        ]


@given(_pods, st.integers(-1, END + 60))
def test_RB3_RB10_as_of_any_moment_open_pods_are_still_there(drawn, moment):
    pods = made(drawn)
    found = occupancy.at(occupancy.held(pods), moment)
    assert set(found) == {p.node for p in pods if p.node}
    assert found == {node: {what: on(pods, node, what, moment) for what in WHATS} for node in found}


@given(_pods, _nodes, _edges)
def test_RB3_utilisation_and_fragmentation_against_a_count_by_hand(drawn, states, edges):
    pods, nodes = made(drawn), lives(states)
    request, many = used.most_common(Counter(map(used.shape, pods)))
    shapes = Counter(tuple(amount(p.requests, what) for what in used.RESOURCES) for p in pods)
    assert many == max(shapes.values(), default=0) == shapes[request]
    found = used.usage(occupancy.held(pods), occupancy.held(pods), occupancy.capacity(nodes), request, edges)
    for what in used.RESOURCES:
        for j, (begin, end) in enumerate(pairwise(edges)):
            expected = by_hand(pods, nodes, what, request, begin, end)
            got = [column[j] for column in (*found[what], found[what].share)]
            assert got == pytest.approx(expected, nan_ok=True), (what, begin, end)


def by_hand(pods, nodes, what, request, begin, end) -> list[float]:
    """capacity, used, peak, down, fragmented, share: as the module's text defines them."""
    capacity = used_ = down = free = wasted = 0
    peak = 0.0
    for t in range(begin, end):
        there = [n for n in nodes if n.since <= t and (not n.until or t < n.until)]
        whole = sum(amount(n.allocatable, what) for n in there)
        now = on(pods, "", what, t)
        capacity, used_ = capacity + whole, used_ + now
        peak = max(peak, now / whole if whole else 0)
        for n in there:
            if not n.ready or n.unschedulable:
                down += amount(n.allocatable, what)
                continue
            left = {w: max(amount(n.allocatable, w) - on(pods, n.name, w, t), 0) for w in used.RESOURCES}
            room = not n.allocatable["pods"] or on(pods, n.name, "count", t) < n.allocatable["pods"]
            free += left[what]
            fits = room and all(left[w] >= need for w, need in zip(used.RESOURCES, request, strict=True))
            wasted += 0 if fits else left[what]
    nan, span = float("nan"), end - begin
    return [
        capacity / span, used_ / span, peak, down / capacity if capacity else nan,
        wasted / free if free else nan, used_ / capacity if capacity else nan,
    ]  # fmt: skip


_times = st.lists(st.one_of(st.just(0), st.integers(1, 30)), min_size=8, max_size=8)


@given(st.lists(_times, max_size=8), st.integers(0, 20), st.integers(1, 20))
def test_RB5_RB10_each_stage_of_each_pod_is_counted_once(drawn, since, length):
    names = ("created", "queued", "scheduled", "bound", "started", "ready", "finished", "deleted")
    pods = [
        PodHistory(f"u{n}", "ns", f"p{n}", "s", "", "", "", "n0", "", "", "", -1, 0, 0, *times, {}, {})
        for n, times in enumerate(drawn)
    ]
    until = since + length
    stages = latency.Stages(latency.grouping(""), since, until)
    for each in pods:
        stages.add(each)
    rows = stages.rows()
    for stage in latency.STAGES:
        done, open_, never = [], 0, 0
        for times in drawn:
            at = dict(zip(names, times, strict=True))
            begin, end = at[stage.begin], at[stage.end]
            gone = min([t for t in (at["finished"], at["deleted"]) if t] or [10**6])
            if not begin or begin >= until or (end and end < since):
                continue
            if end and end < until:
                done.append(end - begin)
            elif gone >= until:
                open_ += 1
            elif gone >= since:
                never += 1
        row = next((r for r in rows if r.stage == stage.name), None)
        assert (row is None) == (not done and not open_ and not never)
        if row is not None:
            assert (row.n, row.open, row.never) == (len(done), open_, never)
            assert row.most == max(done, default=0)
            for percent, value in zip((50, 90, 99), (row.p50, row.p90, row.p99), strict=True):
                rank = -(-len(done) * percent // 100)
                assert value == (sorted(done)[rank - 1] if done else 0)


def test_pods_are_told_apart_by_what_was_asked():
    one = pod(1, "n0", 1, 1, 1, 1, 1)
    told = {by: latency.grouping(by)(one) for by in ("", "namespace", "owner", "scheduler", "label:app")}
    assert told == {"": "", "namespace": "ns", "owner": "", "scheduler": "s", "label:app": ""}
    for wrong in ("uid", "label:", "label", "namespace:x"):
        with pytest.raises(ValueError, match="label:KEY"):
            latency.grouping(wrong)


def test_stretches_begin_at_round_times_and_cover_all():
    assert list(occupancy.edges(7, 31, 10)) == [7, 10, 20, 30, 31]
    assert list(occupancy.edges(10, 30, 10)) == [10, 20, 30]
    assert list(occupancy.edges(3, 4, 10)) == [3, 4]
    assert list(occupancy.edges(3, 3, 10)) == [3, 4]
