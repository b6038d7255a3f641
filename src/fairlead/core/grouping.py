"""Which group a pod belongs to and what that group asks for, read from labels, annotations and owners.

Pure functions, called by `core.reduce` (key of a pod) and `core.groups` (demands of a group). Order of
sources (design.md §8): labels, then the Job, else the pod alone. Nothing here decides when to start.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from fairlead.core import durations
from fairlead.core.topology import NODE, Topology, short
from fairlead.model.esi import TESTBED_LABEL
from fairlead.model.group import Reason, Why
from fairlead.model.layout import NO_LAYOUT, Layout
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod
from fairlead.model.settings import DEFAULT_QUEUE, SLOT_QUEUE, QueueSettings, Settings

GROUP = "fairlead.dev/group"
GROUP_SIZE = "fairlead.dev/group-size"
_POD_GROUP = "scheduling.x-k8s.io/pod-group"
_NAMES = (
    (GROUP, GROUP_SIZE),
    ("fluxnetes.group-name", "fluxnetes.group-size"),
    (_POD_GROUP, "fluence.group-size"),
)
QUEUE = "fairlead.dev/queue"
DURATION = "fairlead.dev/duration"
ON_TIMEOUT = "fairlead.dev/on-timeout"
ON_TIMEOUTS = ("fail", "delete", "pods")
"""What becomes of a Job at its walltime: it fails and stays, it is deleted, or only its pods are."""
ON_FAILURE = "fairlead.dev/on-member-failure"
ON_FAILURES = ("keep", "fail-all")
"""What becomes of the others when a member fails or is lost: they run on, or all of the group has failed."""
SERVICES = ("ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet")
"""Their pods are to run for ever: a queue's walltimes are not meant for them (D10)."""
BEGIN_TIME = "fairlead.dev/begin-time"
REQUIRED_TOPOLOGY = "fairlead.dev/required-topology"
PREFERRED_TOPOLOGY = "fairlead.dev/preferred-topology"
EXCLUSIVE = "fairlead.dev/exclusive"


class Key(NamedTuple):
    """What identifies a group: `text` is `label:NS/NAME`, `job:UID` or `pod:UID`; `source` its first word."""

    text: str
    source: str
    name: str


class Demand(NamedTuple):
    """What a group asks for, or why it cannot be read. Times in milliseconds; 0 = none.

    `limit` is the walltime if Fairlead is the one to enforce it: it is not where the pods' own
    activeDeadlineSeconds say it.
    """

    size: int
    queue: str
    duration: int
    begin: int
    hold: Reason | None
    limit: int = 0
    layout: Layout = NO_LAYOUT
    astray: bool = False
    """Whether it is held for a level that no node has, and may be read again when nodes change."""
    fail_all: bool = False
    slotted: bool = False
    """Whether it is a pod of external schedulers, which goes to a slot."""


class Walltime(NamedTuple):
    """How long a group may run, in milliseconds, 0 = for ever; `limit` as in Demand."""

    duration: int = 0
    limit: int = 0
    wrong: Reason | None = None
    stated: bool = False
    """Whether the group's own objects say it, and not the queue."""


def key_of(pod: Pod) -> Key:
    """The group of a pod, by its labels, else its Job, else alone. One that goes to a slot is alone."""
    if pod.labels.get(TESTBED_LABEL) is not None:
        return Key(f"pod:{pod.uid}", "pod", pod.name)
    if name := labelled(pod.labels):
        return Key(f"label:{pod.namespace}/{name}", "label", name)
    if pod.owner is not None and pod.owner.kind == "Job":
        return Key(f"job:{pod.owner.uid}", "job", pod.owner.name)
    return Key(f"pod:{pod.uid}", "pod", pod.name)


def labelled(labels: Mapping[str, str]) -> str:
    """The name of the group that labels of a pod put it into; "" for none."""
    return next((name for label, _ in _NAMES if (name := labels.get(label))), "")


