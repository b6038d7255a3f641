"""`fairlead simulate INPUT`: options in, `cli.simulate_run` called.

Registered by `cli.main`. Refuses what does not go together before anything is read or played, and imports
the simulator only when it is about to run. Must not hold any logic of its own.
"""

import importlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from msgspec import structs

from fairlead.cli.errors import CliError
from fairlead.cli.scheduler import one_of
from fairlead.model.settings import (
    HYBRID_DEPTH,
    MATCHES,
    POLICIES,
    PolicyFunction,
    QueueSettings,
    Settings,
)

EPILOG = """Examples:

fairlead simulate log.swf.gz --policy easy --out jobs.csv

fairlead simulate log.swf --procs 128 --compare fcfs,easy,hybrid:8,conservative --report report.html

fairlead simulate openb_pods.csv --nodes-file openb_nodes.csv --limit 1000 -o json

fairlead simulate night-shift.scn

fairlead simulate log.swf --policy-function mine.py:plan --compare fcfs,easy

fairlead simulate --faults 1 --seeds 1000"""
REPORTS = (".html", ".svg")


class Shape(StrEnum):
    """How the answer is printed."""

    table = "table"
    json = "json"


class Choice(NamedTuple):
    """A policy as it is called in tables and file names, and the settings it is played under, which may name
    a policy function."""

    label: str
    settings: Settings


class Machine(NamedTuple):
    """How the input is read: processors, nodes and how many jobs (0 = as the input says)."""

    procs: int
    nodes: int
    nodes_file: Path | None
    limit: int
    strict: bool


class Asked(NamedTuple):
    """All of the command line, checked. `alone`: nothing is said about machine, policy or report."""

    input: Path
    alone: bool
    choices: tuple[Choice, ...]
    compare: bool
    machine: Machine
    out: Path | None
    report: Path | None
    output: str
    verbose: bool


def number(help_: str) -> Any:
    """An option that is 0 where it is not given."""
    return typer.Option(min=0, metavar="N", show_default=False, help=help_)


OwnPolicy = Annotated[
    str,
    typer.Option(
        metavar="FILE.py:NAME", help="Let this Python function plan, or module:NAME (docs/policies.md)."
    ),
]
RandomWorld = Annotated[
    str,
    typer.Option(
        metavar="SEED|FILE",
        help="Instead of INPUT: a random world in which things go wrong, from a seed or a file.",
    ),
]


def simulate(
    input_: Annotated[
        Path | None,
        typer.Argument(
            metavar="INPUT", help="An SWF log, a workload CSV, openb lists, manifests or a scenario (.scn)."
        ),
    ] = None,
    policy: Annotated[str, typer.Option(help=f"Who may start: {', '.join(POLICIES)}; else fcfs.")] = "",
    compare: Annotated[
        str, typer.Option(metavar="A,B,…", help="Play under each of these policies; hybrid:8 has depth 8.")
    ] = "",
    policy_function: OwnPolicy = "",
    reservation_depth: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"How many hold a reservation under hybrid; -1 none, 0 all; else {HYBRID_DEPTH}.",
        ),
    ] = None,
    queue_depth: Annotated[int, number("How many waiting groups one cycle looks at; else all.")] = 0,
    promises: Annotated[int, number("How many reservations conservative keeps at most; else all.")] = 0,
    match: Annotated[str, typer.Option(help=f"Which nodes: {', '.join(MATCHES)}.")] = "first",
    procs: Annotated[int, number("The machine is one node of so many processors.")] = 0,
    nodes: Annotated[int, number("The machine is so many nodes of one processor.")] = 0,
    nodes_file: Annotated[Path | None, typer.Option(help="The machine's nodes, from a file.")] = None,
    limit: Annotated[int, number("Only the first so many jobs; else all.")] = 0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first line that cannot be used.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the jobs here, as CSV.")] = None,
    report: Annotated[Path | None, typer.Option(help="Draw figures: report.html or report.svg.")] = None,
    output: Annotated[Shape, typer.Option("--output", "-o", help="table or json.")] = Shape.table,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="List every line of the input that has a fault.")
    ] = False,
    faults: RandomWorld = "",
    seeds: Annotated[int, number("With --faults: so many seeds from there on; else one.")] = 0,
    steps: Annotated[int, number("With --faults: so many things happen; else 40.")] = 0,
) -> None:
    """Play a workload through the real scheduler, in simulated time.

    Says how long jobs wait, how well the machine is used, and what a policy
    costs whom. The same input gives the same answer; Ctrl-C what is there so far.
    With --faults: kills, gaps and lost answers in a random world; says what they
    broke, in the fewest lines.
    """
    machine = Machine(procs, nodes, nodes_file, limit, strict)
    given = (
        *(policy, compare, policy_function, reservation_depth is not None, queue_depth, promises),
        *(match != "first", *machine),
    )
    if input_ is None or faults or seeds or steps:
        others = any((input_, *given[:7], *machine._replace(nodes=0), out, report))
        return _random_worlds(faults, seeds, steps, nodes, output, others)
    if report is not None and report.suffix not in REPORTS:
        raise CliError(f"--report {report}: name it {' or '.join(f'*{ending}' for ending in REPORTS)}")
    if sum((bool(procs), bool(nodes), nodes_file is not None)) > 1:
        raise CliError("--procs, --nodes and --nodes-file each say what the machine is: give one of them")
    one_of("--match", match, MATCHES)
    alone = not any(given) and report is None
    played = partial(settings, match=match, looks=queue_depth, promises=promises)
    choices = _choices(policy, compare, policy_function, reservation_depth, played)
    asked = Asked(input_, alone, choices, bool(compare), machine, out, report, output.value, verbose)
    return importlib.import_module("fairlead.cli.simulate_run").run(asked)


