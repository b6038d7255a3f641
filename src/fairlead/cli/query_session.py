"""The lines of resource-query: one command each, answered as Fluxion's tool does.

Called by `cli.resource_query`. Answers go to `out`, errors to stderr as one line, and a line that cannot be
understood never ends the session. Must not know options of the command line.
"""

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TextIO

from msgspec import Struct

from fairlead.cli.query_change import RULE, Change
from fairlead.core.tree.bookings import Job
from fairlead.core.tree.columns import TreeError
from fairlead.core.tree.find import Found
from fairlead.core.tree.graph import Graph, Op, Outcome, Verdict
from fairlead.wire import treetext
from fairlead.wire.files import FileError
from fairlead.wire.files import text as file_text
from fairlead.wire.jobspec import JobspecError, UnknownType
from fairlead.wire.jobspec import read as read_jobspec
from fairlead.wire.treetext import Extra, Row
from fairlead.wire.units import in_graph_units

_UNKNOWN_TYPE = 'Value of "type" must be a resource type known to fluxion'


class Known(Struct):
    """What `list` and `info` tell of a job."""

    state: str
    at: int
    file: str
    seconds: float


class Command(NamedTuple):
    """One word of the protocol; `most` and `least` count its arguments."""

    run: Callable[[list[str]], object]
    short: str
    least: int
    most: int
    usage: str


