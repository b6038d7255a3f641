"""An independent judge of a whole run: what every pod and node was at every version, held against the rules.

It knows what the API server said and nothing else: no code of Fairlead, own arithmetic in exact fractions.
`checker_watch.Recorder` gathers the moments; each function here reads them and answers with what was wrong,
one line per fault, so an empty list is a pass. test_checker.py shows that each can fail.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

Amounts = Mapping[str, Fraction]
Interval = tuple[float, float]

_UNITS = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([a-zA-Z]*))")
_POD_LEVEL = ("cpu", "memory")
"""What a pod may ask for as a whole, beside huge pages."""


def quantity(text: str | int) -> Fraction:
    """The exact value of a Kubernetes quantity."""
    found = _QUANTITY.fullmatch(str(text))
    if found is None:
        raise ValueError(f"{text!r} is no quantity")
    number, exponent, unit = found.groups()
    return Fraction(number) * (Fraction(10) ** int(exponent) if exponent else _UNITS[unit or ""])


def _amounts(raw: Mapping[str, str] | None) -> dict[str, Fraction]:
    return {name: quantity(value) for name, value in (raw or {}).items()}


def _add(into: dict[str, Fraction], more: Amounts) -> None:
    for name, value in more.items():
        into[name] = into.get(name, Fraction(0)) + value


def _raise(into: dict[str, Fraction], least: Amounts) -> None:
    for name, value in least.items():
        into[name] = max(into.get(name, Fraction(0)), value)


def effective(spec: Mapping[str, Any]) -> dict[str, Fraction]:
    """What a pod takes of its node: containers and sidecars together, or the largest moment of its start,
    whichever is more; what it asks for as a whole stands above both; and its overhead, and itself."""

    def wants(container: Mapping[str, Any]) -> dict[str, Fraction]:
        return _amounts((container.get("resources") or {}).get("requests"))

    total: dict[str, Fraction] = {}
    for each in spec.get("containers") or []:
        _add(total, wants(each))
    sidecars: dict[str, Fraction] = {}
    starting: dict[str, Fraction] = {}
    for each in spec.get("initContainers") or []:
        if each.get("restartPolicy") == "Always":
            _add(sidecars, wants(each))
            _raise(starting, sidecars)
        else:
            moment = dict(sidecars)
            _add(moment, wants(each))
            _raise(starting, moment)
    _add(total, sidecars)
    _raise(total, starting)
    whole = _amounts((spec.get("resources") or {}).get("requests"))
    total |= {k: v for k, v in whole.items() if k in _POD_LEVEL or k.startswith("hugepages-")}
    _add(total, _amounts(spec.get("overhead")))
    total["pods"] = Fraction(1)
    return total


class Moment(NamedTuple):
    """A pod or a node at one version, and when (seconds of one monotonic clock) that was learned.

    `amounts`: what the pod takes, or what the node has to give. `gone`: this version is its deletion.
    """

    at: float
    version: int
    kind: str
    uid: str
    namespace: str = ""
    name: str = ""
    group: str = ""
    scheduler: str = ""
    node: str = ""
    phase: str = ""
    reason: str = ""
    controlled: bool = False
    deleting: bool = False
    disrupted: bool = False
    gone: bool = False
    amounts: Amounts = MappingProxyType({})

    @property
    def holds(self) -> bool:
        """Takes room of its node."""
        return bool(self.node) and not self.gone and self.phase not in ("Succeeded", "Failed")


def moment(raw: Mapping[str, Any], at: float, version: int = 0, gone: bool = False) -> Moment:
    """A raw object as it counts here; `version` where the object's own is not the one in question."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    version = version or int(meta["resourceVersion"])
    if "containers" not in spec:
        amounts = _amounts(status.get("allocatable"))
        return Moment(at, version, "Node", meta["uid"], name=meta["name"], gone=gone, amounts=amounts)
    owner = next((each for each in meta.get("ownerReferences") or [] if each.get("controller")), None)
    labels = meta.get("labels") or {}
    conditions = status.get("conditions") or []
    named = labels.get("fairlead.dev/group") or (owner["name"] if owner else meta["name"])
    return Moment(
        at, version, "Pod", meta["uid"], meta["namespace"], meta["name"], f"{meta['namespace']}/{named}",
        spec.get("schedulerName", ""), spec.get("nodeName", ""), status.get("phase", ""),
        status.get("reason", ""), owner is not None, "deletionTimestamp" in meta,
        any(each["type"] == "DisruptionTarget" and each["status"] == "True" for each in conditions),
        gone, effective(spec),
    )  # fmt: skip


History = Sequence[Moment]


def pods(history: History, scheduler: str = "") -> list[Moment]:
    return [m for m in history if m.kind == "Pod" and scheduler in ("", m.scheduler)]


