"""What the ledger knows of a cluster, as a trace to be played again: groups, their run times, the nodes.

Called by `fairlead history export` and `fairlead replay --policy` with rows of the ledger. What a trace
cannot say is left out in plain sight (`Left`): nodes are those of the begin, pods of others that were there
at the begin and stayed are taken off their nodes, other pods of others are not there. Must not read anything.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from fairlead.model.group import GroupRecord
from fairlead.model.node import Node, Taint
from fairlead.model.pod import Amounts, Shape
from fairlead.model.record import NodeLife, PodLife
from fairlead.model.settings import DEFAULT_QUEUE, Settings
from fairlead.sim.trace import FORMAT, Head, Job, Trace


class Window(NamedTuple):
    """Which arrivals are meant: from `since` until before `until`, milliseconds since the epoch."""

    since: int
    until: int


class Left(NamedTuple):
    """What the trace does not say."""

    nodes_changed: int
    """Nodes that came, went or changed within the window."""
    others: int
    """Pods of other schedulers that came within the window: they are not played."""
    growth: int
    """Pods that joined a group after its start, as replacements do: each is a job of its own."""
    cancelled: int
    """Jobs that were deleted before they started: they are not played."""
    unended: int
    """Jobs of which the end is not known: they run for their walltime, for ever where they have none."""


class Recorded(NamedTuple):
    trace: Trace
    left: Left


def recorded(
    pods: Iterable[PodLife],
    nodes: Iterable[NodeLife],
    groups: Iterable[GroupRecord],
    window: Window,
    *,
    name: str = "recorded",
    scheduler: Callable[[PodLife], bool] = lambda pod: pod.scheduler == "fairlead",
    settings: Settings | None = None,
) -> Recorded:
    """The groups of `scheduler` that arrived within the window, on the nodes as the first of them found them.

    `groups` are what Fairlead's own store knows of groups (queue, priority, walltime); without one, a pod's
    own words and its labels count.
    """
    lives = sorted(pods, key=lambda pod: (pod.queued or pod.created, pod.uid))
    own = [pod for pod in lives if scheduler(pod)]
    others = [pod for pod in lives if not scheduler(pod)]
    shapes: dict[Amounts, int] = {}
    known = {record.key: record for record in groups}
    jobs: list[tuple[tuple[int, int, int, str], Job]] = []
    growth = cancelled = 0
    for members in _groups(own).values():
        first, later = _waves(members)
        growth += len(later)
        for wave in (first, *([pod] for pod in later)):
            job = _job(wave, known, shapes)
            if not window.since <= job.at < window.until:
                continue
            if not job.start and all(pod.deleted for pod in wave):
                cancelled += 1
                continue
            jobs.append((_place(job, wave, known), job))
    ordered = tuple(job for _, job in sorted(jobs, key=lambda each: each[0]))
    begin = ordered[0].at if ordered else window.since
    machine, changed = _machine(nodes, window._replace(since=begin))
    stayed = [pod for pod in others if pod.bound and pod.bound <= begin and _end(pod) == 0]
    machine = [_less(node, [pod for pod in stayed if pod.node == node.name]) for node in machine]
    came = sum(begin < pod.created < window.until for pod in others)
    head = Head(FORMAT, name, begin, window.until, settings)
    found = tuple(Shape(amounts) for amounts in shapes)
    unended = sum(job.end == 0 for job in ordered)
    left = Left(changed, came, growth, cancelled, unended)
    return Recorded(Trace(head, found, tuple(machine), ordered), left)


def _end(pod: PodLife) -> int:
    return pod.finished or pod.deleted


def _key(pod: PodLife) -> str:
    """The key of its group, as `core.grouping` has it. A Job's pod bears the Job's name as its group."""
    if pod.owner_kind == "Job" and pod.group in ("", pod.owner_name):
        return f"job:{pod.owner_uid}"
    return f"label:{pod.namespace}/{pod.group}" if pod.group else f"pod:{pod.uid}"


def _groups(pods: Sequence[PodLife]) -> dict[str, list[PodLife]]:
    found: dict[str, list[PodLife]] = {}
    for pod in pods:
        found.setdefault(_key(pod), []).append(pod)
    return found


def _waves(members: list[PodLife]) -> tuple[list[PodLife], list[PodLife]]:
    """Those that were there when the group started, and those that came later."""
    start = min((pod.bound for pod in members if pod.bound), default=0)
    if not start:
        return members, []
    first = [pod for pod in members if pod.created <= start]
    return (first, [pod for pod in members if pod.created > start]) if first else (members, [])


def _job(members: Sequence[PodLife], known: dict[str, GroupRecord], shapes: dict[Amounts, int]) -> Job:
    """One group's line. It runs from when all its members do until the last has ended."""
    pod = members[0]
    record = known.get(_key(pod))
    tasks: dict[int, int] = {}
    for each in members:
        amounts = tuple(sorted({**each.requests, "pods": 1}.items()))
        shape = shapes.setdefault(amounts, len(shapes))
        tasks[shape] = tasks.get(shape, 0) + 1
    times = _times(members, record)
    estimate = record.duration if record else max(each.walltime for each in members)
    return Job(
        at=times.at,
        namespace=pod.namespace,
        name=record.name if record else pod.group or pod.owner_name or pod.name,
        tasks=tuple((many, shape) for shape, many in tasks.items()),
        run=max(times.end - times.running, 1) if times.end else estimate,
        estimate=estimate,
        queue=record.queue if record else DEFAULT_QUEUE,
        priority=record.priority if record else pod.priority,
        start=times.start,
        end=times.end,
        nodes=tuple(sorted({each.node for each in members if each.node})),
    )


