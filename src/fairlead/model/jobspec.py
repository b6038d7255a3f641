"""What a canonical jobspec (Flux RFC 14 and 25) asks of the containment tree, as frozen structs.

Read by `wire.jobspec`, matched by `core.tree`. Must not know files, nor how a request is matched.
"""

from msgspec import Struct

SLOT = "slot"
XOR_SLOT = "xor_slot"
"""Of sibling xor_slots one is taken."""


class Count(Struct, frozen=True):
    """How many: min, and beyond it every number that `operator operand` reaches, up to max."""

    min: int
    max: int
    operator: str = "+"
    operand: int = 1


class Resource(Struct, frozen=True):
    """One resource vertex of a jobspec and what it asks for below itself."""

    type: str
    count: Count
    unit: str = ""
    exclusive: bool | None = None
    """None where the jobspec leaves it open: shared above a slot, exclusive below one."""
    label: str = ""
    children: tuple["Resource", ...] = ()


class Constraint(Struct, frozen=True):
    """RFC 31: `and`, `or`, `not` over constraints; `properties`, `hostlist`, `ranks` over words."""

    operator: str
    parts: tuple["Constraint", ...] = ()
    words: tuple[str, ...] = ()


class Jobspec(Struct, frozen=True):
    """A whole request."""

    resources: tuple[Resource, ...]
    duration: int = 0
    """Seconds; 0 = as long as the tree exists."""
    queue: str = ""
    constraint: Constraint | None = None
