"""How well a cluster was used: share of its capacity in use, and how much of what was free was of no use.

Called by the command line with what `recorder.occupancy` made. Pure. Three measures, each a mean over time:

- *utilisation*: what pods requested, over what all nodes had for pods, whatever state the nodes were in;
- *down*: the share of that capacity that lay on nodes which were not ready or cordoned;
- *fragmentation*: of what was free on the other nodes, the share that lay where the most common request does
  not fit as a whole. 0: every free core can be had by such a pod; 1: none. What the most common request lacks
  on a node may be another resource: a free core next to no free GPU is of no use to a pod that needs both.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fairlead.model.history import PodHistory
from fairlead.recorder.occupancy import FOREVER, WHATS, Floats, Ints, Spans, Steps, gpus, steps

RESOURCES = WHATS[1:]
Request = tuple[int, int, int]
"""cpu in milli-cores, memory in bytes, GPUs."""


class Usage(NamedTuple):
    """Of one resource over stretches of time; shares are NaN where nothing could be shared."""

    capacity: Floats
    """Mean, of all nodes."""
    used: Floats
    """Mean."""
    peak: Floats
    """The highest share in use at any instant of the stretch."""
    down: Floats
    """Share of the capacity that was not usable."""
    fragmented: Floats
    """Share of the usable free amount where the request does not fit."""

    @property
    def share(self) -> Floats:
        """Utilisation."""
        return _ratio(self.used, self.capacity)


def shape(pod: PodHistory) -> Request:
    """What a pod requests, of what is counted here."""
    return pod.requests.get("cpu", 0), pod.requests.get("memory", 0), gpus(pod.requests)


def most_common(shapes: Mapping[Request, int]) -> tuple[Request, int]:
    """What most pods request, and how many do; of several as common, the largest. No pods: nothing, 0."""
    return max(shapes.items(), key=lambda item: (item[1], item[0]), default=((0, 0, 0), 0))


def usage(pods: Spans, everybody: Spans, nodes: Spans, request: Request, edges: Ints) -> dict[str, Usage]:
    """By resource. `pods` are those whose use is asked about, `everybody` all that hold something."""
    free, wasted = _free(everybody, nodes, request, edges)
    found: dict[str, Usage] = {}
    for resource in RESOURCES:
        used, whole = pods.of(resource), nodes.of(resource)
        up = steps(nodes.since, nodes.until, np.where(nodes.usable, nodes.amounts[resource], 0))
        all_of = whole.mean(edges)
        found[resource] = Usage(
            all_of,
            used.mean(edges),
            _peak(used, whole, edges),
            1 - _ratio(up.mean(edges), all_of),
            _ratio(wasted[resource], free[resource]),
        )
    return found


def _peak(used: Steps, whole: Steps, edges: Ints) -> Floats:
    """The highest ratio; an instant without any capacity has none."""
    moments = np.unique(np.concatenate([used.at, whole.at, edges[:-1]]))
    ratio = np.nan_to_num(_ratio(used.on(moments).astype(float), whole.on(moments).astype(float)))
    begin = np.searchsorted(moments, edges)
    return np.array([ratio[b:e].max(initial=0.0) for b, e in pairwise(begin)])


def _free(
    pods: Spans, nodes: Spans, request: Request, edges: Ints
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """(what was free on usable nodes, the part of it where the request did not fit), as areas."""
    stretches = len(edges) - 1
    free = {resource: np.zeros(stretches) for resource in RESOURCES}
    wasted = {resource: np.zeros(stretches) for resource in RESOURCES}
    theirs = pods.each()
    nothing = np.zeros(0, np.int64)
    for name, rows in nodes.each().items():
        on_it = theirs.get(name, nothing)
        moments = np.unique(
            np.concatenate([nodes.since[rows], nodes.until[rows], pods.since[on_it], pods.until[on_it]])
        )
        moments = moments[moments < FOREVER]
        left = {what: _left(pods, on_it, nodes, rows, what, moments) for what in WHATS}
        usable = _sum(nodes, rows, nodes.usable.astype(np.int64), moments) > 0
        limited = _sum(nodes, rows, nodes.amounts["count"], moments) > 0
        fits = usable & (~limited | (left["count"] > 0))
        for resource, need in zip(RESOURCES, request, strict=True):
            fits &= left[resource] >= need
        for resource in RESOURCES:
            there = np.where(usable, left[resource], 0)
            free[resource] += Steps(moments, there).area(edges)
            wasted[resource] += Steps(moments, np.where(fits, 0, there)).area(edges)
    return free, wasted


def _left(pods: Spans, on_it: Ints, nodes: Spans, rows: Ints, what: str, moments: Ints) -> Ints:
    """Free of one resource at these moments; a node that shrank below what it holds has nothing free."""
    whole = _sum(nodes, rows, nodes.amounts[what], moments)
    return np.maximum(whole - _sum(pods, on_it, pods.amounts[what], moments), 0)


def _sum(spans: Spans, rows: Ints, amounts: Ints, moments: Ints) -> Ints:
    return steps(spans.since[rows], spans.until[rows], amounts[rows]).on(moments)


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
