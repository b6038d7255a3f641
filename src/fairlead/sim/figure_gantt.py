"""Who ran when, over processors: rectangles for few jobs, a picture of cells for many.

Called by `sim.figure`. Which processors a job had is not recorded (on one node of P they are all alike), so
they are numbered for the drawing: the lowest hole that holds the job, else the lowest free ones.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fairlead.draw import png, svg
from fairlead.sim.report import until
from fairlead.sim.report_csv import seconds
from fairlead.sim.workload import JobRow, Result

MOST_DRAWN = 2_500
"""Rectangles; with more, the file would be slow to open and each narrower than a pixel."""
MOST_TITLES = 300
IN_ORDER, BACKFILLED = svg.COLOURS[:2]
_HEIGHT = 340
_CELLS_ACROSS, _CELLS_DOWN = 924, 144
_LEVELS = 16
_NO_END = 1 << 60


class Piece(NamedTuple):
    """A job on the processors low to high − 1; one that is scattered has several."""

    row: JobRow
    low: int
    high: int
    end: int


def pieces(result: Result) -> list[Piece]:
    """Every started job with processors of its own, in order of start."""
    last = until(result)
    begun = sorted((row.start, i) for i, row in enumerate(result.rows) if row.start >= 0 and row.procs > 0)
    ends = {i: result.rows[i].end if result.rows[i].end >= 0 else last for _, i in begun}
    leaving = sorted((end, i) for i, end in ends.items())
    free: list[tuple[int, int]] = [(0, _NO_END)]
    held: dict[int, list[tuple[int, int]]] = {}
    found: list[Piece] = []
    gone = 0
    for start, i in begun:
        while gone < len(leaving) and leaving[gone][0] <= start and leaving[gone][1] in held:
            free = _give(free, held.pop(leaving[gone][1]))
            gone += 1
        held[i], free = _take(free, result.rows[i].procs, result.capacity)
        found += [Piece(result.rows[i], low, high, ends[i]) for low, high in held[i]]
    return found


def _take(
    free: list[tuple[int, int]], procs: int, capacity: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """(what the job gets, what is free then)."""
    hole = next((low for low, high in free if min(high, capacity) - low >= procs), None)
    if hole is not None:
        free = [
            part for low, high in free for part in (((low + procs, high),) if low == hole else ((low, high),))
        ]
        return [(hole, hole + procs)], [part for part in free if part[0] < part[1]]
    taken: list[tuple[int, int]] = []
    for n, (low, high) in enumerate(free):
        taken.append((low, min(high, low + procs)))
        procs -= taken[-1][1] - low
        if not procs:
            rest = [(taken[-1][1], high)] if taken[-1][1] < high else []
            return taken, rest + free[n + 1 :]
    raise AssertionError("the last hole has no end")


def _give(free: list[tuple[int, int]], back: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(free + back):
        if merged and merged[-1][1] == low:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged


def top(result: Result, drawn: Sequence[Piece]) -> int:
    """Up to which processor is drawn: all, or those ever used where that is less than a tenth."""
    used = max((piece.high for piece in drawn), default=0)
    return used if 0 < used * 10 < result.capacity else max(used, result.capacity)


def panel(result: Result, drawn: Sequence[Piece], times: svg.Times, most: int) -> svg.Panel:
    """The Gantt chart of one simulation; `most` is the highest processor on its axis."""
    place = svg.linear(_HEIGHT, most)
    marks = [(tick, svg.plain(tick)) for tick in svg.ticks(most, 5) if tick == int(tick)]
    few = len(drawn) <= MOST_DRAWN
    jobs = "".join(_bars(drawn, times, most)) if few else _cells(drawn, times, most)
    caption = "Processors are numbered for the drawing: the lowest that are free."
    if not few:
        caption += " So many jobs are drawn as cells: the fuller the colour, the more of the cell is in use."
    if most < result.capacity:
        caption += f" The machine has {result.capacity:,}; those above were never in use."
    entries = [svg.Legend(IN_ORDER, "started in order")]
    if any(piece.row.backfilled for piece in drawn):
        entries.append(svg.Legend(BACKFILLED, "backfilled"))
    body = svg.y_axis(_HEIGHT, marks, place, "processors") + times.axis(_HEIGHT) + jobs
    return svg.Panel(f"Who ran when: {result.policy}", caption, _HEIGHT + 22, body + _below(entries))


def _below(entries: Sequence[svg.Legend]) -> str:
    return svg.legend(entries, y=_HEIGHT + 4)


def _bars(drawn: Sequence[Piece], times: svg.Times, most: int) -> list[str]:
    """A rectangle per piece, with the job's name where there is room for it."""
    place = svg.linear(_HEIGHT, most)
    shown: list[str] = []
    for n, piece in enumerate(drawn):
        x, y = times.x(piece.row.start), place(piece.high)
        width, height = max(times.x(piece.end) - x, 0.5), place(piece.low) - y
        colour = BACKFILLED if piece.row.backfilled else IN_ORDER
        shade = ("1", ".9", ".8")[n % 3]
        open_ended = ' stroke-dasharray="3 2"' if piece.row.end < 0 else ""
        fill = f'fill="{colour}" fill-opacity="{shade}" class="bar"{open_ended}'
        shown.append(svg.rect(x, y, width, height, fill, _title(piece.row)))
        if height >= 11 and width >= 8 + 6.5 * len(piece.row.job_id):
            shown.append(svg.text(x + 4, y + height / 2 + 4, piece.row.job_id, kind="name"))
    return shown


