"""Pods as the engine sees them: identity, life and the Shape that matching works on.

Made by `wire.pod`, by the simulator and by scenarios. A Shape is everything matching needs and
nothing else, so that a thousand identical pods are one class; it is hashable and carries no identity.
"""

from enum import StrEnum

from msgspec import Struct

from fairlead.model.preferences import NO_PREFERENCES, Preferences
from fairlead.model.rules import NO_RULES, Rules
from fairlead.model.selector import Expression

Amounts = tuple[tuple[str, int], ...]
"""Resource amounts sorted by name, zero amounts left out: cpu in milli-cores, all else in whole units."""


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class Toleration(Struct, frozen=True, gc=False, order=True, omit_defaults=True):
    """core/v1 Toleration; an empty key with Exists tolerates everything, an empty effect all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Shape(Struct, frozen=True, gc=False, omit_defaults=True):
    """What matching must know of a pod. Equal shapes are interchangeable for placing.

    `requests` holds what the pod takes from a node, `pods: 1` and host ports included (`port:TCP/8080`, and
    for one address `port:TCP/8080@10.0.0.1`; see `model.rules.EVERY_ADDRESS`). `selector` is a conjunction;
    `affinity` a disjunction of conjunctions, () when there is none; `rules` is what it asks of other pods, of
    ports and of volumes. `unsupported` names fields that Fairlead cannot honour yet: such a pod waits, it is
    never placed wrongly.
    """

    requests: Amounts
    selector: tuple[Expression, ...] = ()
    affinity: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    unsupported: tuple[str, ...] = ()
    rules: Rules = NO_RULES


class OwnerRef(Struct, frozen=True, gc=False, omit_defaults=True):
    """The controlling owner of an object."""

    kind: str
    name: str
    uid: str


class Pod(Struct, frozen=True, gc=False, omit_defaults=True):
    """A whole pod, never a difference.

    `version` is the resourceVersion as an integer; `created` is milliseconds since the epoch, data of
    the object and not a clock. `labels` are kept for grouping; `annotations` only where their key
    starts with `fairlead.dev/`. `condition` is "status/reason" of PodScheduled, "" where absent.
    `started` is true once any container has started. `revoked` is the id of a start that Fairlead has
    revoked on this pod, "" if none.
    """

    uid: str
    namespace: str
    name: str
    version: int
    shape: Shape
    scheduler: str = "default-scheduler"
    node: str = ""
    phase: PodPhase = PodPhase.PENDING
    created: int = 0
    deleting: bool = False
    gated: bool = False
    priority: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner: OwnerRef | None = None
    condition: str = ""
    started: bool = False
    walltime: int = 0
    """The pod's own activeDeadlineSeconds in milliseconds; 0 means none."""
    overdue: bool = False
    """True when it failed because that time was over."""
    wishes: Preferences = NO_PREFERENCES

    @property
    def ended(self) -> bool:
        """True once the pod can never run (again): its node's capacity is free."""
        return self.phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
