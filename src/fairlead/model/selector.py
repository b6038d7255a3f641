"""Expressions over labels, as nodes, pods and namespaces are selected by them."""

from enum import StrEnum

from msgspec import Struct


class Operator(StrEnum):
    """Node selector operators (core/v1 NodeSelectorOperator); label selectors use the first four."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Expression(Struct, frozen=True, gc=False, order=True, omit_defaults=True):
    """One requirement on a label; `field` is true for matchFields (only a node's metadata.name exists)."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    field: bool = False


Selector = tuple[Expression, ...] | None
"""A label selector: None selects nothing, an empty one everything."""
