"""Scenarios: text files that read like a shift report, run against the real engine in a simulated world.

Used by `tests/unit/test_scenarios.py` and (later) `fairlead simulate`. One line is one thing that happens,
at a time (HH:MM, HH:MM:SS), and after `->` what is expected 20 ms later; parts are joined by `;`. A line
that begins with `+` happens together with the one above it. `#` begins a comment, an indented line goes on
with the line above. The first line is the cluster (`walltime=1h longest=4h` are its
queue's default and maximum, `policy hybrid:2` is hybrid with two reservations, `racks=4 zones=8` labels the
nodes as racks of four and zones of eight):

    cluster 4 nodes cpu=32 gpu=4        policy fcfs match=pack
    00:00 submit big   4x gpu=4 for 60m         -> start big n0-n3
    00:01 submit wide  4x gpu=4 for 30m         -> wait wide (short of gpu)
    00:02 submit huge  5x gpu=4                 -> reject huge (needs 5)
    01:00 later                                 -> end big completed; start wide n0-n3

What happens (`sim.stage` has one method per verb):

    submit NAME [Nx] cpu=2 gpu=1 [+ Mx cpu=8] [as job|deployment|statefulset|ordered] [for 60m] [runs 5s]
           [suspended] [gated] and key=value: priority= ns= size= first= begin=HH:MM[:SS] only=label:value
           tolerates=key unsupported=field labels=fairlead|fluxnetes|fluence|none group=
           exclusive= required-topology= preferred-topology= duration=
           queue= on-member-failure=keep|fail-all on-timeout=fail|delete|pods
           grace=30s retries=0 (its Job's) own-deadline=5m (its pods' own),
           deadline=5m (its Job's own)
    burst PREFIX 100 2x cpu=1           PREFIX0 … PREFIX99, each submitted like that, all at once
    bring NAME 2                        two more members come: late, surplus or replacement ones
    delete, terminate, finish, fail, ungate, patch   NAME or one pod, NAME-2
    overdue NAME                        its pods' own deadline is over
    suspend, resume, completes          the Job of that name (`completes NAME timeout`: for its deadline)
    relabel POD group=x size=3          an empty value takes the label away
    wants NAME 2                        its owner wants so many pods from now on
    edit NAME duration=2h               an annotation of its pods is changed, or taken away
    bindto POD NODE                     somebody else binds our pod
    node n4 joins cpu=32 zone=a         also gone, cordoned, uncordoned, down, up, labelled k=v, has cpu=8
    foreign POD on n0 cpu=4 [for 5m] [of DaemonSet]    a pod of another scheduler, and its owner's kind
    binds of NAME|all refused|gone|taken|changed|unknown TIMES [arriving 500ms]
    resize NAME cpu=2                   in place: the pod, or all pods of the entry
    gap                                 the watch misses all that happens, until `relist`
    kubelet refuses NAME TIMES          its pods are Failed as soon as they are bound
    crash, restart, store down, store up, relist, later

What is expected. A group is called by the name it was submitted under (`ns/name` outside of default):

    start NAME [n0-n3]      it started since the line above (and nothing else did: every start must be told)
    hold, wait, reject, run, starting, broken NAME [(words of the reason)]
    reserve NAME at 01:00 [(words of the reason)]   it waits, and is promised a start in that second
    end NAME completed|failed|cancelled|timeout
    on NAME n0*2,n1         where its live pods are bound
    order A B C             they started in this order, ever
    free n1 cpu=4           what the engine takes to be free
    told NAME Reason [(words of the note)]      a Kubernetes Event about one of its pods or its Job
    owner NAME there|gone|completed|timeout     what has become of its Job
    gone NAME               the engine has forgotten it
    nothing                 no start
    state                   the whole picture, one line for each node below it:

        n0        cpu=4/32 gpu=1/4  | a: a-0 a-1* | foreign: x
        n1-n3     cpu=0/32
        n4 gone   cpu=8/32          | b: b-0
        -                           | c: c-0 c-1

Used and capacity of the resources that matter, then group by group the pods that hold them; `*` is one that
is granted its place and not seen there yet, `foreign` are other schedulers' pods. A node can be `gone`,
`down`, `cordoned`, or `unknown`: something is said to be on it, but nobody has seen it. `-` has the living
pods that have no place. There must be nothing else: no other node, no other pod.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fairlead.core.live import Group
from fairlead.model import command as cmd
from fairlead.model import quantity
from fairlead.model.group import Phase
from fairlead.model.settings import Settings, single
from fairlead.sim import table
from fairlead.sim.stage import Stage, Unclear, length, split

SETTLE = 20
"""Milliseconds between what happens and the look at what came of it."""
_TIME = re.compile(r"(\d+):(\d\d)(?::(\d\d)(?:\.(\d{3}))?)?$")
_STATES = {"hold": "held", "wait": "queued", "reject": "rejected", "run": "running", "starting": "starting"}


class ScenarioError(AssertionError):
    """An expectation that was not met, or a line that cannot be read: `file:line: what`."""


class Step(NamedTuple):
    """One time: actions that happen together, and what is expected of them."""

    line: int
    at: int
    actions: tuple[tuple[int, str], ...]
    expected: tuple[str, ...]


class Scenario(NamedTuple):
    name: str
    cluster: str
    steps: tuple[Step, ...]


def read(path: Path) -> Scenario:
    """Parse a file."""
    return parse(path.read_text(encoding="utf-8"), path.name)


def parse(text: str, name: str = "scenario") -> Scenario:
    lines = list(_lines(text))
    if not lines or not lines[0][1].startswith("cluster "):
        raise ScenarioError(f"{name}:1: a scenario begins with `cluster N nodes cpu=… policy …`")
    steps: list[Step] = []
    for number, line in lines[1:]:
        action, _, rest = line.partition("->")
        expected = tuple(_expectation(part) for part in rest.split(";") if part.strip())
        time, _, what = action.replace("\n", " ").strip().partition(" ")
        if time == "+" and steps:
            last = steps[-1]
            actions = (*last.actions, (number, what.strip()))
            steps[-1] = Step(number, last.at, actions, last.expected + expected)
        elif (at := _time(time)) is not None:
            steps.append(Step(number, at, ((number, what.strip()),), expected))
        else:
            raise ScenarioError(f"{name}:{number}: {time!r} is neither a time such as 00:05 nor +")
    return Scenario(name, lines[0][1], tuple(steps))


def _expectation(part: str) -> str:
    """Without the breaks of its lines, but for a table."""
    text = part.strip()
    return text if text.partition("\n")[0].strip() == "state" else text.replace("\n", " ")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Logical lines with the number of their first one; comments and blank lines left out.

    A line that goes on is one with breaks in it: they matter in tables.
    """
    pending, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].rstrip()
        if not line.strip():
            continue
        if line[0].isspace() and line.strip()[0] != "+" and pending:
            pending += "\n" + line.strip()
            continue
        if pending:
            yield first, pending
        pending, first = line.strip(), number
    if pending:
        yield first, pending


