"""`fairlead explain` in words: why a group is where it is, since when, who is ahead, what comes next.

Called by `cli.commands`. Sentences first, small tables for members and stages after; what other people
chose (names, labels) is cleaned and never read as markup.
"""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairlead.cli import tables, words
from fairlead.model.view import Explanation, ExplanationPage, Layout, Member, QueueRow, Stage, State

_MOST_MEMBERS = 20
_MOST_BLOCKERS = 3
_SOURCES = {"label": "by its label", "job": "of a Job", "pod": "of one pod"}


def chosen(page: ExplanationPage) -> tuple[list[Explanation], list[Explanation]]:
    """(those to tell about, the others): all that have not ended, else the latest that has."""
    live = [e for e in page.groups if not e.group.ended_at or e.group.state is State.REJECTED]
    told = live or list(page.groups[:1])
    return told, [e for e in page.groups if e not in told]


def explanation(page: ExplanationPage, wide: bool = False) -> RenderableType:
    """Everything there is to say."""
    told, others = chosen(page)
    parts: list[RenderableType] = []
    for e in told:
        parts += [*_one(e, page.as_of, wide, live=page.source == "scheduler"), Text("")]
    if others:
        ids = ", ".join(words.clean(e.group.id) for e in others[:5])
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        parts.append(Text(f"Ended earlier under the same name: {ids}{more} (explain one by its id)", "dim"))
    else:
        parts.pop()
    return Group(*parts)


def _one(e: Explanation, now: int, wide: bool, live: bool) -> list[RenderableType]:
    parts: list[RenderableType] = [_title(e), Text(_who(e, now))]
    parts += [Text(""), *_sentences(e, now)]
    if e.asks:
        parts += [Text(""), Text("Asks for", "bold")]
        parts.append(_list("", [*[ask.text for ask in e.asks], *_layout(e.layout)]))
    parts += [Text(""), Text("Stages", "bold"), _stages(e.stages, now, wide)]
    if e.members:
        parts += [Text(""), Text("Members", "bold"), _members(e.members, wide)]
    elif not live and e.group.seen:
        parts += [Text(""), Text("Members are known to a running scheduler only.", "dim")]
    if e.notes:
        parts += [Text(""), Text("Notes", "bold")]
        parts.append(_list("-", e.notes))
    return parts


def _title(e: Explanation) -> Text:
    group = e.group
    title = Text.assemble(
        (words.clean(f"{group.namespace}/{group.name}"), "bold"),
        "  ",
        (group.state, tables.COLOURS[group.state]),
    )
    if group.position:
        title.append(f", position {group.position} in the queue")
    if group.broken:
        title.append("  BROKEN", "bold red")
    return title


def _who(e: Explanation, now: int) -> str:
    g = e.group
    source, there = _SOURCES.get(g.source, g.source), words.counted(g.seen, "pod")
    what = f"A group of {g.size} ({source}, {there} there now)"
    parts = [what, f"priority {g.priority}", f"queue {words.clean(g.queue)}"]
    if g.duration:
        parts.append(f"duration {words.span(g.duration)}")
    return f"{', '.join(parts)}. First seen {words.span(now - g.first_seen)} ago."


def _sentences(e: Explanation, now: int) -> list[RenderableType]:
    g = e.group
    lines: list[tuple[str, str]] = []
    reason = words.clean(g.text or g.why)
    if g.state in (State.RUNNING, State.STARTING):
        lines.append(("Where", f"{words.ranges(g.nodes) or 'not bound yet'}{_spread(e.span)}"))
        lines.append(
            ("Waited", f"{words.span(g.waited)} before it started" if g.bound_at else words.span(g.waited))
        )
        if g.why not in ("Running", "Started") and reason:
            lines.append(("Why", reason))
    elif g.ended_at and g.state is not State.REJECTED:
        lines.append(("Ended", f"{words.span(now - g.ended_at)} ago: {reason or g.state}"))
        if g.nodes:
            lines.append(("Where", words.ranges(g.nodes) + _spread(e.span)))
        lines.append(("Waited", words.span(g.waited)))
    else:
        title = "Why not" if g.state is State.REJECTED else "Why it waits"
        lines.append((title, reason))
    if e.since:
        lines.append(("Since", f"{words.span(now - e.since)} ago"))
    if e.ahead:
        text = f"{words.counted(e.ahead, 'group')}"
        if e.head is not None:
            text += f"; the head of the queue is {words.clean(f'{e.head.namespace}/{e.head.name}')}"
            text += f": {words.clean(e.head.text)}" if e.head.text else ""
        lines.append(("Ahead of it", text))
    if e.short and e.short not in g.text:
        lines.append(("Needs", words.clean(e.short).removeprefix("needs ")))
    lines += _promised(e, now)
    if e.nearest:
        lines.append(("Nearest fit", words.clean(e.nearest)))
    if e.next_step:
        lines.append(("What next", words.clean(e.next_step)))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for title, text in lines:
        table.add_row(title, Text(text))
    return [table]