def demand(
    source: str,
    members: Sequence[Pod],
    owners: Sequence[Owner],
    missing_owner: bool,
    settings: Settings,
    levels: Callable[[], Topology] | None = None,
    devices: Callable[[str], str] | None = None,
) -> Demand:
    """Read size, walltime, begin time, queue and layout of a group.

    `members` are its live pods in order of arrival, `owners` the controllers of any of them that are
    known, `missing_owner` whether one is named but has not been seen. `levels` is asked for where a layout
    names one; without it no layout is read. `devices` tells of a resource which DeviceClass it comes from.
    """
    notes = annotations(members, owners)
    size, hold = _size(source, members, owners, missing_owner)
    slotted = source == "pod" and any(TESTBED_LABEL in pod.labels for pod in members)
    name = SLOT_QUEUE if slotted else notes.get(QUEUE, DEFAULT_QUEUE)
    queue = None if slotted else settings.queue(name)
    time = walltime(notes, members, queue)
    begin, wrong_begin = _begin(notes)
    lost = None if slotted else _no_queue(name, queue, settings)
    wrong = hold or lost or time.wrong or wrong_begin or _unknown_word(notes)
    where = layout(notes, levels) if levels is not None else NO_LAYOUT
    astray = isinstance(where, Reason)
    return Demand(
        size, name, time.duration, begin,
        wrong or (where if isinstance(where, Reason) else _unsupported(members, devices)),
        time.limit, NO_LAYOUT if isinstance(where, Reason) else where, astray, fails_whole(notes), slotted,
    )  # fmt: skip


def fails_whole(notes: dict[str, str]) -> bool:
    """Whether the group is to end when a member fails or is lost."""
    return notes.get(ON_FAILURE) == "fail-all"


def layout(notes: dict[str, str], levels: Callable[[], Topology]) -> Layout | Reason:
    """How the members are to lie; a Reason where that cannot be read or no node is labelled so."""
    alone = notes.get(EXCLUSIVE, "false")
    if alone not in ("true", "false"):
        return _invalid(f"annotation {EXCLUSIVE} is {alone!r}, neither true nor false")
    found: list[str] = []
    for key in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY):
        name = notes.get(key, "")
        level = levels().level(name) if name else ""
        if level is None or (level and key == REQUIRED_TOPOLOGY and not levels().codes(level)[1]):
            have = ", ".join([short(each) for each in levels().present()] + [NODE])
            return _invalid(f"annotation {key} is {name!r}: no node has such a label, the levels are {have}")
        found.append(level)
    return Layout(found[0], found[1], alone == "true")


def walltime(notes: dict[str, str], members: Sequence[Pod], queue: QueueSettings | None) -> Walltime:
    """The annotation, else the pods' own activeDeadlineSeconds, else what the queue gives (design.md §6)."""
    longest = queue.longest if queue is not None else 0
    text = notes.get(DURATION)
    if text is not None:
        length = durations.duration(text)
        if length is None or length > _LONGEST:
            return Walltime(
                wrong=_invalid(
                    f"annotation {DURATION} is {text!r}, not a duration such as 3600, 90s or 2h30m"
                    + ("" if length is None else f" (at most {durations.show(_LONGEST)})")
                )
            )
        found = Walltime(length, length, stated=True)
    elif own := _own_deadline(members):
        found = Walltime(own, stated=True)
    else:
        return _of_queue(members, queue)
    if queue is not None and longest and found.duration > longest:
        asked, most = durations.show(found.duration), durations.show(longest)
        return Walltime(
            wrong=_invalid(f"asks for a walltime of {asked}, queue {queue.name} gives {most} at most")
        )
    return found


_LONGEST = 36_500 * 86_400_000
"""More than anybody means, and small enough that the sum of two times is no overflow."""


def _own_deadline(members: Sequence[Pod]) -> int:
    """By when the kubelets will have ended all of them; 0 if one of them has no deadline."""
    if not members or not all(pod.walltime for pod in members):
        return 0
    return min(max(pod.walltime for pod in members), _LONGEST)


def _of_queue(members: Sequence[Pod], queue: QueueSettings | None) -> Walltime:
    """The queue's default, else its maximum; nothing for services, which are to run for ever."""
    if queue is None or any(pod.owner is not None and pod.owner.kind in SERVICES for pod in members):
        return Walltime()
    length = min(queue.walltime or queue.longest, queue.longest or queue.walltime)
    return Walltime(length, length)


def _no_queue(name: str, queue: QueueSettings | None, settings: Settings) -> Reason | None:
    if queue is not None:
        return None
    known = ", ".join(each.name for each in settings.queues)
    return _invalid(f"annotation {QUEUE} is {name!r}: no such queue, the queues are {known}")