def _choices(
    policy: str, compare: str, function: str, depth: int | None, played: Callable[[str, int], Settings]
) -> tuple[Choice, ...]:
    """What is played; the policy function in the place of a policy, or behind those that are compared."""
    alone = bool(function) and not compare
    if alone and (policy or depth is not None):
        raise CliError("--policy-function takes the place of --policy; --compare plays it beside others")
    names = [] if alone else _names(policy, compare, depth)
    found = [Choice(label, played(name, depth)) for label, name, depth in names]
    if function:
        found.append(_own(function, played("fcfs", HYBRID_DEPTH), [each.label for each in found]))
    return tuple(found)


def _random_worlds(faults: str, seeds: int, steps: int, nodes: int, output: Shape, others: bool) -> None:
    if not faults:
        raise CliError(
            "--seeds and --steps go with --faults"
            if seeds or steps
            else "say what is to be played: an INPUT, or --faults SEED"
        )
    if others:
        raise CliError("--faults goes with --seeds, --steps, --nodes and -o only")
    module = importlib.import_module("fairlead.cli.simulate_faults")
    module.run(module.Asked(faults, seeds or 1, steps, nodes, output is Shape.json))


def settings(policy: str, depth: int, *, match: str, looks: int, promises: int) -> Settings:
    """The settings of a simulated scheduler: one queue, and a cycle whenever something has happened."""
    queue = QueueSettings(policy=policy, depth=depth, looks=looks, promises=promises)
    return Settings(queues=(queue,), match=match, pace=0, advise=False)


def _names(policy: str, compare: str, depth: int | None) -> list[tuple[str, str, int]]:
    """(label, policy, depth) of each simulation; CliError for what is not known or comes twice."""
    if policy and compare:
        raise CliError("--policy and --compare: give one of them")
    if compare and depth is not None:
        raise CliError("--reservation-depth with --compare: write it behind the policy, as in hybrid:8")
    found = [_name(part.strip()) for part in compare.split(",")] if compare else [_name(policy or "fcfs")]
    if depth is not None:
        found = [_deep(found[0], depth)]
    labels = [label for label, _, _ in found]
    twice = next((label for label in labels if labels.count(label) > 1), "")
    if twice:
        raise CliError(f"--compare names {twice} twice")
    return found


def _own(function: str, plain: Settings, taken: Sequence[str]) -> Choice:
    """The policy function, called by its own name alone."""
    place, colon, name = function.rpartition(":")
    if not (place and colon and name):
        raise CliError(f"--policy-function {function}: write it as FILE.py:NAME or module:NAME")
    if name in taken:
        raise CliError(
            f"--policy-function {function}: --compare names {name}, too; call the function otherwise"
        )
    own = PolicyFunction(function, "live", path=str(Path.cwd()))
    return Choice(name, structs.replace(plain, function=own))


def _name(text: str) -> tuple[str, str, int]:
    """`easy`, or `hybrid:8`."""
    name, colon, depth = text.partition(":")
    one_of("policy", name, POLICIES)
    if not colon:
        return text, name, HYBRID_DEPTH
    try:
        return _deep((text, name, 0), int(depth))
    except ValueError:
        raise CliError(f"policy {text!r}: {depth!r} is no number; hybrid:8 has eight reservations") from None


def _deep(found: tuple[str, str, int], depth: int) -> tuple[str, str, int]:
    label, name, _ = found
    if name != "hybrid":
        raise CliError(f"a reservation depth belongs to hybrid: {name} has none to set")
    if depth < -1:
        raise CliError(f"reservation depth {depth}: give -1 (none), 0 (all) or how many")
    if ":" in label and label != f"hybrid:{depth}":
        raise CliError(f"{label} has its depth already: leave out --reservation-depth")
    return f"hybrid:{depth}", name, depth