class _Times(NamedTuple):
    """Milliseconds; 0 where it is not known, or not so yet."""

    at: int
    start: int
    running: int
    end: int


def _times(members: Sequence[PodLife], record: GroupRecord | None) -> _Times:
    """Kubernetes counts in seconds; what Fairlead's store knows is to the millisecond."""
    bound = all(each.bound for each in members)
    ended = bound and all(_end(each) for each in members)
    told = _Times(
        max(each.queued or each.created for each in members),
        max(each.bound for each in members) if bound else 0,
        max(each.started or each.bound for each in members) if bound else 0,
        max(_end(each) for each in members) if ended else 0,
    )
    if record is None or len(members) < record.size or not (record.complete_at and record.started_at):
        return told
    return _Times(record.complete_at, record.granted_at, record.started_at, record.ended_at)


def _place(job: Job, members: Sequence[PodLife], known: dict[str, GroupRecord]) -> tuple[int, int, int, str]:
    """Who came first: many come within the same second, and the store knows their order."""
    record = known.get(_key(members[0]))
    return job.at, record.seq if record else 0, min(pod.first_seen for pod in members), members[0].uid


def _machine(lives: Iterable[NodeLife], window: Window) -> tuple[list[Node], int]:
    """The nodes as they were at the begin (as they came, those that came later), and how many changed.

    One that joined again under its old name is the same machine.
    """
    first: dict[str, NodeLife] = {}
    changed: dict[str, None] = {}
    for life in sorted(lives, key=lambda each: (each.since, each.name)):
        if life.since >= window.until or 0 < life.until <= window.since:
            continue
        if life.name in first and life.since <= window.since:
            first[life.name] = life
            continue
        if life.name in first or life.since > window.since or 0 < life.until < window.until:
            changed[life.name] = None
        first.setdefault(life.name, life)
    machine = [_node(life) for life in sorted(first.values(), key=lambda each: each.name)]
    return machine, len(changed)


def _node(life: NodeLife) -> Node:
    amounts = life.allocatable or life.capacity
    return Node(
        life.uid,
        life.name,
        1,
        tuple(sorted(amounts.items())),
        dict(life.labels),
        tuple(_taint(text) for text in life.taints),
        life.unschedulable,
        life.ready,
    )


def _taint(text: str) -> Taint:
    """From `key=value:effect`."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return Taint(key, value, effect)


def _less(node: Node, pods: Sequence[PodLife]) -> Node:
    """The node without what these take from it."""
    taken: dict[str, int] = {"pods": len(pods)}
    for pod in pods:
        for name, amount in pod.requests.items():
            taken[name] = taken.get(name, 0) + amount
    left = tuple((name, max(amount - taken.get(name, 0), 0)) for name, amount in node.allocatable)
    return structs.replace(node, allocatable=left)
