"""Testbeds, slots, jobs, Schedulings and enrolments as tables of at most 100 columns.

Called by `cli.esi`, with what ESI's interface answered. Pure. Names and sentences are other people's: they
are plain text, cut where they do not fit.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.table import Table

from fairlead.api.esi.operations import KEPT, LABELLED, REMOVED, Enrolment
from fairlead.api.esi.shapes import JobShape, SchedulingShape, TestbedShape
from fairlead.cli import tables, words
from fairlead.cli.tables import Column, Row
from fairlead.core.durations import instant

_COLOURS = {
    "SUCCESS": "green",
    "RUNNING": "green",
    "IN_PROGRESS": "yellow",
    "ERROR": "red",
    "FREE": "green",
    "RESERVED": "yellow",
    "OCCUPIED": "bright_green",
    "ReadyState": "green",
    "RunningState": "bright_green",
    "CompletedState": "dim",
    "FinishedState": "dim",
    "FailedState": "red",
    "FailedSubmissionState": "red",
    "Error": "red",
}
_TESTBEDS = (
    Column("TESTBED", cut="middle"),
    Column("STATE"),
    *(Column(title, right=True) for title in ("NODES", "SLOTS", "FREE", "RESERVED", "OCCUPIED", "ERROR")),
    Column("PROBLEMS", cut="fold"),
)
_SLOTS = (
    Column("SLOT", right=True),
    Column("NODE", cut="middle"),
    Column("INDEX", right=True),
    Column("STATE"),
    Column("POD", cut="middle"),
    Column("PROBLEM", cut="fold"),
)
_JOBS = (
    Column("JOB", cut="middle"),
    Column("STATE"),
    *(Column(title, right=True) for title in ("RUNS", "FAILED", "LAST")),
    Column("SCHEDULING", cut="middle"),
    Column("PROBLEMS", cut="fold"),
)
_SCHEDULINGS = (
    Column("SCHEDULING", cut="middle"),
    Column("TESTBED", cut="middle"),
    Column("STATE"),
    Column("PLACE", right=True),
    Column("JOBS", cut="fold"),
    Column("REASON", cut="fold"),
)
_NODES = (Column("NODE", cut="middle"), Column("NUMBER", right=True), Column("CHANGE"), Column("IN USE"))


def testbeds(found: Iterable[TestbedShape], width: int, wide: bool = False) -> Table:
    return tables.lines(_TESTBEDS, [_testbed(each) for each in found], wide, width)


def _testbed(shape: TestbedShape) -> Row:
    slots = [slot for each in shape.slots_by_node.values() for slot in each]
    states = Counter(slot.state.value for slot in slots)
    counts = [str(states[name]) for name in ("FREE", "RESERVED", "OCCUPIED", "ERROR")]
    nodes = [f"{node}: {'; '.join(found)}" for node, found in shape.node_problems.items()]
    problems = "; ".join([*shape.problems, *nodes])
    return [shape.name, _state(shape.state), str(shape.number_of_nodes), str(len(slots)), *counts, problems]


def slots(shape: TestbedShape, width: int, wide: bool = False) -> Table:
    """The slots of one Testbed, by their numbers; those without one come last."""
    found = [slot for each in shape.slots_by_node.values() for slot in each]
    found.sort(
        key=lambda slot: (slot.position < 0, slot.position, slot.node_name, slot.slot_position_on_node)
    )
    rows: list[Row] = []
    for slot in found:
        number = str(slot.position) if slot.position >= 0 else "-"
        pod = slot.pod_name or slot.reserved_for or "-"
        problem = "; ".join(shape.node_problems.get(slot.node_name, []))
        where = [slot.node_name, str(slot.slot_position_on_node)]
        rows.append([number, *where, _state(slot.state), pod, problem])
    return tables.lines(_SLOTS, rows, wide, width)


def jobs(found: Iterable[JobShape], width: int, wide: bool = False) -> Table:
    return tables.lines(_JOBS, [_job(each) for each in found], wide, width)


def _job(shape: JobShape) -> Row:
    ended = [event for event in shape.scheduled_events if event.stop]
    failed = sum(not event.successful for event in ended)
    last, scheduling = "-", "-"
    if shape.scheduled_events:
        event = shape.scheduled_events[-1]
        scheduling = event.scheduling.name if event.scheduling else "-"
        start, stop = instant(event.start), instant(event.stop)
        last = words.span(stop - start) if start is not None and stop is not None else "runs"
    problems = "; ".join(shape.problems)
    counts = [str(shape.omitted_events + len(shape.scheduled_events)), str(failed)]
    return [shape.name, _state(shape.state), *counts, last, scheduling, problems]


def schedulings(found: Iterable[SchedulingShape], width: int, wide: bool = False) -> Table:
    """How far their jobs are: how many in which stage, and, `wide`, each by its name."""
    return tables.lines(_SCHEDULINGS, [_scheduling(each, wide) for each in found], wide, width)


def _scheduling(shape: SchedulingShape, wide: bool) -> Row:
    named = [f"{each.name} {each.state}" for each in shape.job_status]
    counts = Counter(each.state for each in shape.job_status)
    stages = ", ".join(named if wide else [f"{n} {stage}" for stage, n in counts.items()])
    reason = "; ".join(filter(None, [shape.reason, *shape.problems]))
    return [
        shape.name,
        shape.test_bed,
        _state(shape.state),
        str(shape.position or "-"),
        stages or "-",
        reason,
    ]


def enrolment(found: Enrolment, width: int) -> Table:
    rows = [_node(each.name, each.number, each.change, each.in_use) for each in found.nodes]
    return tables.lines(_NODES, rows, False, width)


def _node(name: str, number: str, change: str, in_use: bool) -> Sequence[str | tuple[str, str]]:
    colours = {LABELLED: "green", REMOVED: "yellow", KEPT: "dim"}
    return [name, number, (change, colours.get(change, "")), "yes" if in_use else "no"]


def _state(word: str) -> tuple[str, str]:
    return word, _COLOURS.get(word, "")
