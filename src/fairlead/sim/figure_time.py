"""Utilisation and queue length over time.

Called by `sim.figure`. Few samples are drawn as they are; of many, the mean over each of a few hundred
stretches of time, and for the queue its peak as well, so that no peak is lost.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead.draw import svg
from fairlead.sim.workload import Result

STRETCHES = 460
_TITLES = 92
_HEIGHT = 190
_PEAK = "#9aa3ad"
Floats = npt.NDArray[np.float64]


class Series(NamedTuple):
    """A measure over time: its mean and its peak in each stretch; `edges` has one more than these."""

    edges: Floats
    mean: Floats
    peak: Floats


def stretches(at: Floats, values: Floats, first: float, last: float, n: int) -> Series:
    """Means and peaks of a value that holds from each instant to the next, over n equal stretches."""
    edges = np.linspace(first, max(last, first + 1), n + 1)
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(at))])
    after = np.maximum(edges - at[-1], 0) * values[-1]
    mean = np.diff(np.interp(edges, at, area) + after) / np.diff(edges)
    begin = np.searchsorted(at, edges[:-1], side="right")
    end = np.searchsorted(at, edges[1:], side="left")
    carried = np.where(begin > 0, values[np.maximum(begin - 1, 0)], 0.0)
    inside = [values[b:e].max(initial=0.0) for b, e in zip(begin, end, strict=True)]
    return Series(edges, mean, np.maximum(carried, inside))


def most_used(result: Result) -> float:
    """The top of the axis of utilisation: 1, or less where never more than a tenth was in use."""
    peak = max((sample.used for sample in result.samples), default=0) / (result.capacity or 1)
    return peak if 0 < peak < 0.1 else max(peak, 1.0)


def panels(result: Result, times: svg.Times, most_queued: int, most: float = 1.0) -> list[svg.Panel]:
    """Utilisation up to the share `most`, and the queue; all simulations of a page have the same scales."""
    if not result.samples:
        return []
    at = np.array([sample.at for sample in result.samples], dtype=np.float64)
    used = np.array([sample.used for sample in result.samples], dtype=np.float64)
    queued = np.array([sample.queued for sample in result.samples], dtype=np.float64)
    use = used / (result.capacity or 1)
    return [_utilisation(result, at, use, times, most), _queue(result, at, queued, times, most_queued)]


def _utilisation(result: Result, at: Floats, use: Floats, times: svg.Times, most: float) -> svg.Panel:
    place = svg.linear(_HEIGHT, most)
    shares = (0, 0.25, 0.5, 0.75, 1) if most >= 1 else svg.ticks(most, 4)
    marks = [(share, f"{share * 100:.3g} %") for share in shares]
    series = _series(at, use, times)
    area = f'fill="{svg.COLOURS[0]}" fill-opacity=".55" stroke="none"'
    outline = _steps(series.edges, series.mean, times, place)
    floor = [(outline[-1][0], place(0)), (outline[0][0], place(0))]
    titles = _titles(
        at, use, times, lambda mean, peak: f"{_percent(mean)} in use on average, {_percent(peak)} at most"
    )
    body = svg.y_axis(_HEIGHT, marks, place, "in use") + times.axis(_HEIGHT)
    body += svg.path([*outline, *floor], area) + titles
    return svg.Panel(f"Utilisation: {result.policy}", _drawn(at), _HEIGHT, body)


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _queue(result: Result, at: Floats, queued: Floats, times: svg.Times, most: int) -> svg.Panel:
    place = svg.linear(_HEIGHT, most)
    marks = [(tick, svg.plain(tick)) for tick in svg.ticks(most, 4) if tick == int(tick)]
    series = _series(at, queued, times)
    peaks = svg.path(_steps(series.edges, series.peak, times, place), f'fill="none" stroke="{_PEAK}"')
    means = svg.path(
        _steps(series.edges, series.mean, times, place),
        f'fill="none" stroke="{svg.COLOURS[0]}" stroke-width="1.5"',
    )
    titles = _titles(
        at, queued, times, lambda mean, peak: f"{mean:,.1f} wait on average, {peak:,.0f} at most"
    )
    body = svg.y_axis(_HEIGHT, marks, place, "waiting jobs") + times.axis(_HEIGHT)
    if len(at) > STRETCHES:
        keys = svg.legend([svg.Legend(svg.COLOURS[0], "mean"), svg.Legend(_PEAK, "peak")])
        body += peaks + means + titles + keys
    else:
        body += means + titles
    return svg.Panel(f"Queue length: {result.policy}", _drawn(at), _HEIGHT, body)


def _drawn(at: Floats) -> str:
    return "" if len(at) <= STRETCHES else f"Means over {STRETCHES} equal stretches of time."


def _series(at: Floats, values: Floats, times: svg.Times) -> Series:
    """As sampled where that is little, else over stretches."""
    if len(at) > STRETCHES:
        return stretches(at, values, times.first, max(at[-1], times.first), STRETCHES)
    return Series(np.append(at, at[-1]), values, values)


def _steps(edges: Floats, values: Floats, times: svg.Times, place: svg.Scale) -> list[tuple[float, float]]:
    """Corners of a stair; corners that only go on in a line are left out."""
    points: list[tuple[float, float]] = []
    for left, right, value in zip(edges[:-1], edges[1:], values, strict=True):
        y = place(float(value))
        if points and points[-1][1] == y:
            points[-1] = (times.x(float(right)), y)
        else:
            points += [(times.x(float(left)), y), (times.x(float(right)), y)]
    return points


def _titles(at: Floats, values: Floats, times: svg.Times, words: Callable[[float, float], str]) -> str:
    """Invisible columns that tell the numbers of their stretch."""
    series = stretches(at, values, times.first, times.last, _TITLES)
    parts: list[str] = []
    for left, right, mean, peak in zip(
        series.edges[:-1], series.edges[1:], series.mean, series.peak, strict=True
    ):
        x, width = times.x(float(left)), times.x(float(right)) - times.x(float(left))
        when = f"{left / 1000:,.0f} s to {right / 1000:,.0f} s: "
        box = svg.rect(x, svg.TOP, width, _HEIGHT - svg.TOP - svg.BOTTOM, 'class="hover"',
                       when + words(float(mean), float(peak)))  # fmt: skip
        parts.append(box)
    return "".join(parts)
