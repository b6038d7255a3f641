"""How long pods took from stage to stage: percentiles, and who is still on the way.

Called by the command line with what `store.history` found. Pure. A stage counts when it *ended* within the
time asked about. A pod that was in it at the end of that time is open, and one that was gone without passing
it never will: both are counted beside, never left out and never mixed into the percentiles.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from fairlead.model.history import PodHistory


class Stage(NamedTuple):
    """Between two of a pod's times, by their names in `PodHistory`."""

    name: str
    begin: str
    end: str


STAGES = (
    Stage("queue", "queued", "scheduled"),
    Stage("bind", "scheduled", "bound"),
    Stage("start", "bound", "started"),
    Stage("ready", "started", "ready"),
    Stage("run", "started", "finished"),
    Stage("total", "created", "started"),
)
"""`total` is from creation to the first container."""
_BY = ("namespace", "owner", "scheduler", "node", "group")


class Latency(NamedTuple):
    """Of one stage and one kind of pods: lengths in milliseconds that occur (nearest rank), 0 without any.

    `open` are in the stage, the longest for `longest`; `never` were gone before they had passed it.
    """

    key: str
    stage: str
    n: int
    p50: int
    p90: int
    p99: int
    most: int
    open: int
    longest: int
    never: int


def grouping(by: str) -> Callable[[PodHistory], str]:
    """What pods are told apart by: namespace, owner, scheduler, node, group or label:KEY; "" for nothing.

    Raises ValueError for anything else.
    """
    kind, colon, key = by.partition(":")
    if kind == "label" and key:
        return lambda pod: pod.labels.get(key, "")
    if colon or by not in ("", *_BY):
        raise ValueError(f"{by!r}: give {', '.join(_BY)} or label:KEY")
    if by == "owner":
        return lambda pod: f"{pod.owner_kind}/{pod.owner_name}" if pod.owner_name else ""
    return lambda pod: str(getattr(pod, by)) if by else ""


class Lengths:
    """Of one stage and one kind of pods: filled pod by pod, then asked."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.open: list[int] = []
        self.never = 0

    def any(self) -> bool:
        return bool(self.done or self.open or self.never)

    def add(self, begin: int, end: int, gone: int, since: int, until: int) -> None:
        """Milliseconds since the epoch; `gone` is when the pod had ended, 0 = not."""
        if not begin or begin >= until:
            return
        if end and end < until:
            if end >= since:
                self.done.append(end - begin)
        elif gone and gone < until:
            self.never += gone >= since
        else:
            self.open.append(until - begin)


class Stages:
    """Pods told apart by `key`, filled pod by pod, as of `until`; what ended before `since` is past."""

    def __init__(self, key: Callable[[PodHistory], str], since: int, until: int) -> None:
        self._key, self._since, self._until = key, since, until
        self.found: dict[str, dict[str, Lengths]] = {}

    def add(self, pod: PodHistory) -> None:
        """Each of its stages."""
        stages = self.found.setdefault(self._key(pod), {stage.name: Lengths() for stage in STAGES})
        gone = min((at for at in (pod.finished, pod.deleted) if at), default=0)
        for name, begin, end in STAGES:
            stages[name].add(getattr(pod, begin), getattr(pod, end), gone, self._since, self._until)

    def rows(self) -> list[Latency]:
        """One per kind of pod and stage that anybody came to, in the order of names and of stages."""
        return [
            _row(key, stage, lengths)
            for key in sorted(self.found)
            for stage in STAGES
            if (lengths := self.found[key][stage.name]).any()
        ]


def _row(key: str, stage: Stage, all_: Lengths) -> Latency:
    p50, p90, p99 = ranks(all_.done, (50, 90, 99))
    longest = max(all_.open, default=0)
    most = max(all_.done, default=0)
    return Latency(key, stage.name, len(all_.done), p50, p90, p99, most, len(all_.open), longest, all_.never)


def ranks(values: Sequence[int], percents: Sequence[int]) -> list[int]:
    """For each percentage the smallest value that so many percent do not exceed; 0 without values."""
    if not values:
        return [0] * len(percents)
    return [int(v) for v in np.percentile(np.array(values), percents, method="inverted_cdf")]