def _unknown_word(notes: dict[str, str]) -> Reason | None:
    for key, words in ((ON_TIMEOUT, ON_TIMEOUTS), (ON_FAILURE, ON_FAILURES)):
        if notes.get(key, words[0]) not in words:
            return _invalid(f"annotation {key} is {notes[key]!r}, not one of {', '.join(words)}")
    return None


def annotations(members: Sequence[Pod], owners: Sequence[Owner]) -> dict[str, str]:
    """Fairlead's annotations: the first member that has a key wins, owners fill what is missing."""
    notes: dict[str, str] = {}
    for holder in (*members[:1], *owners, *members[1:]):
        for key, value in holder.annotations.items():
            notes.setdefault(key, value)
    return notes


def _invalid(text: str) -> Reason:
    return Reason(Why.INVALID, text)


def _size(
    source: str, members: Sequence[Pod], owners: Sequence[Owner], missing_owner: bool
) -> tuple[int, Reason | None]:
    if source == "pod":
        return 1, None
    if source == "job":
        if not owners:
            return 1, Reason(Why.WAITING_FOR_GROUP, "its Job has not been seen yet")
        return max(owners[0].size, 1), None
    stated = _stated_size(members)
    if isinstance(stated, Reason):
        return 1, stated
    if stated is None:
        return _unstated_size(members, owners, missing_owner)
    for owner in owners:
        if owner.kind == "StatefulSet" and owner.ordered and stated > 1:
            return stated, _invalid(
                f"StatefulSet {owner.name} creates its pods one after the other and can never bring"
                f" {stated} together: set podManagementPolicy: Parallel"
            )
    return stated, None


def _stated_size(members: Iterable[Pod]) -> int | Reason | None:
    """The size that the members' labels state; a Reason where it is unreadable or they disagree."""
    found: tuple[int, str] | None = None
    for pod in members:
        for name_label, size_label in _NAMES:
            if not pod.labels.get(name_label):
                continue
            text = pod.labels.get(size_label)
            if text is None:
                break
            if not (text.isascii() and text.isdigit() and int(text) > 0):
                return _invalid(f"pod {pod.name}: label {size_label} is {text!r}, not a whole number above 0")
            if found is not None and found[0] != int(text):
                return _invalid(
                    f"members contradict each other: {size_label} is {found[0]} on {found[1]}"
                    f" but {text} on {pod.name}"
                )
            found = found or (int(text), pod.name)
            break
    return None if found is None else found[0]


def _unstated_size(
    members: Sequence[Pod], owners: Sequence[Owner], missing_owner: bool
) -> tuple[int, Reason | None]:
    """A group label without a size: the owner's parallelism if one owner has all members, else 1."""
    own_label = any(pod.labels.get(name) for pod in members for name, _ in _NAMES if name != _POD_GROUP)
    if members and not own_label:
        return 1, Reason(
            Why.UNSUPPORTED, f"Unsupported: PodGroup object (label {_POD_GROUP} without fluence.group-size)"
        )
    if missing_owner:
        return 1, Reason(Why.WAITING_FOR_GROUP, "an owner of its pods has not been seen yet")
    uids = {pod.owner.uid if pod.owner else "" for pod in members}
    if len(uids) == 1 and len(owners) == 1 and owners[0].uid in uids:
        return max(owners[0].size, 1), None
    return 1, None


def _begin(notes: dict[str, str]) -> tuple[int, Reason | None]:
    text = notes.get(BEGIN_TIME)
    if text is None:
        return 0, None
    begin = durations.instant(text)
    if begin is None:
        return 0, _invalid(
            f"annotation {BEGIN_TIME} is {text!r}, not an RFC 3339 time such as 2030-01-31T08:00:00Z"
        )
    return begin, None


def _unsupported(members: Sequence[Pod], devices: Callable[[str], str] | None) -> Reason | None:
    fields: dict[str, None] = {}
    for pod in members:
        fields.update(dict.fromkeys(pod.shape.unsupported))
    if devices is not None:
        asked = dict.fromkeys(name for pod in members for name, _ in pod.shape.requests if "/" in name)
        behind = {name: devices(name) for name in asked}
        texts = [f"resource {name} from DeviceClass {each}" for name, each in behind.items() if each]
        fields.update(dict.fromkeys(f"{text} (dynamic resource allocation)" for text in texts))
    return Reason(Why.UNSUPPORTED, "Unsupported: " + ", ".join(fields)) if fields else None