# -- room ----------------------------------------------------------------------------------------------


class Excess(NamedTuple):
    """A node held more than it has from `since` until `until` (infinite: still); `pods` at its worst."""

    node: str
    resource: str
    used: Fraction
    capacity: Fraction
    first: Moment
    since: float
    until: float
    pods: tuple[Moment, ...]

    def __str__(self) -> str:
        return (
            f"{self.node} holds {float(self.used):g} {self.resource} of {float(self.capacity):g} from version"
            f" {self.first.version} on, with {self.first.name} ({len(self.pods)} pods)"
        )


class _Node:
    """One node on the way through the history."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.capacity: Amounts | None = None
        self.held: dict[str, Moment] = {}
        self.over: dict[str, Excess] = {}

    def look(self, now: Moment) -> list[Excess]:
        """Excesses that ended with this moment; those that are there now are kept in `over`."""
        used: dict[str, Fraction] = {}
        for pod in self.held.values():
            _add(used, pod.amounts)
        ended: list[Excess] = []
        for name in {**self.over, **used}:
            have = (self.capacity or {}).get(name, Fraction(0))
            want, known = used.get(name, Fraction(0)), self.over.get(name)
            # A node that went, or was not yet heard of, has no capacity that could be exceeded.
            if self.capacity is None or want <= have:
                if known is not None:
                    ended.append(self.over.pop(name)._replace(until=now.at))
            elif known is None or want > known.used:
                first, since = (now, now.at) if known is None else (known.first, known.since)
                worst = tuple(self.held.values())
                self.over[name] = Excess(self.name, name, want, have, first, since, float("inf"), worst)
        return ended


def excesses(history: History) -> list[Excess]:
    """Every time at which the pods on a node asked for more than it has to give, in the order of versions."""
    nodes: dict[str, _Node] = {}
    where: dict[str, str] = {}
    found: list[Excess] = []
    for now in sorted(history, key=lambda m: m.version):
        if now.kind == "Node":
            node = nodes.setdefault(now.name, _Node(now.name))
            node.capacity = None if now.gone else now.amounts
            found += node.look(now)
            continue
        name = where.setdefault(now.uid, now.node) or now.node
        if not name:
            del where[now.uid]
            continue
        node = nodes.setdefault(name, _Node(name))
        if now.holds:
            node.held[now.uid] = now
        else:
            node.held.pop(now.uid, None)
        found += node.look(now)
    for node in nodes.values():
        found += node.over.values()
    return sorted(found, key=lambda e: e.first.version)


def overcommitted(history: History) -> list[str]:
    """On nodes of our own none may ever hold too much, at no version."""
    return [str(excess) for excess in excesses(history)]


def knowingly(history: History, ours: str, stale: float) -> list[str]:
    """Excesses that began with a bind of ours though the rest had been told for `stale` seconds or more."""
    bound = _bound_at(history)
    found: list[str] = []
    for excess in excesses(history):
        first = excess.first
        if first.kind != "Pod" or first.scheduler != ours:
            continue
        others = [bound[pod.uid] for pod in excess.pods if pod.scheduler != ours]
        if not any(first.at - at < stale for at in others):
            found.append(f"bound by {ours} where there was no room: {excess}")
    return found


def left_over(history: History, rest: float, forgiven: Iterable[str] = ()) -> list[str]:
    """Excesses that still are there `rest` seconds after the last word; `forgiven`: groups that may stay."""
    last = max((m.at for m in history), default=0.0)
    stay = set(forgiven)
    return [
        str(excess)
        for excess in excesses(history)
        if excess.until > last + rest and not any(pod.group in stay for pod in excess.pods)
    ]


def _bound_at(history: History) -> dict[str, float]:
    """When each pod was first seen on a node."""
    found: dict[str, float] = {}
    for now in pods(history):
        if now.node:
            found.setdefault(now.uid, now.at)
    return found


# -- pods ----------------------------------------------------------------------------------------------


def moved(history: History) -> list[str]:
    """A pod that was on one node and then on another, or on none any more, was bound twice."""
    nodes: dict[str, str] = {}
    found: list[str] = []
    for now in sorted(pods(history), key=lambda m: m.version):
        known = nodes.setdefault(now.uid, now.node) or now.node
        if known != now.node:
            found.append(f"{now.namespace}/{now.name} was on {known}, then on {now.node or 'none'}")
        nodes[now.uid] = now.node
    return found


def surplus(history: History, sizes: Mapping[str, int]) -> set[str]:
    """Pods that their own controller took away again, because it had made more than the group has members.

    A Job's may, when it was cut off from the API server after asking for a pod.
    """
    there: dict[str, dict[str, None]] = defaultdict(dict)
    found: set[str] = set()
    for now in sorted(pods(history), key=lambda m: m.version):
        members = there[now.group]
        if (now.deleting or now.gone) and now.uid in members:
            if now.controlled and not now.disrupted and len(members) > sizes.get(now.group, len(members)):
                found.add(now.uid)
            members.pop(now.uid)
        elif not now.deleting and now.phase != "Failed":
            members[now.uid] = None
    return found


def killed(history: History, sizes: Mapping[str, int], scheduler: str = "fairlead") -> list[str]:
    """Pods of this scheduler that were told to go, or went, while they ran, and not as surplus."""
    extra = surplus(history, sizes)
    phases: dict[str, str] = {}
    found: dict[str, str] = {}
    for now in sorted(pods(history, scheduler), key=lambda m: m.version):
        if (now.deleting or now.gone) and phases.get(now.uid, now.phase) == "Running":
            found.setdefault(now.uid, f"{now.namespace}/{now.name} was deleted while it ran")
        if not now.deleting:
            phases[now.uid] = now.phase
    return [text for uid, text in found.items() if uid not in extra]


def not_once(history: History, sizes: Mapping[str, int]) -> list[str]:
    """Groups (namespace/name -> members) of which not exactly so many pods ran, each to a good end.

    Of a group whose controller made more pods than that, as many as it made and did not take away may run.
    """
    extra = surplus(history, sizes)
    made: dict[str, dict[str, None]] = defaultdict(dict)
    ran: dict[str, dict[str, None]] = defaultdict(dict)
    good: dict[str, dict[str, None]] = defaultdict(dict)
    bad: dict[str, dict[str, None]] = defaultdict(dict)
    for now in pods(history):
        if now.uid in extra:
            continue
        if now.controlled:
            made[now.group][now.uid] = None
        if now.node and now.phase in ("Running", "Succeeded", "Failed"):
            ran[now.group][now.uid] = None
        if now.phase == "Succeeded":
            good[now.group][now.uid] = None
        elif now.phase == "Failed":
            bad[now.group][now.uid] = None
    return [
        f"{group}: {len(ran[group])} ran, {len(good[group])} succeeded, {len(bad[group])} failed, of {size}"
        for group, size in sizes.items()
        if not size <= len(ran[group]) == len(good[group]) <= max(size, len(made[group])) or bad[group]
    ]


def lost(history: History, sizes: Mapping[str, int]) -> list[str]:
    """Groups of which fewer pods than they have members came to a good end."""
    good: dict[str, dict[str, None]] = defaultdict(dict)
    for now in pods(history):
        if now.phase == "Succeeded":
            good[now.group][now.uid] = None
    return [f"{group}: {len(good[group])} of {n}" for group, n in sizes.items() if len(good[group]) < n]


def unended(history: History, sizes: Mapping[str, int]) -> list[str]:
    """Pods of these groups that are still there and have not come to an end."""
    last = {now.uid: now for now in sorted(pods(history), key=lambda m: m.version) if now.group in sizes}
    return [
        f"{now.group}: {now.name} is {now.phase}"
        for now in last.values()
        if not now.gone and now.phase not in ("Succeeded", "Failed")
    ]


# -- gangs ---------------------------------------------------------------------------------------------


def halves(history: History, sizes: Mapping[str, int]) -> list[tuple[str, float, float]]:
    """From when until when (infinite: still) each group had some members bound and others not.

    A member that came to a good end stays bound; one that failed or went is not.
    """
    bound: dict[str, set[str]] = defaultdict(set)
    since: dict[str, float] = {}
    ended: set[str] = set()
    found: list[tuple[str, float, float]] = []
    for now in sorted(pods(history), key=lambda m: m.version):
        if now.group not in sizes or now.uid in ended:
            continue
        have = bound[now.group]
        if now.phase == "Succeeded":
            ended.add(now.uid)
        (have.add if now.holds or now.phase == "Succeeded" else have.discard)(now.uid)
        half = 0 < len(have) < sizes[now.group]
        if half:
            since.setdefault(now.group, now.at)
        elif now.group in since:
            found.append((now.group, since.pop(now.group), now.at))
    return found + [(group, at, float("inf")) for group, at in since.items()]


def half_started(
    history: History, sizes: Mapping[str, int], up: Sequence[Interval], limit: float
) -> list[str]:
    """Groups that were half bound for longer than `limit` seconds while everything was up all the time."""
    return [
        f"{group}: half bound for {min(until, end) - max(since, begin):.1f} s"
        for group, since, until in halves(history, sizes)
        for begin, end in up
        if min(until, end) - max(since, begin) > limit
    ]
