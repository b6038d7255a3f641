"""A pod's wishes on the wire -> all that scores look at, with the amounts that some of them count. Pure.

Called by `wire.cases`. Raises ValueError for a quantity or an operator that cannot be read.
"""

from collections.abc import Iterator
from fractions import Fraction

from msgspec import structs

from fairlead.core.columns import LABEL_VALUE, integer
from fairlead.model.preferences import Preferences
from fairlead.model.quantity import ceiling
from fairlead.wire.pod import parts_of
from fairlead.wire.resources import Sums, add, apply_pod_level, container_sums, pod_level, read
from fairlead.wire.structs import NodeAffinity, NodeRequirement, WirePod
from fairlead.wire.wishes import made, parts

DEFAULTS = {"cpu": Fraction(1, 10), "memory": Fraction(200 << 20)}
"""What a container without a request is taken to need."""
NOT_INTEGER = "for 'Gt', 'Lt' operators, the value must be an integer"
NOT_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must"
    " start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used"
    " for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def preferences(wire: WirePod) -> Preferences:
    """All of them, with the amounts that a score may count."""
    nodes = wire.spec.affinity and wire.spec.affinity.node_affinity
    return structs.replace(
        made(parts(wire.spec, wire.metadata.labels)),
        asks=_asks(wire),
        counts=_counts(wire),
        error=_error(nodes),
    )


def _asks(wire: WirePod) -> tuple[int, int]:
    """As LeastAllocated sees a new pod in 1.36: without what is asked for the pod as a whole."""
    sums = container_sums(wire.spec.containers or [], wire.spec.init_containers, {}, False, DEFAULTS)
    add(sums, read(wire.spec.overhead))
    return _rounded(sums)


def _counts(wire: WirePod) -> tuple[int, int]:
    """As it counts on a node: defaults stand in only for what nobody in the pod says."""
    parts = parts_of(wire.spec, wire.status, {})
    default = DEFAULTS
    whole = parts.resources.requests if parts.resources else {}
    if any(pod_level(name) for name in whole):
        said = container_sums(parts.containers, parts.inits, parts.statuses, parts.infeasible)
        default = {
            name: value
            for name, value in DEFAULTS.items()
            if name not in said and name not in whole and name not in parts.overhead
        }
    sums = container_sums(parts.containers, parts.inits, parts.statuses, parts.infeasible, default)
    apply_pod_level(sums, parts.resources, parts.pod_status, parts.infeasible)
    add(sums, read(parts.overhead))
    return _rounded(sums)


def _rounded(sums: Sums) -> tuple[int, int]:
    zero = Fraction(0)
    return ceiling("cpu", sums.get("cpu", zero)), ceiling("memory", sums.get("memory", zero))


def _error(wire: NodeAffinity | None) -> str:
    """What kube-scheduler says of preferred terms that it cannot parse; "" if it can."""
    terms = (wire and wire.preferredDuringSchedulingIgnoredDuringExecution) or []
    found = [
        f"[{i}].matchExpressions[{j}].values[{k}]{problem}"
        for i, term in enumerate(terms)
        if term.weight
        for j, requirement in enumerate(term.preference.match_expressions)
        for k, problem in _problems(requirement)
    ]
    text = found[0] if len(found) == 1 else f"[{', '.join(dict.fromkeys(found))}]"
    return f'running PreScore plugin "NodeAffinity": {text}' if found else ""


def _problems(wire: NodeRequirement) -> Iterator[tuple[int, str]]:
    if wire.operator in ("Gt", "Lt"):
        for i, value in enumerate(wire.values):
            if integer(value) is None:
                yield i, f': Invalid value: "{value}": {NOT_INTEGER}'
    for i, value in enumerate(wire.values):
        if not LABEL_VALUE.fullmatch(value):
            yield i, f'[{wire.key}]: Invalid value: "{value}": {NOT_LABEL}'