class Session:
    """A graph, the jobs matched so far, and the commands."""

    def __init__(self, graph: Graph, out: TextIO, format_: str, elapse: bool) -> None:
        self.graph, self.out, self.format, self.elapse = graph, out, format_, elapse
        self.jobs: dict[int, Known] = {}
        self.times: list[float] = []
        self.next_id = 1
        change = Change(self)
        many = 1 << 30
        self.commands = {
            "match": Command(self.match, "m", 2, 2, "match allocate JOBSPEC"),
            "multi-match": Command(self.multi_match, "M", 2, many, "multi-match allocate JOBSPEC..."),
            "update": Command(
                change.update,
                "u",
                6,
                6,
                "update allocate|reserve jgf|jgf_shorthand|rv1exec FILE ID AT SECONDS",
            ),
            "attach": Command(change.attach, "j", 1, 1, "attach FILE"),
            "remove": Command(change.remove, "r", 2, 2, "remove PATH true, remove RANKS false"),
            "find": Command(self.find, "f", 1, many, "find status=down and sched-now=allocated"),
            "cancel": Command(change.cancel, "c", 1, 2, "cancel ID"),
            "partial-cancel": Command(
                change.partial_cancel, "pc", 3, 4, "partial-cancel ID jgf|jgf_shorthand|rv1exec FILE"
            ),
            "set-property": Command(change.set_property, "p", 2, 2, "set-property PATH NAME=VALUE"),
            "remove-property": Command(change.remove_property, "rp", 2, 2, "remove-property PATH NAME"),
            "get-property": Command(change.get_property, "g", 1, 1, "get-property PATH"),
            "set-status": Command(change.set_status, "t", 2, 2, "set-status PATH up|down"),
            "get-status": Command(change.get_status, "e", 1, 1, "get-status PATH"),
            "list": Command(self.list_jobs, "l", 0, 0, "list"),
            "info": Command(self.info, "i", 1, 1, "info ID"),
            "stat": Command(self.stat, "s", 0, 0, "stat"),
            "cat": Command(self.cat, "a", 1, 1, "cat JOBSPEC"),
            "help": Command(self.help_, "h", 0, 1, "help"),
            "quit": Command(self.help_, "q", 0, 0, "quit"),
        }
        self._short = {command.short: name for name, command in self.commands.items()}

    def line(self, line: str) -> bool:
        """Do one line; False if it ends the session."""
        words = _words(line)
        if not words or words[0].startswith("#"):
            return True
        if "\x00" in line:
            self.error("a line must be text")
            return True
        name = self._short.get(words[0], words[0])
        command = self.commands.get(name)
        if command is None:
            self.error(f"unknown command {words[0]!r}; type help")
        elif not command.least <= len(words) - 1 <= command.most:
            self.error(f"malformed command; write it as: {command.usage}")
        elif name == "quit":
            return False
        else:
            try:
                command.run(words[1:])
            except (TreeError, FileError) as error:
                self.error(str(error))
        self.out.flush()
        return True

    def say(self, text: str) -> None:
        """One line of an answer."""
        self.out.write(f"{text}\n")

    def error(self, text: str, prefix: str = "ERROR: ") -> None:
        """One line on stderr, after all that was answered before it."""
        self.out.flush()
        print(f"{prefix}{text}", file=sys.stderr, flush=True)

    # -- matching ------------------------------------------------------------------------------------

    def match(self, words: list[str]) -> bool:
        """`match OP JOBSPEC`; whether it matched."""
        op = _op(words[0])
        return self._match(op, words[1])

    def multi_match(self, words: list[str]) -> None:
        """`multi-match OP JOBSPEC...`: up to the first that does not match."""
        op = _op(words[0])
        for file in words[1:]:
            if not self._match(op, file):
                return

    def _match(self, op: Op, file: str) -> bool:
        id_ = self.next_id
        content = file_text(Path(file))
        began = time.perf_counter()
        try:
            jobspec = in_graph_units(read_jobspec(content, self.graph.tree.types), self.graph.tree.unit)
            outcome = self.graph.match(jobspec, op, id_)
        except JobspecError as error:
            told = _UNKNOWN_TYPE if isinstance(error, UnknownType) else str(error)
            self.error(f"Jobspec error for {id_}: {told}", "match_allocate: ERROR: ")
            self._told(op, id_, Outcome(Verdict.busy), 0.0)
            return False
        seconds = time.perf_counter() - began
        self.times.append(seconds)
        if op is not Op.satisfiability:
            self.next_id += 1
        if outcome.job is not None:
            self.show(outcome.job, jobspec.queue)
            if op is not Op.without_allocating:
                state = "RESERVED" if outcome.job.reserved else "ALLOCATED"
                self.jobs[id_] = Known(state, outcome.job.start, file, seconds)
        self._told(op, id_, outcome, seconds)
        return outcome.verdict is Verdict.granted

    def show(self, job: Job, queue: str = "") -> None:
        """What a job holds, in the format asked for."""
        rows = [Row(v, held.needs, held.exclusive) for v, held in job.held.items()]
        extra = Extra(job.start, job.end, queue=queue)
        self.out.write(treetext.emitted(self.format, self.graph.tree, rows, extra))

    def _told(self, op: Op, id_: int, outcome: Outcome, seconds: float) -> None:
        """The lines of INFO below a match."""
        self.say(RULE)
        if op is Op.satisfiability:
            self.say(f"INFO: {'Uns' if outcome.verdict is Verdict.never else 'S'}atisfiable request")
            self.say(RULE)
            return
        if outcome.job is None:
            self.say("INFO: No matching resources found")
            if outcome.verdict is Verdict.never:
                self.say("INFO: Unsatisfiable request")
        self.say(f"INFO: JOBID={id_}")
        if outcome.job is not None:
            self.told_when(outcome.job)
        if self.elapse:
            self.say(f"INFO: ELAPSE={seconds:f}")
            self.say(f"INFO: VISIT COUNT={outcome.visits}")
        self.say(RULE)

    def remember(self, job: Job, file: str) -> None:
        """A job that was granted elsewhere: as if it had been matched here."""
        state = "RESERVED" if job.reserved else "ALLOCATED"
        self.jobs[job.id] = Known(state, job.start, file, 0.0)
        self._told(Op.allocate, job.id, Outcome(Verdict.granted, job), 0.0)
        self.next_id = job.id + 1

    def told_when(self, job: Job) -> None:
        """Whether a job runs now or later."""
        self.say(f"INFO: RESOURCES={'RESERVED' if job.reserved else 'ALLOCATED'}")
        self.say(f"INFO: SCHEDULED AT={job.start if job.reserved else 'Now'}")

    # -- looking -------------------------------------------------------------------------------------

    def find(self, words: list[str]) -> None:
        """`find EXPRESSION`."""
        expression = " ".join(words)
        found = Found(self.graph, expression)
        tree = self.graph.tree
        rows = [Row(v, tree.sizes[v], True) for v in found.vertices]
        filters = {v: found.shown_filters(v, 0) for v in found.vertices} if found.filters else None
        whole = self.format.removesuffix("_shorthand")  # what is found may be part of what it lies in
        self.out.write(treetext.emitted(whole, tree, rows, Extra(filters=filters)))
        self.say(RULE)
        self.say(f'INFO: EXPRESSION="{expression}"')
        self.say(RULE)

    def list_jobs(self, words: list[str]) -> None:
        """`list`: every job there was."""
        del words
        for id_ in sorted(self.jobs):
            self._info(id_)

    def info(self, words: list[str]) -> None:
        """`info ID`."""
        id_ = next((known for known in self.jobs if str(known) == words[0]), None)
        if id_ is None:
            print(f"ERROR: jobid doesn't exist: {words[0]}", flush=True)
        else:
            self._info(id_)

    def _info(self, id_: int) -> None:
        job = self.jobs[id_]
        print(f"INFO: {id_}, {job.state}, {job.at}, {job.file}, {job.seconds:.6g}", flush=True)

    def stat(self, words: list[str]) -> None:
        """`stat`: how long matches took."""
        del words
        times = self.times or [0.0]
        print(f"INFO: Num. of Jobs Matched: {len(self.jobs)}")
        print(f"INFO: Min. Match Time: {min(times):.6g}")
        print(f"INFO: Max. Match Time: {max(times):.6g}")
        print(f"INFO: Avg. Match Time: {sum(times) / len(times):.6g}", flush=True)

    def cat(self, words: list[str]) -> None:
        """`cat JOBSPEC`."""
        print(file_text(Path(words[0])), end="")
        print(f"INFO: Jobspec in {words[0]}", flush=True)

    def help_(self, words: list[str]) -> None:
        """`help`, `help COMMAND`: an example of each."""
        wanted = self._short.get(words[0], words[0]) if words else ""
        for name, command in self.commands.items():
            if wanted in ("", name):
                print(f"INFO: {name} ({command.short}) -- {command.usage}", flush=True)
        if wanted and wanted not in self.commands:
            print(f"ERROR: unknown command: {wanted}", flush=True)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _op(word: str) -> Op:
    try:
        return Op(word)
    except ValueError:
        known = ", ".join(op.value for op in Op)
        raise TreeError(f"unknown subcmd {word}; known: {known}") from None
