"""What was decided: Decisions and the Plan, and what is granted by them.

Made by `core.cycle` (or an outside planner), checked by `core.verify`, stored by the store port.
"""

from msgspec import Struct

from fairlead.model.group import Reason


class Placement(Struct, frozen=True, gc=False, array_like=True):
    """One pod on one node. `pod` is the pod's uid."""

    pod: str
    node: str


class Start(Struct, frozen=True, gc=False, tag="start", omit_defaults=True):
    """Start these pods of the group now. `growth` is true for members that join a running group."""

    group: str
    placements: tuple[Placement, ...]
    growth: bool = False


class Reserve(Struct, frozen=True, gc=False, tag="reserve", omit_defaults=True):
    """Promise the group a start (milliseconds since the epoch); the node names are advisory.

    `start` 0: no date is known, because it waits behind work without an end; it is held a place all the same.
    """

    group: str
    start: int
    nodes: tuple[str, ...] = ()
    reason: Reason = Reason()


class Wait(Struct, frozen=True, gc=False, tag="wait", omit_defaults=True):
    """The group stays queued, for this reason."""

    group: str
    reason: Reason


class Reject(Struct, frozen=True, gc=False, tag="reject", omit_defaults=True):
    """No nominal cluster could ever hold the group."""

    group: str
    reason: Reason


Decision = Start | Reserve | Wait | Reject


OWN = "fairlead"
"""The source of plans that Fairlead's own policies made."""
FUNCTION = "function:"
"""What the source of a plan begins with that a policy function made (`core.adopt`)."""


class Plan(Struct, frozen=True, gc=False, omit_defaults=True):
    """The decisions of one cycle, in queue order, and the snapshot version they rest on.

    Waiting groups that the plan does not mention stand behind the head of their queue.
    """

    id: str
    version: int
    at: int
    source: str
    decisions: tuple[Decision, ...]
    heads: tuple[tuple[str, str], ...] = ()
    """(queue, group) for each queue of which a group cannot start and others wait behind it."""
    withdrawn: tuple[str, ...] = ()
    """Groups that are promised a start no more; other promises that it does not mention stand."""
    failure: tuple[str, str] | None = None
    """(group, words): no plan could be made, because of a mistake met while this group was looked at."""

    @property
    def answers(self) -> bool:
        """Whether it was made because the engine asked for one; others come from outside."""
        return self.source == OWN or self.source.startswith(FUNCTION)


class Grant(Struct, frozen=True, gc=False, omit_defaults=True):
    """A durable intent: these pods shall be bound to these nodes. All-or-nothing.

    `id` is `plan/group`; `epoch` is the leader's that wrote it.
    """

    id: str
    plan: str
    group: str
    epoch: int
    at: int
    placements: tuple[Placement, ...]
    growth: bool = False
