"""`--plot FILE.svg|FILE.html` of `fairlead history`: figures on a page with what must be known to judge them.

Called by `cli.history_*`. Titles under the mouse tell the numbers; nothing is loaded from elsewhere.
"""

from collections.abc import Sequence
from pathlib import Path

import typer

from fairlead import __version__
from fairlead.cli import words
from fairlead.cli.errors import CliError
from fairlead.cli.history_options import Question
from fairlead.cli.history_past import Past, amount
from fairlead.cli.history_read import Notes
from fairlead.draw import page, svg
from fairlead.draw.clock import Clock
from fairlead.model.history import PodHistory
from fairlead.recorder import figures, figures_lines
from fairlead.recorder.latency import Stages
from fairlead.recorder.occupancy import Buckets, Ints
from fairlead.recorder.usage import Usage

ACROSS = 160
"""Stretches of time in a figure."""


def gantt(question: Question, pods: Sequence[PodHistory], notes: Notes, plot: Path, left: int) -> None:
    """Pods on nodes; `left` are not drawn."""
    since = min((pod.since for pod in pods if pod.since), default=question.now - 1)
    times = Clock(max(since, question.asked.since), notes.until)
    said = [f"{left:,} older pods are not drawn", *notes.said] if left else notes.said
    _save(plot, question, "Pods on nodes", said, [figures.gantt(pods, times, notes.gaps, told)])


def told(pod: PodHistory) -> str:
    """A pod in a few lines."""
    lines = [f"{pod.namespace}/{pod.name}", f"on {pod.node} from {words.instant(pod.since)}"]
    lines.append(f"{pod.ended} {words.instant(pod.until)}" if pod.until else "has not ended")
    if pod.owner_name:
        lines.append(f"{pod.owner_kind} {pod.owner_name}, scheduler {pod.scheduler}")
    lines.append(" ".join(f"{name}={words.amount(name, value)}" for name, value in pod.requests.items()))
    return "\n".join(lines)


def occupancy(question: Question, what: str, past: Past, found: Buckets, room: Buckets, plot: Path) -> None:
    """A heat map: of pods, the darkest is the most on any node; of all else, what the node has."""
    most = float(found.mean.max(initial=0))
    full = [most if what == "count" else float(row.max(initial=0)) or most for row in room.mean]
    name = "pods" if what == "count" else what

    def amount_(value: float) -> str:
        return amount(what, value)

    map_ = figures.Heat(name, found, room, full, amount_)
    _save(plot, question, "Node occupancy", past.notes.said, [figures.heat(map_, past.notes.gaps)])


def latencies(question: Question, by: str, stages: Stages, notes: Notes, plot: Path) -> None:
    """A histogram per stage."""
    panels = figures_lines.histograms(stages.found, words.step)
    _save(plot, question, f"Latencies{f' by {by}' if by else ''}", notes.said, panels)


def usage(question: Question, found: dict[str, Usage], edges: Ints, past: Past, plot: Path) -> None:
    """Utilisation and fragmentation over time."""
    _save(plot, question, "Usage", past.notes.said, figures_lines.usage(found, edges, past.notes.gaps))


def _save(plot: Path, question: Question, title: str, said: list[str], panels: Sequence[svg.Panel]) -> None:
    if not panels:
        typer.echo(f"nothing to draw: {plot} is not written", err=True)
        return
    text = page.Words(title, _subtitle(question), said, (), ())
    drawn = page.page(panels, text) if plot.suffix == ".html" else page.drawing(panels, text)
    part = plot.with_name(plot.name + ".part")
    try:
        part.write_text(drawn, encoding="utf-8")
        part.replace(plot)
    except OSError as error:
        raise CliError(f"--plot {plot}: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
    typer.echo(f"figures: {plot}", err=True)


def _subtitle(question: Question) -> str:
    """Which pods, and when it was asked."""
    asked = question.asked
    names = ("namespace", "owner", "scheduler", "node", "group")
    filters = [f"{name} {getattr(asked, name)}" for name in names if getattr(asked, name)]
    filters += [f"{key}={value}" for key, value in asked.labels.items()]
    which = ", ".join(filters) or "all pods"
    return f"{which}; asked {words.instant(question.now)}, fairlead {__version__}"
