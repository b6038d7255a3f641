"""How long and how well, as figures: histograms of latencies, utilisation and fragmentation over time.

Called by the command line, which brings words and a page.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from fairlead.draw import svg
from fairlead.draw.clock import Clock, instant
from fairlead.recorder.figures import Gaps, gaps
from fairlead.recorder.latency import STAGES, Lengths, ranks
from fairlead.recorder.occupancy import Floats, Ints
from fairlead.recorder.usage import Usage

_HEIGHT = 190
_PER_DECADE = 6
_ROOM = 1.5
"""So much higher than the highest bar: room for words."""
_TICKS = (
    (1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (1000, "1 s"), (10_000, "10 s"), (60_000, "1 min"),
    (600_000, "10 min"), (3_600_000, "1 h"), (36_000_000, "10 h"), (864_000_000, "10 d"),
    (8_640_000_000, "100 d"), (86_400_000_000, "1000 d"),
)  # fmt: skip
_MOST_KINDS = len(svg.COLOURS)


# -- latencies ---------------------------------------------------------------------------------------


def histograms(found: dict[str, dict[str, Lengths]], words: Callable[[int], str]) -> list[svg.Panel]:
    """A panel per stage that any pod has passed, all on one logarithmic axis; a colour per kind of pods.

    Beyond six kinds, those with the fewest pods are drawn as one.
    """
    every = [length for stages in found.values() for lengths in stages.values() for length in lengths.done]
    if not every:
        return []
    bounds = _bounds(every)
    kinds = _kinds(found)
    return [
        _histogram(stage.name, bounds, kinds, words)
        for stage in STAGES
        if any(lengths[stage.name].done for _, lengths in kinds)
    ]


def _kinds(found: dict[str, dict[str, Lengths]]) -> list[tuple[str, dict[str, Lengths]]]:
    order = sorted(found, key=lambda key: (-len(found[key][STAGES[-1].name].done), key))
    if len(order) <= _MOST_KINDS:
        return [(key, found[key]) for key in order]
    rest = {stage.name: Lengths() for stage in STAGES}
    for key in order[_MOST_KINDS - 1 :]:
        for name, lengths in found[key].items():
            rest[name].done += lengths.done
            rest[name].open += lengths.open
            rest[name].never += lengths.never
    return [*((key, found[key]) for key in order[: _MOST_KINDS - 1]), ("others", rest)]


def _bounds(every: Sequence[int]) -> Floats:
    """The ends of the classes, from the shortest to the longest: so many per power of ten."""
    low = math.floor(math.log10(max(min(every), 1)) * _PER_DECADE)
    high = math.floor(math.log10(max(max(every), 1)) * _PER_DECADE) + 1
    return np.power(10.0, np.arange(low, high + 1) / _PER_DECADE)


def _histogram(
    stage: str, bounds: Floats, kinds: Sequence[tuple[str, dict[str, Lengths]]], words: Callable[[int], str]
) -> svg.Panel:
    counts = [np.histogram(np.clip(lengths[stage].done, bounds[0], None), bounds)[0] for _, lengths in kinds]
    total = np.sum(counts, axis=0)
    most = int(total.max())
    place = svg.linear(_HEIGHT, most * _ROOM)
    low, high = math.log10(bounds[0]), math.log10(bounds[-1])

    def x(value: float) -> float:
        share = (math.log10(max(value, bounds[0])) - low) / (high - low)
        return svg.LEFT + share * (svg.WIDTH - svg.LEFT - svg.RIGHT)

    marks = [(tick, svg.plain(tick)) for tick in svg.ticks(most, 4) if tick == int(tick)]
    parts = [svg.y_axis(_HEIGHT, marks, place, "pods")]
    for value, name in _TICKS:
        if bounds[0] <= value <= bounds[-1]:
            parts.append(svg.line(x(value), svg.TOP, x(value), _HEIGHT - svg.BOTTOM, "grid"))
            parts.append(svg.text(x(value), _HEIGHT - svg.BOTTOM + 14, name, anchor="middle"))
    below = np.zeros(len(total))
    for n, count in enumerate(counts):
        parts += _bars(count, below, bounds, x, place, n, kinds[n][0], words)
        below = below + count
    done = [length for _, lengths in kinds for length in lengths[stage].done]
    parts += _ranks(done, x, words)
    if len(kinds) > 1:
        entries = [svg.Legend(svg.COLOURS[n], key or "-") for n, (key, _) in enumerate(kinds)]
        parts.append(svg.legend(entries, y=_HEIGHT - 14))
    waiting = sum(len(lengths[stage].open) for _, lengths in kinds)
    caption = f"{len(done):,} pods have passed it" + (f", {waiting:,} are in it still." if waiting else ".")
    return svg.Panel(f"Latency: {stage}", caption, _HEIGHT, "".join(parts))


def _bars(
    count: Ints, below: Floats, bounds: Floats, x: svg.Scale, place: svg.Scale, n: int, key: str,
    words: Callable[[int], str],
) -> list[str]:  # fmt: skip
    """On top of what other kinds have."""
    parts: list[str] = []
    for (begin, end), many, under in zip(pairwise(bounds), count, below, strict=True):
        if many:
            top, floor = place(float(under + many)), place(float(under))
            title = f"{key + chr(10) if key else ''}{words(int(begin))} to {words(int(end))}: {many:,} pods"
            fill = f'fill="{svg.COLOURS[n]}" fill-opacity=".75" class="bar"'
            parts.append(svg.rect(x(begin), top, x(end) - x(begin) - 1, floor - top, fill, title))
    return parts


def _ranks(done: Sequence[int], x: svg.Scale, words: Callable[[int], str]) -> list[str]:
    """Lines at the median, 90 and 99 %, each of another height: none runs through another's words."""
    parts: list[str] = []
    for n, (percent, value) in enumerate(zip((50, 90, 99), ranks(done, (50, 90, 99)), strict=True)):
        at = x(value)
        left = at > svg.WIDTH - 160
        top = svg.TOP + 14 * (2 - n if left else n)
        parts.append(svg.line(at, top, at, _HEIGHT - svg.BOTTOM, "median"))
        told = f"{percent} %: {words(value)}"
        anchor, beside = ("end", -4) if left else ("start", 4)
        parts.append(svg.text(at + beside, top + 11, told, anchor=anchor))
    return parts