def _title(row: JobRow) -> str:
    """All that is known of a job in a few lines; seconds on the input's axis."""
    lines = [
        f"{row.job_id}: {row.procs:,} processor{'' if row.procs == 1 else 's'}, {row.outcome}",
        f"submitted {seconds(row.submit)} s, started {seconds(row.start)} s "
        f"(waited {seconds(row.start - row.submit)} s{', backfilled' if row.backfilled else ''})",
        f"ended {seconds(row.end)} s" if row.end >= 0 else "has not ended",
    ]
    if row.promised >= 0:
        lines.append(f"first promised for {seconds(row.promised)} s")
    if row.nodes:
        more = f" and {len(row.nodes) - 4} more" if len(row.nodes) > 4 else ""
        lines.append(f"on {', '.join(row.nodes[:4])}{more}")
    return "\n".join(lines)


# -- many jobs ---------------------------------------------------------------------------------------


def _cells(drawn: Sequence[Piece], times: svg.Times, most: int) -> str:
    """One picture for all, and invisible rectangles over the largest pieces, for their titles."""
    place = svg.linear(_HEIGHT, most)
    parts = [png.image(_png(_coverage(drawn, times, most)), _HEIGHT)]
    sizes = sorted(range(len(drawn)), key=lambda i: (-_area(drawn[i]), i))
    for piece in (drawn[i] for i in sizes[:MOST_TITLES]):
        x, y = times.x(piece.row.start), place(piece.high)
        width, height = times.x(piece.end) - x, place(piece.low) - y
        parts.append(svg.rect(x, y, width, height, 'class="hover"', _title(piece.row)))
    return "".join(parts)


def _area(piece: Piece) -> int:
    return (piece.high - piece.low) * (piece.end - piece.row.start)


def _coverage(drawn: Sequence[Piece], times: svg.Times, most: int) -> npt.NDArray[np.float64]:
    """[in order or backfilled, row from the top, column]: how much of the cell is in use, 0 to 1."""
    down = min(most, _CELLS_DOWN)
    found = np.zeros((2, down, _CELLS_ACROSS))
    span = max(times.last - times.first, 1)
    for piece in drawn:
        x, across = _part(
            (piece.row.start - times.first) / span * _CELLS_ACROSS,
            (piece.end - times.first) / span * _CELLS_ACROSS,
            _CELLS_ACROSS,
        )
        y, along = _part(down * (1 - piece.high / most), down * (1 - piece.low / most), down)
        cells = found[int(piece.row.backfilled), y : y + len(along), x : x + len(across)]
        cells += along[:, None] * across[None, :]
    return found


def _part(low: float, high: float, cells: int) -> tuple[int, npt.NDArray[np.float64]]:
    """(the first cell, how much of it and of each further one lies between low and high)."""
    first = min(max(int(low), 0), cells - 1)
    after = min(max(int(np.ceil(high)), first + 1), cells)
    share = np.ones(after - first)
    share[0] -= low - first
    share[-1] -= after - high
    return first, np.clip(share, 0.0, 1.0)


def _png(coverage: npt.NDArray[np.float64]) -> bytes:
    """An indexed picture: 16 mixtures of the two colours, each in 16 degrees of transparency."""
    full = np.clip(coverage.sum(axis=0), 0.0, 1.0)
    mix = np.divide(coverage[1], np.maximum(coverage.sum(axis=0), 1e-9))
    top = _LEVELS - 1
    index = (np.rint(mix * top) * _LEVELS + np.ceil(full * top - 1e-9)).astype(np.uint8)
    index[full == 0] = 0
    mixed = png.mixtures(IN_ORDER, BACKFILLED, _LEVELS)
    palette = [colour for colour in mixed for _ in range(_LEVELS)]
    alpha = [round(n % _LEVELS / top * 255) for n in range(len(palette))]
    return png.indexed(index, palette, alpha)
