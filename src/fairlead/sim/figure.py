"""The figures of one or several simulations, as an SVG file or as one HTML page.

Called by the command line, which brings the words and the table; `draw.page` puts them together.
"""

from collections.abc import Sequence

from fairlead.draw import page as pages
from fairlead.draw import svg
from fairlead.draw.page import Words
from fairlead.sim import figure_gantt, figure_time, figure_width
from fairlead.sim.report import until
from fairlead.sim.workload import Result


def panels(results: Sequence[Result]) -> list[svg.Panel]:
    """All figures in their order; the simulations share all axes."""
    submits = [row.submit for result in results for row in result.rows]
    times = svg.Times(min(submits, default=0), max((until(result) for result in results), default=0))
    queued = max((sample.queued for result in results for sample in result.samples), default=1)
    drawn = [figure_gantt.pieces(result) for result in results]
    most = max(map(figure_gantt.top, results, drawn), default=0)
    share = max((figure_time.most_used(result) for result in results), default=1.0)
    found: list[svg.Panel] = []
    for result, pieces in zip(results, drawn, strict=True):
        found.append(figure_gantt.panel(result, pieces, times, most))
        found += figure_time.panels(result, times, queued, share)
    return [*found, figure_width.panel(results)]


def page(results: Sequence[Result], words: Words) -> str:
    """A whole HTML document."""
    return pages.page(panels(results), words)


def drawing(results: Sequence[Result], words: Words) -> str:
    """All figures below one another in one SVG document."""
    return pages.drawing(panels(results), words)