# -- usage -------------------------------------------------------------------------------------------


def usage(found: dict[str, Usage], edges: Ints, gaps_: Gaps) -> list[svg.Panel]:
    """Utilisation, then fragmentation, a line per resource that any node has."""
    known = {name: each for name, each in found.items() if each.capacity.any()}
    if not known:
        return []
    return [
        _shares("Utilisation", "in use", {name: each.share for name, each in known.items()}, edges, gaps_),
        _shares("Fragmentation", "of what is free", {name: each.fragmented for name, each in known.items()},
                edges, gaps_),
    ]  # fmt: skip


def _shares(title: str, name: str, lines: dict[str, Floats], edges: Ints, found: Gaps) -> svg.Panel:
    """Shares that are not known (nothing was free) leave a hole in their line."""
    times = Clock(int(edges[0]), int(edges[-1]))
    top = max(1.0, *(float(np.nan_to_num(line).max()) for line in lines.values()))
    place = svg.linear(_HEIGHT, top)
    marks = [(share, f"{share * 100:.3g} %") for share in svg.ticks(top, 4)]
    parts = [svg.y_axis(_HEIGHT, marks, place, name), times.axis(_HEIGHT)]
    for n, line in enumerate(lines.values()):
        style = f'fill="none" stroke="{svg.COLOURS[n]}" stroke-width="1.8"'
        parts += [svg.path(points, style) for points in _stairs(line, edges, times, place)]
    parts += _titles(lines, edges, times)
    parts.append(gaps(times, found, _HEIGHT))
    entries = [svg.Legend(svg.COLOURS[n], resource) for n, resource in enumerate(lines)]
    caption = "Means over stretches of time."
    return svg.Panel(title, caption, _HEIGHT + 18, "".join(parts) + svg.legend(entries, y=_HEIGHT))


def _stairs(line: Floats, edges: Ints, times: Clock, place: svg.Scale) -> list[list[tuple[float, float]]]:
    """Connected parts."""
    found: list[list[tuple[float, float]]] = [[]]
    for (begin, end), value in zip(pairwise(edges), line, strict=True):
        if math.isnan(value):
            found.append([])
        else:
            y = place(float(value))
            found[-1] += [(times.x(int(begin)), y), (times.x(int(end)), y)]
    return [part for part in found if part]


def _titles(lines: dict[str, Floats], edges: Ints, times: Clock) -> list[str]:
    """Invisible columns that tell the numbers of their stretch."""
    parts: list[str] = []
    for j, (begin, end) in enumerate(pairwise(edges)):
        told = [f"{name} {'-' if math.isnan(line[j]) else f'{line[j]:.1%}'}" for name, line in lines.items()]
        x, width = times.x(int(begin)), times.x(int(end)) - times.x(int(begin))
        title = "\n".join([f"{instant(int(begin))} to {instant(int(end))}", *told])
        parts.append(svg.rect(x, svg.TOP, width, _HEIGHT - svg.TOP - svg.BOTTOM, 'class="hover"', title))
    return parts
