"""Words for what an audit found: each difference by its kind, the object's name and both sides.

Called by `runtime.audit`. Pure. The kinds are those of docs/audit.md and label a metric, so there are few.
"""

from collections.abc import Sequence

from msgspec import Struct, structs

from fairlead.core.audit import Found, Pictures
from fairlead.core.moment import Known, Stored
from fairlead.core.rebuild import STEP, Row
from fairlead.core.steps import Steps
from fairlead.core.surroundings import name_of as thing_name
from fairlead.model import quantity
from fairlead.model.audit import Difference
from fairlead.model.batchjob import BatchJob
from fairlead.model.esi import Testbed
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import Amounts, Pod
from fairlead.model.scheduling import Scheduling

EsiObject = Testbed | BatchJob | Scheduling
COLUMNS = "columns"
INVARIANT = "invariant"


def naming(found: Sequence[Found]) -> Steps[list[Difference]]:
    """All of them in words: many, where a watch was broken for long."""
    told: list[Difference] = []
    for count, each in enumerate(found):
        told.append(named(each))
        if not count % STEP:
            yield
    return told


def named(found: Found) -> Difference:
    """The object that differs, in words."""
    some = found.there if found.here is None else found.here
    assert some is not None
    kind, here, there = _told(found)
    name = name_of(found.uid, some)
    text = f"{found.kind} {name}: Fairlead has {here or 'nothing'}, the cluster {there or 'nothing'}"
    return Difference(kind, found.kind, name, found.uid, here, there, text)


def _told(found: Found) -> tuple[str, str, str]:
    """Kind of the difference, and both sides in words."""
    family = _family(found)
    here, there = found.here, found.there
    if here is None or there is None:
        return f"{family}-{found.what}", describe(here), describe(there)
    if isinstance(here, Pod) and isinstance(there, Pod):
        aspect = _of_pods(here, there)
    elif isinstance(here, Node) and isinstance(there, Node):
        aspect = _of_nodes(here, there)
    elif isinstance(here, EsiObject) and isinstance(there, EsiObject):
        aspect = _of_esi(here, there)
    else:
        aspect = None
    if aspect is None:
        return (
            f"{family}-{found.what}",
            f"version {here.version}",
            f"version {there.version}{_of(here, there)}",
        )
    return f"{family}-{aspect[0]}", *aspect[1:]


def _of(here: Known, there: Known) -> str:
    """Which fields are not the same, after what the cluster has."""
    mine = here.thing if isinstance(here, Stored) else here
    its = there.thing if isinstance(there, Stored) else there
    fields = [
        f for f in its.__struct_fields__ if f != "version" and getattr(mine, f, None) != getattr(its, f)
    ]
    return f" with other {', '.join(fields)}" if fields else ""


def _family(found: Found) -> str:
    if found.kind in ("Pod", "Node"):
        return found.kind.lower()
    match found.here or found.there:
        case Stored():
            return "object"
        case Owner():
            return "owner"
        case _:
            return "esi"


def name_of(uid: str, known: Known) -> str:
    """What people call it; the uid of what has no name that says anything."""
    match known:
        case Node():
            return known.name
        case Stored(_, thing):
            return "/".join(part for part in thing_name(uid, thing) if part)
        case _:
            return f"{known.namespace}/{known.name}"


def describe(known: Known | None) -> str:
    """Where it is and how it is; "" for nothing."""
    match known:
        case None:
            return ""
        case Pod():
            return f"{known.phase} on {known.node}" if known.node else f"{known.phase} on no node"
        case Node():
            return f"a node with {amounts(known.allocatable)}"
        case Testbed() | BatchJob() | Scheduling():
            return f"{known.status.state}, version {known.version}"
        case _:
            return f"version {known.version}"


def amounts(found: Amounts) -> str:
    """Amounts as people write them: "cpu=8, memory=32Gi"."""
    return ", ".join(f"{name}={quantity.show(name, amount)}" for name, amount in found) or "nothing"