def _time(text: str) -> int | None:
    found = _TIME.match(text)
    if found is None:
        return None
    hours, minutes, seconds, milli = (int(part or 0) for part in found.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + milli


def run(scenario: Scenario) -> "Report":
    """Play the scenario; raises ScenarioError at the first line whose expectation is not met."""
    report = Report(scenario)
    for step in scenario.steps:
        report.play(step)
    return report


class Report:
    """A scenario under way: the stage, and what has been seen so far."""

    def __init__(self, scenario: Scenario) -> None:
        self.name = scenario.name
        words = scenario.cluster.split()
        plain, pairs = split(words)
        policy, _, depth = (plain[plain.index("policy") + 1] if "policy" in plain else "fcfs").partition(":")
        limits = {key: length(pairs.pop(key)) for key in ("walltime", "longest") if key in pairs}
        if depth:
            limits["depth"] = int(depth)
        match = pairs.pop("match", "first")
        self.stage = Stage(
            Settings(queues=single(policy, **limits), match=match, pace=int(pairs.pop("pace", "0")))
        )
        self.world = self.stage.world
        self.stage.add_nodes(int(words[1]), pairs)
        self.world.run(SETTLE)
        self.stage.zero = self.world.now
        self.started: list[str] = []
        self._seen = 0
        self._log_at = 0

    def play(self, step: Step) -> None:
        wait = self.stage.zero + step.at - self.world.now
        if wait > 0:
            self.world.run(wait)
        for number, action in step.actions:
            try:
                self.stage.do(action.split())
            except (Unclear, KeyError, ValueError, IndexError) as error:
                raise ScenarioError(f"{self.name}:{number}: `{action}`: {error}") from error
        self.world.run(SETTLE)
        self._note_starts()
        self._check(step)
        self._seen = len(self.started)

    # -- what is expected ----------------------------------------------------------------------------

    def _check(self, step: Step) -> None:
        wrong: list[str] = []
        told = [part.split()[1] for part in step.expected if part.startswith("start ")]
        for part in step.expected:
            verb, _, rest = part.replace("\n", " ", 1).partition(" ")
            try:
                check = getattr(self, f"_is_{verb}", None)
                found = check(rest) if check else self._in_state(verb, rest)
            except (KeyError, ValueError, IndexError) as error:
                found = f"cannot be read: {error!r}"
            if found:
                head, *_ = part.splitlines()
                wrong.append(f"  expected  {head}\n  but       {found}")
        surprising = [name for name in self.started[self._seen :] if name not in told]
        if surprising and not any(part.startswith("order ") for part in step.expected):
            wrong.append(f"  started without being told of: {' '.join(surprising)}")
        if wrong:
            actions = "; ".join(action for _, action in step.actions)
            raise ScenarioError("\n".join([f"{self.name}:{step.line}: {actions}", *wrong, *self._picture()]))

    def _note_starts(self) -> None:
        for _, command in self.world.log[self._log_at :]:
            if isinstance(command, cmd.RecordAllocations):
                self.started += [self._name_of(grant.group) for grant in command.grants if not grant.growth]
        self._log_at = len(self.world.log)

    def _name_of(self, gid: str) -> str:
        record = self.world.groups.get(gid)
        group = self.world.engine.state.groups.get(gid)
        found = group or record
        if found is None:
            return gid
        return table.bare(found.namespace, found.name)

    def group(self, name: str) -> Group | None:
        """The engine's newest group of this name."""
        found = [g for g in self.world.engine.state.groups.values() if self._name_of(g.id) == name]
        return max(found, key=lambda group: (group.seq, group.incarnation)) if found else None

    def _describe(self, name: str) -> str:
        group = self.group(name)
        if group is None:
            record = self._ended(name)
            return f"{name} is not known" if record is None else f"{name} ended: {record}"
        state = "rejected" if group.rejected else str(group.phase)
        broken = f" broken: {group.broken}" if group.broken else ""
        promise = f" for {self._clock(group.estimate)}" if group.estimate else ""
        text = f"{name} is {state}{promise} ({group.reason.why} {group.reason.text})"
        return f"{text} on {_spots(self._where(name))}{broken}"

    def _ended(self, name: str) -> str | None:
        found = [r for r in self.world.groups.values() if self._name_of(r.id) == name and r.outcome]
        return str(found[-1].outcome) if found else None

    def _where(self, name: str) -> Counter[str]:
        group = self.group(name)
        uids = group.pods if group is not None else {pod.uid: None for pod in self.stage.pods_of(name)}
        pods = [self.world.pods[uid] for uid in uids if uid in self.world.pods]
        return Counter(pod.node for pod in pods if pod.node and not pod.ended)

    def _in_state(self, verb: str, rest: str) -> str:
        name, _, words = rest.partition(" ")
        if verb not in _STATES:
            return f"`{verb}` is no expectation"
        group = self.group(name)
        state = "" if group is None else "rejected" if group.rejected else str(group.phase)
        text = "" if group is None else f"{group.reason.why} {group.reason.text}"
        wanted = words.strip()[1:-1] if words.strip().startswith("(") else ""
        return "" if state == _STATES[verb] and wanted in text else self._describe(name)

    def _is_reserve(self, rest: str) -> str:
        """To the second: a start is some milliseconds later than what it waited for."""
        name, _, when = rest.partition(" at ")
        time, _, words = when.strip().partition(" ")
        at, group = _time(time), self.group(name)
        if at is None:
            raise ValueError(f"{time!r} is no time such as 01:00")
        if group is None or not group.estimate or (group.estimate - self.stage.zero) // 1000 != at // 1000:
            return self._describe(name)
        return self._in_state("wait", f"{name} {words}")

    def _clock(self, at: int) -> str:
        seconds = (at - self.stage.zero) // 1000
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def _is_start(self, rest: str) -> str:
        name, _, where = rest.partition(" ")
        group = self.group(name)
        if name not in self.started[self._seen :]:
            return self._describe(name)
        if group is not None and group.phase not in (Phase.STARTING, Phase.RUNNING):
            return self._describe(name)
        return self._is_on(rest) if where.strip() else ""

    def _is_on(self, rest: str) -> str:
        name, _, where = rest.partition(" ")
        wanted = Counter(dict(table.spread(where.strip())))
        return "" if self._where(name) == wanted else self._describe(name)

    def _is_broken(self, rest: str) -> str:
        name, _, words = rest.partition(" ")
        group = self.group(name)
        wanted = words.strip()[1:-1]
        return "" if group is not None and group.broken and wanted in group.broken else self._describe(name)

    def _is_end(self, rest: str) -> str:
        name, outcome = rest.split()
        group = self.group(name)
        found = self._ended(name) if group is None else str(group.outcome)
        return "" if found == outcome else self._describe(name)

    def _is_gone(self, rest: str) -> str:
        return "" if self.group(rest) is None else self._describe(rest)

    def _is_nothing(self, _: str) -> str:
        return ""  # every start must be told anyway

    def _is_order(self, rest: str) -> str:
        wanted = rest.split()
        found = [name for name in self.started if name in wanted]
        return "" if found == wanted else f"started in the order {' '.join(self.started)}"

    def _is_free(self, rest: str) -> str:
        node, *words = rest.split()
        inventory = self.world.engine.state.inventory
        free = {n: int(inventory.free[row, inventory.rows[node]]) for n, row in inventory.resources.items()}
        wrong = {
            name: quantity.show(name, free.get(name, 0))
            for name, text in split(words)[1].items()
            if free.get(name, 0) != quantity.amount(name, text)
        }
        return f"{node} has {wrong} free" if wrong else ""

    def _is_state(self, rest: str) -> str:
        there = table.found(self.world.engine.state, self._name_of)
        return "\n            ".join(table.differences(table.read(rest), there))

    def _is_told(self, rest: str) -> str:
        head, _, words = rest.partition("(")
        name, reason = head.split()
        events = [
            (command.regarding.name, str(command.reason), command.note)
            for _, command in self.world.log
            if isinstance(command, cmd.Announce)
        ]
        told = [note for about, why, note in events if why == reason and _is_about(about, name)]
        return "" if any(words.strip().rstrip(")") in note for note in told) else f"told {events}"

    def _is_owner(self, rest: str) -> str:
        name, wanted = rest.split()
        entry = self.stage.entries[name]
        owner = self.world.owners.get(entry.owner.uid) if entry.owner is not None else None
        found = "gone" if owner is None else owner.ended or "there"
        return "" if found == wanted else f"the owner of {name} is {found}"

    def _picture(self) -> list[str]:
        """All groups, for whoever has to find out what went wrong."""
        groups = sorted(self.world.engine.state.groups.values(), key=lambda group: group.seq)
        return ["  now:", *(f"    {self._describe(self._name_of(g.id))}" for g in groups[:20])]


def _is_about(name: str, entry: str) -> bool:
    return re.fullmatch(rf"{re.escape(entry)}(-\d+)?", name) is not None


def _spots(where: Counter[str]) -> str:
    return ",".join(f"{node}*{n}" if n > 1 else node for node, n in sorted(where.items())) or "no node"
