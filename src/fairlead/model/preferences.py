"""What kube-scheduler's scores look at in a pod, beyond what its filters do. Wishes decide nothing, they
rank.

Made by `wire.preferences`, part of a Pod, read by `core.filters.scores`. Kept apart from the Shape: pods that
differ in wishes only fit where their likes fit, and are as one where nobody asks for scores.
"""

from msgspec import Struct

from fairlead.model.rules import PodTerm, Spread
from fairlead.model.selector import Expression

PreferredNodes = tuple[tuple[int, tuple[Expression, ...]], ...]
WeightedTerms = tuple[tuple[int, PodTerm], ...]


class Preferences(Struct, frozen=True, gc=False, omit_defaults=True):
    """Weights are 1..100 and never negative; amounts in milli-cores and bytes."""

    nodes: PreferredNodes | None = None
    """Preferred node affinity; None where the pod has none at all."""
    affinity: WeightedTerms = ()
    anti_affinity: WeightedTerms = ()
    spread: tuple[Spread, ...] | None = None
    """Constraints with ScheduleAnyway; None where it has no constraints at all, so that defaults hold."""
    images: tuple[str, ...] = ()
    """The image of each container, init containers included, with its tag."""
    asks: tuple[int, int] = (0, 0)
    """CPU and memory that a new pod counts; a container without request counts a little."""
    counts: tuple[int, int] = (0, 0)
    """The same once the pod is on a node."""
    error: str = ""
    """Why its preferred node affinity cannot be read; scoring then fails."""


NO_PREFERENCES = Preferences()
