"""YAML and JSON texts within bounds: whoever sends one can neither exhaust this process nor end it.

Called by `wire.jobspec`, whose texts come over the network, too. PyYAML ends the process on deeply nested
texts and unfolds a few lines of aliases into more than there is memory. Must not know what they are about.
"""

from collections.abc import Iterable
from typing import Any, cast

import yaml

DEEPEST = 200
"""Lists and mappings within each other."""
MOST = 100_000
"""Values, those that aliases repeat counted each time."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_OPENING = "[{:-?"
"""Every list and mapping takes at least one of these."""
_NESTED: tuple[type, ...] = (dict, list)
_STEPS: dict[type, int] = {
    yaml.SequenceStartEvent: 1,
    yaml.MappingStartEvent: 1,
    yaml.SequenceEndEvent: -1,
    yaml.MappingEndEvent: -1,
}


class Excess(Exception):
    """A text beyond the bounds."""


def load(text: str) -> Any:
    """The value of a text. Raises Excess, and what yaml.load raises."""
    if sum(map(text.count, _OPENING)) > DEEPEST:
        _check_depth(text)
    value: Any = yaml.load(text, Loader=_LOADER)
    if _weight(value, {}) > MOST:
        raise Excess(f"unfolds to more than {MOST:,} values; write it with fewer aliases")
    return value


def _check_depth(text: str) -> None:
    """Count along the text, which nests nothing here."""
    depth = 0
    for event in cast("Iterable[yaml.Event]", yaml.parse(text, Loader=_LOADER)):
        depth += _STEPS.get(type(event), 0)
        if depth > DEEPEST:
            line = event.start_mark.line + 1
            raise Excess(f"nests more than {DEEPEST} lists and mappings, in line {line}")


def _weight(value: object, known: dict[int, int]) -> int:
    """How many values there are in one; more than MOST for a value that is within itself."""
    if not isinstance(value, _NESTED):
        return 1
    key = id(value)
    if key not in known:
        known[key] = MOST + 1
        nested: Any = value
        parts: Iterable[object] = nested.values() if isinstance(value, dict) else nested
        known[key] = 1 + sum(_weight(each, known) for each in parts)
    return known[key]
