"""Nodes as the engine sees them. Made by `wire.objects`, the simulator and scenarios."""

from msgspec import Struct

from fairlead.model.pod import Amounts


class Taint(Struct, frozen=True, gc=False, order=True, omit_defaults=True):
    """core/v1 Taint; NoSchedule and NoExecute keep pods away, PreferNoSchedule is a wish."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Node(Struct, frozen=True, gc=False, omit_defaults=True):
    """A whole node. `allocatable` is rounded up like requests are (kube-scheduler does the same)."""

    uid: str
    name: str
    version: int
    allocatable: Amounts
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    deleting: bool = False
    created: int = 0
    features: tuple[str, ...] = ()
    """Features that its kubelet declares."""
    images: tuple[tuple[str, int], ...] = ()
    """(Name, bytes) of images that it has; a change of these alone is no news to anybody who waits."""
