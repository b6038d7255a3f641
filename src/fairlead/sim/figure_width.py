"""Bounded slowdown by job width: who pays for the short waits of others.

Called by `sim.figure`. A box per power of two of processors and policy: half of the jobs lie in the box,
the bar in it is the median, the line reaches to the 95th percentile, the dot is the mean.
"""

import math
from collections.abc import Sequence

from fairlead.draw import svg
from fairlead.sim.report import by_width, quantile, slowdown
from fairlead.sim.workload import JobRow, Result

_HEIGHT = 300
_NAMED = 10
"""With more classes only their upper ends are written below them."""


def panel(results: Sequence[Result]) -> svg.Panel:
    """All simulations side by side, on a logarithmic scale."""
    found = [
        {key: sorted(slowdown(row) for row in rows) for key, rows in by_width(_ended(result)).items()}
        for result in results
    ]
    keys = sorted({key for each in found for key in each})
    top = max((_shown_top(values) for each in found for values in each.values()), default=10.0)
    decades = max(math.ceil(math.log10(top) - 1e-9), 1)
    place = svg.linear(_HEIGHT, decades)
    marks = [(float(n), f"{10**n:,}") for n in range(decades + 1)]
    parts = [svg.y_axis(_HEIGHT, marks, place, "bounded slowdown")]
    column = (svg.WIDTH - svg.LEFT - svg.RIGHT) / max(len(keys), 1)
    box = min(column * 0.8 / len(results), 40)
    for n, key in enumerate(keys):
        middle = svg.LEFT + (n + 0.5) * column
        jobs = max(len(each.get(key, ())) for each in found)
        words = name(*key) if len(keys) <= _NAMED else _up_to(key[1])
        parts.append(svg.text(middle, _HEIGHT - svg.BOTTOM + 14, words, anchor="middle"))
        parts.append(svg.text(middle, _HEIGHT - svg.BOTTOM + 27, f"{jobs:,}", anchor="middle", kind="faint"))
        for i, each in enumerate(found):
            if key in each:
                x = middle + (i - len(results) / 2) * box
                title = f"{results[i].policy}, {name(*key)} processors: {len(each[key]):,} jobs"
                parts.append(_box(each[key], x, box, place, svg.COLOURS[i % len(svg.COLOURS)], title))
    words = "processors of the job, and how many jobs"
    parts.append(svg.text(svg.WIDTH - svg.RIGHT, _HEIGHT + 8, words, anchor="end"))
    if len(results) > 1:
        keys_of = [svg.Legend(svg.COLOURS[i % len(svg.COLOURS)], r.policy) for i, r in enumerate(results)]
        parts.append(svg.legend(keys_of, y=_HEIGHT - 2))
    caption = "Half of the jobs lie in the box; bar: median, line: up to the 95th percentile, dot: mean."
    return svg.Panel("Bounded slowdown by width", caption, _HEIGHT + 14, "".join(parts))


def name(low: int, high: int) -> str:
    """5–8, or 1."""
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _up_to(high: int) -> str:
    """Short, where there are many: ≤512, ≤16Ki."""
    return f"≤{high}" if high < 1 << 13 else f"≤{high >> 10}Ki"


def _ended(result: Result) -> list[JobRow]:
    return [row for row in result.rows if row.start >= 0 and row.end >= 0]


def _shown_top(values: Sequence[float]) -> float:
    return max(quantile(values, 95), sum(values) / len(values))


def _box(ordered: Sequence[float], x: float, width: float, place: svg.Scale, colour: str, title: str) -> str:
    """One box; all of it answers the mouse."""
    low, median, high, far = (quantile(ordered, percent) for percent in (25, 50, 75, 95))
    mean = sum(ordered) / len(ordered)
    y = {value: place(math.log10(max(value, 1.0))) for value in (low, median, high, far, mean)}
    middle, gap = x + width / 2, width * 0.1
    tall = max(y[low] - y[high], 2)
    told = (
        f"{title}\nmean {mean:,.2f}, median {median:,.2f}, 95 % up to {far:,.2f}, at most {ordered[-1]:,.2f}"
    )
    fill = f'fill="{colour}" fill-opacity=".6" stroke="{colour}"'
    parts = (
        svg.path([(middle, y[high]), (middle, y[far])], f'stroke="{colour}" stroke-width="1.5"'),
        svg.rect(x + gap, y[low] - tall, width - 2 * gap, tall, fill, told),
        svg.line(x + gap, y[median], x + width - gap, y[median], "median"),
        f'<circle cx="{svg.number(middle)}" cy="{svg.number(y[mean])}" r="3.2" class="mean"/>',
    )
    return "".join(parts)
