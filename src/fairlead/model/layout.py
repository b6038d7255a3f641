"""How a group's members are to lie: in one rack, in few racks, alone on their nodes.

Read by `core.grouping` from annotations, carried by requests, honoured by `core.topology` and `core.tenancy`.
"""

from typing import NamedTuple


class Layout(NamedTuple):
    """`required` and `preferred` name levels of the topology by label key; "" where nothing is asked for."""

    required: str = ""
    """All members lie in one domain of this level."""
    preferred: str = ""
    """They lie in as few domains of this level as can be had."""
    exclusive: bool = False
    """Each member has its node to itself."""

    @property
    def near(self) -> bool:
        """Whether it matters where the members lie to each other."""
        return bool(self.required or self.preferred)


NO_LAYOUT = Layout()

TOPOLOGY = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/block",
    "topology.kubernetes.io/rack",
)
"""Label keys of a cluster's levels from the widest to the narrowest, where no others are configured."""
