"""Notes of kube-scheduler are read back as they were put together, and no note can hurt."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from fairlead.recorder.scheduling_events import SchedulingEvents, refusal
from fairlead.wire.happening import happening

WORDS = st.sampled_from(
    ["Insufficient", "cpu", "nvidia.com/gpu", "node(s)", "didn't match", "{k: v}", "PersistentVolume", "v1.2"]
)
REASON = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
COUNTS = st.dictionaries(REASON, st.integers(1, 10_000), min_size=1, max_size=8)


def said(total: int, counts: dict[str, int]) -> str:
    """As framework.FitError puts it."""
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{total} nodes are available: {', '.join(reasons)}."


@given(total=st.integers(1, 50_000), own=COUNTS, preemption=st.none() | COUNTS)
def test_RB9_whatever_reasons_are_given_are_counted(
    total: int, own: dict[str, int], preemption: dict[str, int] | None
):
    note = said(total, own)
    expected: dict[str, object] = {"nodes": total, "reasons": own}
    if preemption is not None:
        note += f" preemption: {said(total, preemption)}"
        expected["preemption"] = preemption
    assert refusal(note) == expected


@given(
    rest=st.text(max_size=200),
    head=st.sampled_from(["", "0/5 nodes are available:", "0/5 nodes are available: 3 "]),
)
def test_any_note_can_be_a_row(rest: str, head: str):
    event = {
        "metadata": {"uid": "e", "resourceVersion": "1"},
        "regarding": {"kind": "Pod", "name": "p", "uid": "u"},
        "reason": "FailedScheduling",
        "note": head + rest,
    }
    row = SchedulingEvents().learn(happening(json.dumps(event)), 5)
    assert row is not None and row.message == head + rest
    assert all(count >= 0 for count in (row.extra or {}).get("reasons", {}).values())
    assert bool(row.extra) == bool(re.match("0/5 nodes are available:", head + rest))