def _of_pods(here: Pod, there: Pod) -> tuple[str, str, str] | None:
    """What matters most of how two versions of a pod differ."""
    if here.node != there.node:
        return "node", describe(here), describe(there)
    if here.ended != there.ended:
        return "ended", describe(here), describe(there)
    if here.shape.requests != there.shape.requests:
        return "requests", amounts(here.shape.requests), amounts(there.shape.requests)
    return None


def _of_nodes(here: Node, there: Node) -> tuple[str, str, str] | None:
    if here.allocatable != there.allocatable:
        return "capacity", amounts(here.allocatable), amounts(there.allocatable)
    if here.ready != there.ready:
        return "readiness", _readiness(here), _readiness(there)
    if (here.taints, here.unschedulable) != (there.taints, there.unschedulable):
        return "taints", _taints(here), _taints(there)
    if here.labels != there.labels:
        keys = sorted({*here.labels, *there.labels})
        keys = [key for key in keys if here.labels.get(key) != there.labels.get(key)]
        return "labels", _labels(here, keys), _labels(there, keys)
    return None


def _of_esi(here: EsiObject, there: EsiObject) -> tuple[str, str, str] | None:
    """What users write comes first, then the word that they read."""
    if here.spec != there.spec:
        mine, its = _fields(here.spec), _fields(there.spec)
        names = ", ".join(name for name in {**mine, **its} if mine.get(name) != its.get(name))
        return "spec", f"version {here.version}", f"version {there.version} with other {names or 'spec'}"
    if here.status.state != there.status.state:
        return "state", describe(here), describe(there)
    return None


def _fields(spec: Struct | None) -> dict[str, object]:
    """By the names that users know them by."""
    found = structs.fields(spec) if spec is not None else ()
    return {field.encode_name: getattr(spec, field.name) for field in found}


def _readiness(node: Node) -> str:
    return "ready" if node.ready else "not ready"


def _taints(node: Node) -> str:
    found = [f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}" for t in node.taints]
    return ", ".join([*(["cordoned"] if node.unschedulable else []), *found]) or "no taints"


def _labels(node: Node, keys: list[str]) -> str:
    return ", ".join(f"{key}={node.labels[key]}" for key in keys if key in node.labels) or "no such labels"


# -- columns -----------------------------------------------------------------------------------------


def of_columns(pictures: Pictures, name: str) -> Difference:
    """A node whose columns do not add up although its objects are right."""
    if not name:
        text = "columns: pods on no known node are not counted as they are"
        return Difference(COLUMNS, "", "", "", "", "", text)
    here, own = pictures.here.rows[name], pictures.own.rows[name]
    told, right = _cells(here, own), _cells(own, here)
    text = f"Node {name}: Fairlead counts {told}, its objects come to {right}"
    return Difference(COLUMNS, "Node", name, own.node.uid, told, right, text)


def _cells(row: Row, other: Row) -> str:
    """The numbers in which the row is not as the other."""
    found: list[str] = []
    for title, mine, its in (
        ("capacity", row.capacity, other.capacity),
        ("used", row.used, other.used),
        ("free", row.free, other.free),
    ):
        have, has = dict(mine), dict(its)
        found += [
            f"{title} {name}={quantity.show(name, have.get(name, 0))}"
            for name in sorted({*have, *has})
            if have.get(name) != has.get(name)
        ]
    if row.pods != other.pods:
        found.append(f"{len(row.pods)} pods holding {amounts(_sum(row))}")
    return ", ".join(found) or "the same"


def _sum(row: Row) -> Amounts:
    total: dict[str, int] = {}
    for _, _, each in row.pods:
        for name, amount in each:
            total[name] = total.get(name, 0) + amount
    return tuple(sorted(total.items()))


def of_invariant(text: str) -> Difference:
    """A broken rule that no object and no column tells of."""
    return Difference(INVARIANT, "", "", "", "", "", f"invariant: {text}")
