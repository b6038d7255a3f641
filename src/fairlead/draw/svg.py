"""The few parts of which all figures are made: panels, axes, ticks, texts, hover titles.

Called by `sim.figure*` and `recorder.figures*`; `draw.page` puts panels onto a page. Pure text; numbers are
written with at most two digits behind the point, so that the same result gives the same bytes.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import NamedTuple

WIDTH = 1000
LEFT, RIGHT, TOP, BOTTOM = 72, 12, 10, 42
"""What axes and their words need around the plot, in pixels of a panel that is WIDTH wide."""
COLOURS = ("#3a7fc1", "#e0822b", "#2f9e6e", "#a566c4", "#c94f5e", "#8a8f98")
"""One per policy; told apart on light and on dark ground, also by most who see no red or green."""
_UNITS = ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1000, "seconds"))


Scale = Callable[[float], float]
"""From a value to its height in a panel."""


class Panel(NamedTuple):
    """One figure: its title, a sentence on how to read it, its height in pixels, and its SVG elements."""

    title: str
    caption: str
    height: int
    body: str


class Legend(NamedTuple):
    colour: str
    text: str


def number(value: float) -> str:
    """A coordinate."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def plain(value: float) -> str:
    """A number for people: 1,200 or 0.25."""
    return f"{value:,.0f}" if value == int(value) else f"{value:.3g}"


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "", turn: bool = False) -> str:
    """Words at a place; `turn` lets them read upwards."""
    turned = f' transform="rotate(-90 {number(x)} {number(y)})"' if turn else ""
    classes = f' class="{kind}"' if kind else ""
    place = f'x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"'
    return f"<text {place}{classes}{turned}>{escape(words)}</text>"


def rect(x: float, y: float, width: float, height: float, attributes: str, title: str = "") -> str:
    """A rectangle; `title` is what is shown where the mouse rests on it."""
    place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
    if not title:
        return f"<rect {place} {attributes}/>"
    return f"<rect {place} {attributes}><title>{escape(title)}</title></rect>"


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    place = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line {place} class="{kind}"/>'


def path(points: Iterable[tuple[float, float]], attributes: str) -> str:
    """A line through points."""
    steps = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    return f'<polyline points="{steps}" {attributes}/>'


# -- scales ------------------------------------------------------------------------------------------


class Times(NamedTuple):
    """The time axis of all panels of a page: milliseconds from `first` to `last`, told since `origin`."""

    first: int
    last: int
    origin: str = "the first submission"

    def x(self, at: float) -> float:
        """Where an instant lies in a panel."""
        return LEFT + (at - self.first) / max(self.last - self.first, 1) * (WIDTH - LEFT - RIGHT)

    def axis(self, height: int) -> str:
        """Ticks and words below a panel of this height."""
        span = max(self.last - self.first, 1)
        unit, name = next((u for u in _UNITS if span >= 3 * u[0]), _UNITS[-1])
        parts = [
            line(x := self.x(self.first + tick * unit), TOP, x, height - BOTTOM, "grid")
            + text(x, height - BOTTOM + 14, plain(tick), anchor="middle")
            for tick in ticks(span / unit)
        ]
        words = f"{name} since {self.origin}"
        return "".join(parts) + text((LEFT + WIDTH - RIGHT) / 2, height - 10, words, anchor="middle")


def ticks(most: float, wanted: int = 8) -> list[float]:
    """Round numbers from 0 to `most`."""
    if most <= 0:
        return [0.0]
    rough = most / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
    return [round(n * step, 10) for n in range(math.floor(most / step + 1e-9) + 1)]


def y_axis(height: int, marks: Sequence[tuple[float, str]], place: Scale, name: str) -> str:
    """Lines across the plot at the marks, their words at the left, and what the axis is."""
    parts = [
        line(LEFT, place(value), WIDTH - RIGHT, place(value), "grid")
        + text(LEFT - 6, place(value) + 4, words, anchor="end")
        for value, words in marks
    ]
    middle = (TOP + height - BOTTOM) / 2
    return "".join(parts) + text(12, middle, name, anchor="middle", turn=True)


def linear(height: int, most: float) -> Scale:
    """From 0 at the bottom of the plot to `most` at its top."""
    return lambda value: height - BOTTOM - value / (most or 1) * (height - BOTTOM - TOP)


def legend(entries: Iterable[Legend], y: float = TOP + 6, x: float = LEFT + 6) -> str:
    """Coloured squares with words, in one line on a ground of their own."""
    parts: list[str] = []
    at = x
    for entry in entries:
        parts.append(rect(at, y, 10, 10, f'fill="{entry.colour}"') + text(at + 14, y + 9, entry.text))
        at += 30 + 6.4 * len(entry.text)
    return rect(x - 4, y - 4, at - x, 18, 'class="ground"') + "".join(parts)
