"""Panels on one HTML page that needs nothing else, or below one another in one SVG file.

Called by `sim.figure` and `recorder.figures`, which bring panels and words. Readable on light and dark
ground, with titles under the mouse. No script, nothing loaded from elsewhere.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from fairlead.draw import svg

_LIGHT = "--ink:#1c2126;--faint:#68717b;--grid:#dfe3e8;--ground:#ffffff"
_DARK = "--ink:#e4e7eb;--faint:#9aa3ad;--grid:#343a41;--ground:#16191d"
_FIGURES = """
svg.f{background:var(--ground);font:12px system-ui,sans-serif}
svg.f text{fill:var(--ink)} svg.f text.faint{fill:var(--faint)}
svg.f text.title{font-size:15px;font-weight:600}
svg.f text.name{fill:#fff;font-size:11px;pointer-events:none}
svg.f .grid{stroke:var(--grid)} svg.f .ground{fill:var(--ground);fill-opacity:.85}
svg.f .bar{stroke:var(--ground);stroke-width:.5} svg.f .bar:hover{fill-opacity:1;stroke:var(--ink)}
svg.f .hover{fill:transparent} svg.f .hover:hover{stroke:var(--ink);fill:var(--ink);fill-opacity:.08}
svg.f .cell,svg.f .empty{shape-rendering:crispEdges} svg.f .cell:hover,svg.f .empty:hover{stroke:var(--ink)}
svg.f .empty{fill:var(--grid);fill-opacity:.45} svg.f .gap{stroke:var(--faint);stroke-width:1.5}
svg.f .bar.open{stroke:var(--ink);stroke-dasharray:3 2} svg.f .bar.failed{stroke:#c9303e;stroke-width:1.2}
svg.f .cells{image-rendering:pixelated} svg.f .median{stroke:var(--ink);stroke-width:2}
svg.f .mean{fill:var(--ground);stroke:var(--ink);stroke-width:1.5;pointer-events:none}
"""
_PAGE = """
body{background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif;margin:2rem auto;
max-width:64rem;padding:0 1rem}
h1{font-size:1.5rem;margin:0} h2{font-size:1.05rem;margin:2rem 0 0}
figure{margin:0} svg.f{width:100%;height:auto}
p{margin:.5rem 0} p.faint,figcaption{color:var(--faint);font-size:.9rem}
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.2rem .9rem;text-align:right;border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left;padding-left:0} td.best{font-weight:700}
.warn{border-left:4px solid #e0822b;padding-left:.8rem}
"""


class Words(NamedTuple):
    """What is written above the figures. The first row of `table` is its head; `*` marks the best."""

    title: str
    subtitle: str
    warnings: Sequence[str]
    table: Sequence[Sequence[str]]
    sentences: Sequence[str]


def page(panels: Sequence[svg.Panel], words: Words) -> str:
    """A whole HTML document."""
    figures = "".join(
        f"<h2>{escape(panel.title)}</h2>\n<figure>{_drawing(panel.height, panel.body)}"
        f"<figcaption>{escape(panel.caption)}</figcaption></figure>\n"
        for panel in panels
    )
    notes = "".join(f'<p class="warn">{escape(text)}</p>\n' for text in words.warnings)
    said = "".join(f"<p>{escape(text)}</p>\n" for text in words.sentences)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        f"<title>{escape(words.title)}</title>\n<style>{_colours(':root')}{_PAGE}{_FIGURES}</style></head><body>\n"
        f'<h1>{escape(words.title)}</h1>\n<p class="faint">{escape(words.subtitle)}</p>\n'
        f"{notes}{_table(words.table)}\n{said}{figures}</body></html>\n"
    )


def drawing(panels: Sequence[svg.Panel], words: Words) -> str:
    """All figures below one another in one SVG document."""
    parts = [svg.text(svg.LEFT, 26, words.title, kind="title")]
    y = 46
    for text in (words.subtitle, *words.warnings):
        parts.append(svg.text(svg.LEFT, y, text, kind="faint"))
        y += 16
    for panel in panels:
        parts.append(svg.text(svg.LEFT, y + 32, panel.title, kind="title"))
        y += 40
        parts.append(f'<g transform="translate(0 {y})">{panel.body}</g>')
        y += panel.height
        if panel.caption:
            parts.append(svg.text(svg.LEFT, y + 14, panel.caption, kind="faint"))
            y += 18
    return _drawing(y + 10, f"<style>{_colours('svg.f')}{_FIGURES}</style>{''.join(parts)}") + "\n"


def _drawing(height: int, body: str) -> str:
    box = f'viewBox="0 0 {svg.WIDTH} {height}" width="{svg.WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" class="f" {box}>{body}</svg>'


def _colours(where: str) -> str:
    return f"{where}{{{_LIGHT}}}@media (prefers-color-scheme:dark){{{where}{{{_DARK}}}}}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>"


def _cell(text: str) -> str:
    best = ' class="best"' if text.endswith("*") else ""
    return f"<td{best}>{escape(text.removesuffix('*'))}</td>"