def _promised(e: Explanation, now: int) -> list[tuple[str, str]]:
    """When it starts and what for it waits; once it has started, how good the forecast was."""
    g, promise = e.group, e.promise
    if promise is None:
        return [("Forecast", _forecast(g))] if g.promised and g.granted_at else []
    where = f" on {words.ranges(promise.nodes)}{_spread(promise.span)}" if promise.nodes else ""
    when = f"starts at {words.instant(promise.start)} ({words.coming(promise.start, now).partition(',')[0]})"
    lines = [("Promised", f"{when}{where} at the latest, unless a node is lost or work there overruns")]
    if promise.after:
        names = (
            f"{words.clean(f'{b.namespace}/{b.name}')} (ends {words.coming(b.until, now)})"
            for b in promise.after[:_MOST_BLOCKERS]
        )
        more = len(promise.after) - _MOST_BLOCKERS
        lines.append(("Waits for", "; ".join(names) + (f"; and {more} more" if more > 0 else "")))
    return lines


def _layout(layout: Layout) -> list[str]:
    """How its members are to lie."""
    lines: list[str] = []
    if layout.required:
        lines.append(f"all in one {layout.required}")
    if layout.preferred:
        lines.append(f"in as few domains of {layout.preferred} as can be had")
    if layout.exclusive:
        lines.append("each on a node of its own")
    return lines


def _spread(span: dict[str, int]) -> str:
    return f" ({words.spread(span)})" if len(span) > 1 else ""


def _forecast(g: QueueRow) -> str:
    text = f"promised at {words.instant(g.promised)}, started {words.lateness(g.granted_at - g.promised)}"
    if g.promised_last != g.promised:
        last = words.lateness(g.granted_at - g.promised_last)
        text += f"; at the end at {words.instant(g.promised_last)}, started {last}"
    return text


def _list(mark: str, texts: Sequence[str]) -> RenderableType:
    """Lines under a heading; their second lines are indented like the first."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for text in texts:
        table.add_row(mark, Text(words.clean(text)))
    return Padding(table, (0, 0, 0, 2 if mark else 1))


def _stages(stages: tuple[Stage, ...], now: int, wide: bool) -> RenderableType:
    """One line, the time of day first and then steps; `wide`: a line each, with every time."""
    steps = ["", *(f"+{words.step(stage.took)}" for stage in stages[1:])]
    if not wide:
        texts = [
            f"{stage.name} {step or words.moment(stage.at, now)}"
            for stage, step in zip(stages, steps, strict=True)
        ]
        return Padding(Text(", ".join(texts)), (0, 0, 0, 2))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for stage, step in zip(stages, steps, strict=True):
        table.add_row(stage.name, f"{words.instant(stage.at)}.{stage.at % 1000:03}", step)
    return Padding(table, (0, 0, 0, 2))


def _members(members: tuple[Member, ...], wide: bool) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("POD", "PHASE", "NODE", "REMARK"):
        table.add_column(header, no_wrap=True, overflow="ellipsis")
    shown = members if wide else members[:_MOST_MEMBERS]
    for member in shown:
        name, node = words.clean(member.name or member.uid), words.clean(member.node)
        table.add_row(
            Text(name if wide else words.shorten(name, 44)),
            Text(member.phase or "-"),
            Text(f"({node})" if member.intended else node or "-"),
            Text(words.clean(member.reason)),
        )
    if len(members) > len(shown):
        table.add_row(Text(f"… and {len(members) - len(shown)} more (-o wide shows all)", "dim"))
    return Padding(table, (0, 0, 0, 2))


def print_explanation(out: Console, page: ExplanationPage, wide: bool = False) -> None:
    """Print it to a console of the usual kind."""
    tables.show(out, explanation(page, wide))
