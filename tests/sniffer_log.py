"""Logs in the form of scheduler-sniffer, made by us, whose makers know what is in them.

Used by tests/unit/test_sniffer_importing.py and tests/property/test_sniffer_logs.py. Shares no code with
Fairlead: lines are written with the standard library.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, permutations
from typing import Any

BEGIN = datetime(2024, 4, 23, 19, 51, 7, tzinfo=UTC)
KEYS = ("object", "name", "endpoint", "reason", "message", "node", "event", "extra", "timestamp")
NODES = [f"pool-04539314-{end}" for end in ("04pv", "6r4x", "dzcx", "glz2", "l872", "ltn7", "vtcn", "x2xx")]
# Of the run whose log is in the sniffer's repository: how many lines of each kind, repeated ones included.
ENDPOINTS = {
    "podUpdate": 6294,
    "podDelete": 270,
    "nodeUpdate": 268,
    "schedulePod": 92,
    "bindingCycle": 90,
    "postStart": 89,
    "preStop": 89,
    "podAdd": 55,
    "nodeAdd": 16,
}
LINES, UNIQUE, JOBS, COMPLETE = 7263, 1414, 25, 88


def line(**values: Any) -> str:
    """A line with the sniffer's keys in its order, without those that are empty."""
    kept = {key: values[key] for key in KEYS if values.get(key) or key in ("object", "name")}
    return json.dumps(kept, separators=(",", ":"))


def go(at: datetime, fraction: str = "", monotonic: str = " m=+82.830000001") -> str:
    """A time as Go prints it; `fraction` are the digits after the point."""
    return f"{at:%Y-%m-%d %H:%M:%S}{'.' * bool(fraction)}{fraction} +0000 UTC{monotonic}"


def stamp(milliseconds: int, digits: int = 9) -> str:
    """So long after the beginning; the digits below a millisecond are made up."""
    at = BEGIN + timedelta(milliseconds=milliseconds)
    return go(at, f"{at.microsecond // 1000:03d}{'887638'[: digits - 3]}")


def send(endpoint: str, pod: str, node: str, event: str, timestamp: str) -> str:
    return line(object="Pod", name=pod, endpoint=endpoint, node=node, event=event, timestamp=timestamp)


def seen(endpoint: str, pod: str, node: str, event: str, at: datetime | None = None, reason: str = "") -> str:
    """What the watcher writes: a phase, or a condition with its second."""
    when = go(at, monotonic="") if at is not None else ""
    return line(
        object="Pod", name=pod, endpoint=endpoint, node=node, event=event, timestamp=when, reason=reason
    )


def capacity(endpoint: str, node: str, order: tuple[str, ...]) -> str:
    has = {"cpu": "4", "memory": "32877056Ki", "pods": "110", "ephemeral-storage": "98831908Ki"}
    extra = {f"capacity-{name}": has[name] for name in order} | {"allocatable-cpu": "3920m"}
    return line(object="Node", name=node, endpoint=endpoint, extra=extra)


def ready(endpoint: str, node: str, at: datetime) -> str:
    return line(
        object="Node",
        name=node,
        endpoint=endpoint,
        reason="KubeletReady",
        message="kubelet is posting ready status. AppArmor enabled",
        event="Ready",
        timestamp=go(at, monotonic=""),
    )


def jobs() -> list[list[str]]:
    """25 jobs of 2 to 6 pods; eight of the hundred pods left no trace."""
    letters = "bcdfghjklmnpqrstvwxz2456789"
    ends = ("".join(each) for each in permutations(letters, 5))
    names = [
        [f"job-0-{turn}-size-{size}-{index}-{next(ends)}" for index in range(size)]
        for turn in range(5)
        for size in range(2, 7)
    ]
    for job in names[-4:]:
        del job[-2:]
    return names


def golden() -> list[str]:
    """A log as large as that of the sniffer's own run, with the same counts of everything."""
    pods = [pod for job in jobs() for pod in job]
    unbound, failed, silent, untold = pods[:4]
    orders = list(permutations(("cpu", "memory", "pods", "ephemeral-storage")))
    lines: list[str] = []
    for node in NODES:
        lines += [capacity("nodeAdd", node, orders[0]), ready("nodeAdd", node, BEGIN)]
    for number in range(11):
        name, node = f"collector-{number}", NODES[number % 8]
        lines.append(seen("podAdd", name, node, "Running"))
        for event in ("Initialized", "Ready", "ContainersReady", "PodScheduled"):
            lines.append(seen("podAdd", name, node, event, BEGIN - timedelta(minutes=26)))
    for number, pod in enumerate(pods):
        node, start = NODES[number % 8], number * 600
        bound = start + ((17, 3550)[number - 4] if 4 <= number < 6 else 253 + (number % 3 - 1) * 20)
        begun = bound + ((510, 2670)[number - 4] if 4 <= number < 6 else 1070 + (number % 3 - 1) * 30)
        lines.append(send("schedulePod", pod, node, "ScheduleSuccess", stamp(start, 3 + number % 7)))
        if pod not in (unbound, untold):
            lines.append(send("bindingCycle", pod, node, "BindingSuccess", stamp(bound, 3 + number % 5)))
        if pod not in (unbound, failed, silent):
            lines.append(send("postStart", pod, node, "postStart", stamp(begun)))
            lines.append(send("preStop", pod, node, "preStop", stamp(begun + 9950 + number % 5 * 10)))
    where = {pod: NODES[number % 8] for number, pod in enumerate(pods)}
    lines += _watched([pod for pod in pods if pod not in (unbound, failed, silent)], failed, where)
    for number in range(134):
        node = NODES[number % 8]
        lines.append(capacity("nodeUpdate", node, orders[1 + number // 8]))
        lines.append(ready("nodeUpdate", node, BEGIN + timedelta(seconds=number)))
    return lines


def _watched(pods: list[str], failed: str, where: dict[str, str]) -> Iterator[str]:
    """Updates of pods, most of them again and again, and their end."""
    updates: list[str] = []
    for number, pod in enumerate(pods):
        updates.append(seen("podUpdate", pod, where[pod], "Running"))
        at = BEGIN + timedelta(seconds=number)
        updates += [
            seen("podUpdate", pod, where[pod], event, at)
            for event in ("PodScheduled", "Initialized", "Ready")
        ]
        updates.append(seen("podUpdate", pod, where[pod], "Succeeded"))
    yield from updates
    yield from [updates[0]] * 32
    yield from islice(cycle(updates[1:]), ENDPOINTS["podUpdate"] - len(updates) - 32)
    for number, pod in enumerate([*pods, failed]):
        yield seen("podDelete", pod, where[pod], "Failed" if pod == failed else "Succeeded")
        for event in ("PodScheduled", "Initialized"):
            at = BEGIN + timedelta(seconds=number)
            yield seen("podDelete", pod, where[pod], event, at, "PodCompleted")
