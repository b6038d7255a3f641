"""Who was where, as figures: how full each node was (a heat map as the sniffer's), and pods on nodes (Gantt).

Called by the command line, which brings words and a page. Time goes to the right, nodes downwards by their
names. Times when nothing was recorded are hatched, so that a gap is not taken for an idle cluster.
"""

import heapq
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fairlead.draw import png, svg
from fairlead.draw.clock import Clock, instant
from fairlead.model.history import PodHistory
from fairlead.recorder.occupancy import Buckets

FULL, OVER = svg.COLOURS[:2]
_MOST_CELLS = 8_000
"""Rectangles; with more, they are one picture and only whole nodes have titles."""
_MOST_TITLES = 500
_LEVELS = 64
_TALL, _LEAST = 22, 3
_PLOT = 640
_LABEL = 11
_HATCH = (
    '<defs><pattern id="gap" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" class="gap"/></pattern></defs>'
)
Gaps = Sequence[tuple[int, int]]


class Rows(NamedTuple):
    """Lines of a panel: so many, each so high."""

    many: int
    height: float

    @property
    def panel(self) -> int:
        return svg.TOP + round(self.many * self.height) + svg.BOTTOM

    def y(self, row: float) -> float:
        return svg.TOP + row * self.height


def rows(count: int, tall: float = _TALL, least: float = _LEAST) -> Rows:
    """As high as there is room for."""
    return Rows(count, min(max(_PLOT / max(count, 1), least), tall))


