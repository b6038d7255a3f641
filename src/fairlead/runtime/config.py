"""The configuration file and the options of the command line become an engine's Settings.

Called by `fairlead.app` at start and by `runtime.reloading` at SIGHUP. docs/configuration.md explains every
key. An option speaks of the default queue; where file and option contradict each other, nothing is started.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from fairlead.core import durations
from fairlead.core.topology import HOST
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import (
    DEFAULT_QUEUE,
    FUNCTION_MODES,
    MATCHES,
    ORDERS,
    POLICIES,
    SLOT_QUEUE,
    PartitionSettings,
    PolicyFunction,
    QueueSettings,
    Settings,
)
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.yamlfile import YamlFile, shown

MOST = 1_000_000
"""Reservations, or groups looked at: beyond any queue."""
LONGEST = 36_500 * 86_400_000
LONGEST_PACE = 60_000
LONGEST_ANSWER = 30_000
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_KEY = re.compile(rf"([-a-z0-9.]{{1,253}}/)?{_NAME.pattern}")
_FUNCTION = re.compile(r"(\w+(\.\w+)*|[^:]+\.py):[^\W\d]\w*")
_INTEGER = re.compile(r"-?[0-9]{1,18}")


class Given(Struct, frozen=True):
    """What the command line says of the settings. Empty and None: not said."""

    config: Path | None = None
    policy: str = ""
    depth: int | None = None
    looks: int | None = None
    match: str = ""
    scheduler: str = ""
    aliases: tuple[str, ...] = ()
    """Other schedulerNames whose pods are placed."""


# -- what may stand in the file ----------------------------------------------------------------------

Length = int | str
"""A duration as it is written: 3600 (seconds), 90s, 2h30m."""


class _Queue(Struct, rename="kebab", forbid_unknown_fields=True):
    name: str
    policy: str | UnsetType = UNSET
    reservation_depth: int | UnsetType = UNSET
    order: str | UnsetType = UNSET
    default_walltime: Length | UnsetType = UNSET
    max_walltime: Length | UnsetType = UNSET
    partition: str | UnsetType = UNSET
    queue_depth: int | UnsetType = UNSET
    max_reservations: int | UnsetType = UNSET


class _Expression(Struct, forbid_unknown_fields=True):
    key: str
    operator: str
    values: list[str] = []


class _Selector(Struct, rename="camel", forbid_unknown_fields=True):
    match_labels: dict[str, Any] = {}
    match_expressions: list[_Expression] = []


class _Partition(Struct, rename={"node_selector": "nodeSelector"}, forbid_unknown_fields=True):
    name: str
    node_selector: _Selector


class _Function(Struct, rename="kebab", forbid_unknown_fields=True):
    function: str
    mode: str | UnsetType = UNSET
    time_limit: Length | UnsetType = UNSET
    path: str = ""


class _File(Struct, rename="kebab", forbid_unknown_fields=True):
    scheduler_name: str | UnsetType = UNSET
    match: str | UnsetType = UNSET
    pace: Length | UnsetType = UNSET
    retention: Length | UnsetType = UNSET
    topology: list[str] | UnsetType = UNSET
    queues: list[_Queue] = []
    partitions: list[_Partition] = []
    policy_function: _Function | UnsetType = UNSET


_KINDS: dict[str, type[Struct]] = {
    "": _File,
    "queues": _Queue,
    "partitions": _Partition,
    "policy-function": _Function,
    "partitions.nodeSelector": _Selector,
    "partitions.nodeSelector.matchExpressions": _Expression,
}


# -- reading -----------------------------------------------------------------------------------------


def settings(given: Given) -> Settings:
    """The settings that file and command line ask for. Raises ConfigError: one line for people."""
    found = Settings() if given.config is None else _Reading(YamlFile(given.config), given).settings()
    default = _with_options(found.queue(DEFAULT_QUEUE) or QueueSettings(), given)
    queues = tuple(default if queue.name == DEFAULT_QUEUE else queue for queue in found.queues)
    return msgspec.structs.replace(
        found,
        queues=queues,
        match=_choice("--match", given.match, MATCHES) or found.match,
        scheduler=given.scheduler or found.scheduler,
        aliases=given.aliases,
    )


def _with_options(queue: QueueSettings, given: Given) -> QueueSettings:
    """The default queue as the command line wants it; that it contradicts no file was seen before."""
    policy = _choice("--policy", given.policy, POLICIES) or queue.policy
    depth = queue.depth if given.depth is None else given.depth
    if given.depth is not None:
        wrong = _depth_error(given.depth, queue.name, policy)
        if wrong:
            raise ConfigError(f"--reservation-depth {given.depth}: {wrong}")
    looks = queue.looks if given.looks is None else given.looks
    if not 0 <= looks <= MOST:
        raise ConfigError(f"--queue-depth {looks}: must be from 0 (all groups) to {MOST}")
    return msgspec.structs.replace(queue, policy=policy, depth=depth, looks=looks)


def _depth_error(depth: int, queue: str, policy: str) -> str:
    """What is wrong with a reservation depth in a queue of this policy; "" if nothing is."""
    if not -1 <= depth <= MOST:
        return f"must be -1 (no reservations), 0 (one for every waiting group) or how many, at most {MOST}"
    if policy != "hybrid":
        return f"only the policy hybrid has a reservation depth, and that of queue {queue} is {policy}"
    return ""


def _choice(option: str, value: str, choices: Sequence[str]) -> str:
    if value and value not in choices:
        raise ConfigError(f"{option} {value}: unknown; choose one of: {', '.join(choices)}")
    return value


class _Reading:
    """One file that is being read, beside what the command line says."""

    def __init__(self, file: YamlFile, given: Given) -> None:
        self._file, self._given = file, given

    def settings(self) -> Settings:
        read = self._file.convert(_File, _KINDS)
        normal, given = Settings(), self._given
        partitions = tuple(
            self._partition(each, f"partitions[{i}]") for i, each in enumerate(read.partitions)
        )
        self._unique("partitions", [each.name for each in partitions])
        names = [each.name for each in partitions]
        queues = [self._queue(each, f"queues[{i}]", names) for i, each in enumerate(read.queues)]
        self._unique("queues", [each.name for each in queues])
        if DEFAULT_QUEUE not in [each.name for each in queues]:
            queues.insert(0, QueueSettings())
        self._agree("scheduler-name", read.scheduler_name, "--scheduler-name", given.scheduler)
        self._agree("match", read.match, "--match", given.match)
        return Settings(
            queues=tuple(queues),
            partitions=partitions,
            match=self._choice("match", read.match, MATCHES, normal.match),
            scheduler=self._name("scheduler-name", read.scheduler_name, normal.scheduler),
            pace=self._time("pace", read.pace, LONGEST_PACE) or normal.pace,
            retention=self._time("retention", read.retention) or normal.retention,
            topology=normal.topology if read.topology is UNSET else self._levels(read.topology),
            function=None if read.policy_function is UNSET else self._function(read.policy_function),
        )

    def _function(self, read: _Function) -> PolicyFunction:
        """Whether it is there and can be called is for `runtime.policy_process` to find out."""
        at, normal = "policy-function", PolicyFunction("")
        if not _FUNCTION.fullmatch(read.function):
            raise self._file.wrong(
                f"{at}.function", f"{shown(read.function)} is neither module:function nor file.py:function"
            )
        folder = self._file.path.parent
        path = str((folder / read.path).resolve()) if read.path or ".py:" in read.function else ""
        if path and not Path(path).is_dir():
            raise self._file.wrong(f"{at}.path", f"there is no folder {path}")
        return PolicyFunction(
            name=read.function,
            mode=self._choice(f"{at}.mode", read.mode, FUNCTION_MODES, normal.mode),
            limit=self._time(f"{at}.time-limit", read.time_limit, LONGEST_ANSWER) or normal.limit,
            path=path,
        )

    def _levels(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Label keys from the widest level to the narrowest; the node itself is below them all."""
        for i, key in enumerate(keys):
            at = f"topology[{i}]"
            if self._label_key(at, key) == HOST:
                raise self._file.wrong(at, f"{HOST} is there anyhow, below all others: leave it out")
            if key in keys[:i]:
                raise self._file.wrong(at, f"{key} stands there already: levels stand once")
        return tuple(keys)

    def _queue(self, read: _Queue, at: str, partitions: Sequence[str]) -> QueueSettings:
        normal = QueueSettings()
        queue = QueueSettings(
            name=self._name(f"{at}.name", read.name),
            policy=self._choice(f"{at}.policy", read.policy, POLICIES, normal.policy),
            depth=normal.depth if read.reservation_depth is UNSET else read.reservation_depth,
            order=self._choice(f"{at}.order", read.order, ORDERS, normal.order),
            walltime=self._time(f"{at}.default-walltime", read.default_walltime),
            longest=self._time(f"{at}.max-walltime", read.max_walltime),
            partition=self._choice(f"{at}.partition", read.partition, partitions, "", "partitions"),
            looks=self._count(f"{at}.queue-depth", read.queue_depth, normal.looks),
            promises=self._count(f"{at}.max-reservations", read.max_reservations, normal.promises),
        )
        if queue.name == DEFAULT_QUEUE:
            queue = self._default(read, queue, at)
        self._check(read, queue, at)
        return queue

    def _default(self, read: _Queue, queue: QueueSettings, at: str) -> QueueSettings:
        """The default queue has to agree with the options, and takes from them what it does not say."""
        given = self._given
        self._agree(f"{at}.policy", read.policy, "--policy", given.policy)
        self._agree(f"{at}.reservation-depth", read.reservation_depth, "--reservation-depth", given.depth)
        self._agree(f"{at}.queue-depth", read.queue_depth, "--queue-depth", given.looks)
        return _with_options(queue, given)

    def _check(self, read: _Queue, queue: QueueSettings, at: str) -> None:
        """What is right by itself but not together."""
        if queue.name == SLOT_QUEUE:
            raise self._file.wrong(f"{at}.name", f"is {SLOT_QUEUE!r}, where pods of Testbeds wait")
        if read.reservation_depth is not UNSET:
            wrong = _depth_error(read.reservation_depth, queue.name, queue.policy)
            if wrong:
                raise self._file.wrong(f"{at}.reservation-depth", f"is {queue.depth}: {wrong}")
        if read.max_reservations is not UNSET and queue.policy != "conservative":
            raise self._file.wrong(
                f"{at}.max-reservations",
                f"only the policy conservative has it, and that of queue {queue.name} is {queue.policy}",
            )
        if queue.longest and queue.walltime > queue.longest:
            raise self._file.wrong(
                f"{at}.default-walltime",
                f"{durations.show(queue.walltime)} is above the queue's max-walltime"
                f" {durations.show(queue.longest)}",
            )

    def _partition(self, read: _Partition, at: str) -> PartitionSettings:
        name, inner = self._name(f"{at}.name", read.name), f"{at}.nodeSelector"
        found = [
            Expression(
                self._label_key(f"{inner}.matchLabels", key), Operator.IN, (self._text(inner, key, value),)
            )
            for key, value in read.node_selector.match_labels.items()
        ]
        for i, each in enumerate(read.node_selector.match_expressions):
            found.append(self._expression(each, f"{inner}.matchExpressions[{i}]"))
        if not found:
            raise self._file.wrong(inner, "selects every node: name labels, or leave the partition out")
        return PartitionSettings(name, tuple(sorted(found)))

    def _expression(self, read: _Expression, at: str) -> Expression:
        operator = Operator(
            self._choice(f"{at}.operator", read.operator, [each.value for each in Operator], "")
        )
        values = len(read.values)
        if operator in (Operator.IN, Operator.NOT_IN) and not values:
            raise self._file.wrong(at, f"{operator.value} needs values")
        if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and values:
            raise self._file.wrong(f"{at}.values", f"{operator.value} takes no values")
        if operator in (Operator.GT, Operator.LT) and not (
            values == 1 and _INTEGER.fullmatch(read.values[0])
        ):
            raise self._file.wrong(at, f"{operator.value} needs one value, a whole number in quotes")
        return Expression(self._label_key(f"{at}.key", read.key), operator, tuple(sorted(read.values)))

    # -- single values -------------------------------------------------------------------------------

    def _agree(self, path: str, stands: object, option: str, told: object) -> None:
        if stands is not UNSET and told not in (None, "") and told != stands:
            raise self._file.wrong(
                path, f"is {shown(stands)}, but the command line says {option} {told}: leave one of them out"
            )

    def _unique(self, what: str, names: Sequence[str]) -> None:
        for i, name in enumerate(names):
            first = names.index(name)
            if first < i:
                raise self._file.wrong(
                    f"{what}[{i}].name", f"{what}[{first}] has the name {name!r} already: names stand once"
                )

    def _name(self, path: str, value: str | UnsetType, normal: str = "") -> str:
        if value is UNSET:
            return normal
        if not _NAME.fullmatch(value):
            raise self._file.wrong(
                path,
                f"{shown(value)} is no name: 1 to 63 letters, digits, '-', '_' or '.', no sign at an end",
            )
        return value

    def _choice(
        self, path: str, value: str | UnsetType, known: Sequence[str], normal: str, what: str = ""
    ) -> str:
        if value is UNSET:
            return normal
        if value not in known:
            choices = f"choose one of: {', '.join(known)}" if known else f"the file has no {what}"
            raise self._file.wrong(path, f"{shown(value)} is unknown; {choices}")
        return value

    def _time(self, path: str, value: Length | UnsetType, longest: int = LONGEST) -> int:
        """Milliseconds; 0 where nothing stands."""
        if value is UNSET:
            return 0
        length = durations.duration(str(value))
        if length is None:
            raise self._file.wrong(
                path, f"{shown(value)} is no duration above zero such as 90s, 2h30m or 3600 (seconds)"
            )
        if length > longest:
            raise self._file.wrong(path, f"{shown(value)} is more than {durations.show(longest)}")
        return length

    def _count(self, path: str, value: int | UnsetType, normal: int) -> int:
        if value is UNSET:
            return normal
        if not 0 <= value <= MOST:
            raise self._file.wrong(path, f"is {value}: must be from 0 (no bound) to {MOST}")
        return value

    def _label_key(self, path: str, key: str) -> str:
        if not _LABEL_KEY.fullmatch(key):
            raise self._file.wrong(path, f"{shown(key)} is not the key of a label")
        return key

    def _text(self, inner: str, key: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._file.wrong(
                f"{inner}.matchLabels.{key}", f"is {shown(value)}, not a text: put it into quotes"
            )
        return value
