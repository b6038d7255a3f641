"""What a pod asks of other pods, of ports and of volumes: the rest of what kube-scheduler's filters look at.

Made by `wire.rules`, part of a Shape, read by `core.filters`. Namespace and labels of the pod itself are not
in here (they are the Pod's), so that pods of one template stay one class.
"""

from msgspec import Struct

from fairlead.model.selector import Selector


class PodTerm(Struct, frozen=True, gc=False, omit_defaults=True):
    """core/v1 PodAffinityTerm. No namespaces and no namespace selector mean the pod's own namespace."""

    topology: str
    selector: Selector = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector = None


class Spread(Struct, frozen=True, gc=False, omit_defaults=True):
    """core/v1 TopologySpreadConstraint with DoNotSchedule; matchLabelKeys are merged into the selector."""

    topology: str
    selector: Selector = None
    skew: int = 1
    domains: int = 1
    """minDomains: with fewer of them the emptiest counts as empty."""
    honor_affinity: bool = True
    honor_taints: bool = False


ALL_ADDRESSES = "0.0.0.0"
EVERY_ADDRESS = 1 << 20
"""How much of a host port a node has, as an amount: a port on all addresses takes all of it, one on a single
address takes 1, and 1 of the port on that address, of which there is 1. So each address is used once."""


class HostPort(Struct, frozen=True, gc=False, order=True, omit_defaults=True):
    """A port on the node itself, on one address or on all."""

    port: int
    protocol: str = "TCP"
    ip: str = ALL_ADDRESSES


CLAIM = "persistentVolumeClaim"
EPHEMERAL = "ephemeral"


class Volume(Struct, frozen=True, gc=False, omit_defaults=True):
    """A volume of a kind that filters look at, named as core/v1 VolumeSource does.

    `id` is the claim's name (of an ephemeral one the volume's name), the disk's id, the iqn or the image.
    """

    kind: str
    id: str = ""
    read_only: bool = False
    pool: str = ""
    monitors: tuple[str, ...] = ()


class Rules(Struct, frozen=True, gc=False, omit_defaults=True):
    """`affinity` and `anti_affinity` are required terms, all of which must hold; order of spread is kept."""

    ports: tuple[HostPort, ...] = ()
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    volumes: tuple[Volume, ...] = ()
    features: tuple[str, ...] = ()
    """Features that the node must declare."""


NO_RULES = Rules()
