"""Node occupancy as the sniffer's plots read it: `[interval, node, count]`, and the times of each pod.

Called by `fairlead history export --format sniffer`. Pure: intervals in, JSON out. As the sniffer counts,
a pod is there in an interval if it was bound before its beginning and ended at its end or later; zeros are
left out. Unlike there, nodes are numbered by name, so the same history gives the same bytes.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from fairlead.recorder import gotime

_ZONE = " +0000 UTC"
_NOT_TOLD = "None"
"""How the sniffer's files say that there is no such time."""


class Held(NamedTuple):
    """A pod and the node that it held. Times in milliseconds since the epoch, 0 = not known or not yet.

    `start` is when it was bound, `end` when it ended.
    """

    pod: str
    node: str
    start: int
    end: int
    started: int = 0
    scheduled: int = 0


def occupancy(held: Iterable[Held], intervals: int, nodes: Iterable[str] = ()) -> list[tuple[int, int, int]]:
    """Interval, node and count where that is not 0, by interval and node.

    The time from the first start or end to the last is cut into so many equal intervals, from 0. Nodes are
    numbered by name, `nodes` being more of them, which may be empty. Pods that have not ended are left out.
    """
    if intervals < 1:
        raise ValueError("there must be an interval")
    all_held = [each for each in held if each.start]
    names = sorted({*nodes, *(each.node for each in all_held)})
    number = {name: index for index, name in enumerate(names)}
    begin, end = bounds(all_held)
    span = end - begin
    steps = [[0] * (intervals + 1) for _ in names]
    for each in all_held if span else ():
        # Interval i is from begin + span * i / intervals on: compared without dividing.
        first = (each.start - begin) * intervals // span + 1
        last = (each.end - begin) * intervals // span - 1
        if each.end and first <= last:
            steps[number[each.node]][first] += 1
            steps[number[each.node]][last + 1] -= 1
    counts = [(index, node, count) for node, step in enumerate(steps) for index, count in _summed(step)]
    return sorted(counts)


def bounds(held: Iterable[Held]) -> tuple[int, int]:
    """The first and the last time of pods that have a start; 0 without any."""
    times = [time for each in held if each.start for time in (each.start, each.end) if time]
    return min(times, default=0), max(times, default=0)


def _summed(step: Sequence[int]) -> Iterable[tuple[int, int]]:
    count = 0
    for index, change in enumerate(step):
        count += change
        if count:
            yield index, count


def nodes_json(name: str, held: Iterable[Held], intervals: int, nodes: Iterable[str] = ()) -> bytes:
    """The sniffer's nodes.json: one experiment of that name. Arguments as for `occupancy`."""
    title = " ".join(word.capitalize() for word in name.split("-"))
    data = {"chart_options": {}, "values": {"data": occupancy(held, intervals, nodes)}}
    return _pretty([{"id": name, "title": f"Experiment {title}", "data": data}])


def pod_times_json(held: Iterable[Held]) -> bytes:
    """The sniffer's pod-times.json: the times of each pod that has a start and an end, by name."""
    return _pretty(
        {
            each.pod: {
                "start": _text(each.start),
                "end": _text(each.end),
                "post_start": _text(each.started),
                "schedule_time": _text(each.scheduled),
            }
            for each in held
            if each.start and each.end
        }
    )


def _text(milliseconds: int) -> str:
    """As Python writes a time: six digits after the point, or none and no point."""
    if not milliseconds:
        return _NOT_TOLD
    seconds, rest = divmod(milliseconds, 1000)
    whole = gotime.written(seconds * 1_000_000_000).removesuffix(_ZONE)
    return f"{whole}.{rest:03d}000" if rest else whole


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=4) + b"\n"