def labels(names: Sequence[str], places: Sequence[float], gap: float) -> str:
    """Names at the left, of as many as there is room for; `gap` is how far lines are from one another."""
    every = max(1, -(-_LABEL // max(round(gap), 1)))
    parts = [
        svg.text(svg.LEFT - 6, y + 4, _short(name), anchor="end")
        for name, y in list(zip(names, places, strict=True))[::every]
    ]
    return "".join(parts)


def _short(name: str) -> str:
    return name if len(name) <= 11 else f"…{name[-10:]}"


def gaps(times: Clock, found: Gaps, height: int) -> str:
    """Hatched bands over the plot."""
    parts = [
        svg.rect(
            times.x(begin), svg.TOP, max(times.x(end) - times.x(begin), 1), height - svg.TOP - svg.BOTTOM,
            'fill="url(#gap)"', f"a gap in the record\n{instant(begin)} to {instant(end)}",
        )
        for begin, end in found
    ]  # fmt: skip
    return _HATCH + "".join(parts) if parts else ""


# -- occupancy ---------------------------------------------------------------------------------------


class Heat(NamedTuple):
    """What a heat map shows: `full[node]` is the value of the darkest colour; `words` tells a value."""

    what: str
    found: Buckets
    room: Buckets
    full: Sequence[float]
    words: Callable[[float], str]


def heat(map_: Heat, found: Gaps) -> svg.Panel:
    """Each cell the mean of its stretch. What is over the full amount has another colour."""
    nodes, edges = map_.found.nodes, map_.found.edges
    times = Clock(int(edges[0]), int(edges[-1]))
    lines = rows(len(nodes))
    places = [lines.y(i + 0.5) for i in range(len(nodes))]
    shares = map_.found.mean / np.maximum(np.array(map_.full)[:, None], 1e-9)
    few = shares.size <= _MOST_CELLS
    cells = "".join(_cells(map_, shares, times, lines)) if few else _picture(map_, shares, times, lines)
    body = times.axis(lines.panel) + labels(nodes, places, lines.height) + cells
    body += gaps(times, found, lines.panel)
    entries = [svg.Legend(FULL, f"the fuller the colour, the more {map_.what} in use")]
    if (shares > 1 + 1e-9).any():
        entries.append(svg.Legend(OVER, "more than there is"))
    caption = "Each cell is the mean of its stretch of time."
    return svg.Panel(
        f"Occupancy: {map_.what}", caption, lines.panel + 18, body + svg.legend(entries, y=lines.panel)
    )


def _cells(map_: Heat, shares: np.ndarray, times: Clock, lines: Rows) -> list[str]:
    """A rectangle per node and stretch of which anything is known."""
    ends = [int(edge) for edge in map_.found.edges]
    parts: list[str] = []
    for i, name in enumerate(map_.found.nodes):
        for j, (begin, end) in enumerate(pairwise(ends)):
            share, there = float(shares[i, j]), bool(map_.room.mean[i, j] > 0)
            if not there and not share:
                continue
            x, y = times.x(begin), lines.y(i)
            width, height = times.x(end) - x, lines.height - min(1, lines.height / 8)
            mean, peak = map_.words(float(map_.found.mean[i, j])), map_.words(float(map_.found.peak[i, j]))
            title = f"{name}\n{instant(begin)} to {instant(end)}\n{mean} on average, {peak} at most"
            parts.append(svg.rect(x, y, width, height, _fill(share), title))
    return parts


def _fill(share: float) -> str:
    """A node that is there and empty is not the same as no node."""
    if not share:
        return 'class="empty"'
    colour = OVER if share > 1 + 1e-9 else FULL
    return f'fill="{colour}" fill-opacity="{svg.number(0.12 + 0.88 * min(share, 1))}" class="cell"'


def _picture(map_: Heat, shares: np.ndarray, times: Clock, lines: Rows) -> str:
    """The same as one image; the nodes that were the fullest tell their mean over all the time."""
    index = np.ceil(np.clip(shares, 0, 1) * (_LEVELS - 2)).astype(np.uint8)
    index[shares > 1 + 1e-9] = _LEVELS - 1
    full, over = png.mixtures(FULL, OVER, 2)
    palette = [full] * (_LEVELS - 1) + [over]
    alpha = [0, *(round(30 + 225 * n / (_LEVELS - 2)) for n in range(1, _LEVELS - 1)), 255]
    widths = np.diff([times.x(int(edge)) for edge in map_.found.edges])
    even = np.repeat(index, np.maximum(np.rint(widths * 2), 1).astype(int), axis=1)
    image = png.image(png.indexed(np.ascontiguousarray(even), palette, alpha), lines.panel)
    mean = np.average(map_.found.mean, axis=1, weights=np.diff(map_.found.edges))
    fullest = sorted(range(len(mean)), key=lambda i: (-mean[i], i))[:_MOST_TITLES]
    titles = (
        svg.rect(svg.LEFT, lines.y(i), svg.WIDTH - svg.LEFT - svg.RIGHT, lines.height, 'class="hover"',
                 f"{map_.found.nodes[i]}\n{map_.words(float(mean[i]))} on average")
        for i in sorted(fullest)
    )  # fmt: skip
    return image + "".join(titles)


# -- pods over nodes ---------------------------------------------------------------------------------


class Bar(NamedTuple):
    """A pod in its lane, counted over all nodes."""

    pod: PodHistory
    lane: int
    until: int


def lanes(pods: Sequence[PodHistory], until: int) -> tuple[list[Bar], dict[str, tuple[int, int]]]:
    """(every pod with a node, in its node's lowest free lane; by node the first of its lanes and how many).

    What is open goes on until `until`.
    """
    by_node: dict[str, list[PodHistory]] = {}
    for pod in pods:
        if pod.node:
            by_node.setdefault(pod.node, []).append(pod)
    bars: list[Bar] = []
    found: dict[str, tuple[int, int]] = {}
    first = 0
    for name in sorted(by_node):
        mine, used = _node_lanes(by_node[name], until)
        bars += [Bar(pod, first + lane, end) for pod, lane, end in mine]
        found[name] = (first, used)
        first += used
    return bars, found


def _node_lanes(pods: Sequence[PodHistory], until: int) -> tuple[list[tuple[PodHistory, int, int]], int]:
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    used = 0
    found: list[tuple[PodHistory, int, int]] = []
    for pod in sorted(pods, key=lambda pod: (pod.since, pod.until or until, pod.uid)):
        while busy and busy[0][0] <= pod.since:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else used
        used = max(used, lane + 1)
        end = max(pod.until or until, pod.since)
        heapq.heappush(busy, (end, lane))
        found.append((pod, lane, end))
    return found, used


def gantt(
    pods: Sequence[PodHistory], times: Clock, found: Gaps, told: Callable[[PodHistory], str]
) -> svg.Panel:
    """Pods on their nodes, coloured by namespace; `told` says the rest where the mouse rests."""
    bars, nodes = lanes([pod for pod in pods if pod.since < times.last], times.last)
    count = sum(used for _, used in nodes.values())
    lines = rows(count, 14, 2)
    spaces = [pod.namespace for pod, _, _ in bars]
    common = sorted(set(spaces), key=lambda space: (-spaces.count(space), space))[: len(svg.COLOURS) - 1]
    colours = dict(zip(common, svg.COLOURS, strict=False))
    parts = [times.axis(lines.panel)]
    parts += [
        svg.line(svg.LEFT, lines.y(first), svg.WIDTH - svg.RIGHT, lines.y(first), "grid")
        for first, _ in nodes.values()
    ]
    middles = [lines.y(first + used / 2) for first, used in nodes.values()]
    parts.append(_node_names(nodes, middles))
    parts += [_bar(bar, times, lines, colours.get(bar.pod.namespace, svg.COLOURS[-1]), told) for bar in bars]
    parts.append(gaps(times, found, lines.panel))
    entries = [svg.Legend(colour, space) for space, colour in colours.items()]
    if len(set(spaces)) > len(common):
        entries.append(svg.Legend(svg.COLOURS[-1], "other namespaces"))
    waiting = sum(not pod.node for pod in pods)
    caption = "A bar is a pod on its node; with a dashed edge it has not ended, with a red edge it failed."
    if waiting:
        caption += f" {waiting:,} have no node (yet) and are not drawn."
    body = "".join(parts) + svg.legend(entries, y=lines.panel)
    return svg.Panel("Pods on nodes", caption, lines.panel + 18, body)


def _node_names(nodes: dict[str, tuple[int, int]], middles: Sequence[float]) -> str:
    """A name stands at the middle of its lanes; one that would touch the name above is left out."""
    parts: list[str] = []
    last = float("-inf")
    for name, y in zip(nodes, middles, strict=True):
        if y - last >= _LABEL:
            parts.append(svg.text(svg.LEFT - 6, y + 4, _short(name), anchor="end"))
            last = y
    return "".join(parts)


def _bar(bar: Bar, times: Clock, lines: Rows, colour: str, told: Callable[[PodHistory], str]) -> str:
    x = times.x(bar.pod.since)
    width = max(times.x(bar.until) - x, 0.5)
    kind = "bar open" if not bar.pod.until else "bar failed" if bar.pod.ended == "failed" else "bar"
    fill = f'fill="{colour}" fill-opacity=".85" class="{kind}"'
    return svg.rect(x, lines.y(bar.lane) + 0.5, width, max(lines.height - 1, 1), fill, told(bar.pod))
