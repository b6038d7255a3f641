"""What ESI's debug verbs and `fairlead esi enrol|reset` do: nodes for a Testbed, failed jobs begun anew.

Pure: from the engine's state to what is to be written, for `api.esi.debug`. A node is taken only if all slots
of one node fit, in every resource. One with a slot in use keeps its label and its number, whatever is asked.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from fairlead.core.esi.numbering import Spec, number, read
from fairlead.core.state import State
from fairlead.model import quantity
from fairlead.model.batchjob import BatchJob, JobState
from fairlead.model.esi import SlotState, Testbed
from fairlead.model.node import Node
from fairlead.model.pod import Amounts

FAILED = (JobState.FAILED, JobState.FAILED_SUBMISSION)
KEPT, LABELLED, REMOVED, BESIDE = "kept", "labelled", "removed", "not asked for, and kept"
_SHOWN = 50
"""Lines of a table in a refusal."""


class Refusal(Exception):
    """What was asked cannot be done; the text says why."""


class NodeLine(Struct, frozen=True, rename="camel"):
    """One node of an enrolment. `number` is its label's value, from now on or, if removed, until now;
    `change` one of the words above."""

    name: str
    number: str
    change: str
    in_use: bool
    """A pod is in one of its slots, or on its way there."""


class Enrolment(Struct, frozen=True, rename="camel"):
    testbed: str
    node_label: str
    nodes: list[NodeLine]
    dry_run: bool = False


class _Candidate(NamedTuple):
    node: Node
    value: str | None
    """What its label says; None if it is no member."""
    in_use: bool
    fits: bool
    requested: int
    """Milli-cores held by others than this Testbed."""
    free: dict[str, int]


# -- nodes -------------------------------------------------------------------------------------------


def enrol(state: State, testbed: Testbed, count: int, remove: bool) -> Enrolment:
    """Which nodes are to have the Testbed's label, and with which number. Members come first, then those of
    which least is requested; `remove` takes it from members beyond `count`. Raises Refusal."""
    spec = read(testbed)
    if spec.problem:
        raise Refusal(f"the Testbed {testbed.ref} has no slots: {spec.problem}")
    known = _candidates(state, testbed, spec)
    fitting = [each for each in known if each.in_use or each.fits]
    if len(fitting) < count:
        raise Refusal(_too_few(count, len(fitting), spec, known))
    chosen = fitting[:count]
    kept = [each for each in fitting[count:] if each.in_use]
    beside = [each for each in known if each.value is not None and each not in chosen and each not in kept]
    stay = [*kept, *([] if remove else beside)]
    lines = _numbered(chosen, [each.value or "" for each in stay])
    lines += [NodeLine(each.node.name, each.value or "", BESIDE, each.in_use) for each in stay]
    if remove:
        lines += [NodeLine(each.node.name, each.value or "", REMOVED, False) for each in beside]
    return Enrolment(str(testbed.ref), spec.label, lines)


def _candidates(state: State, testbed: Testbed, spec: Spec) -> list[_Candidate]:
    """All nodes in the order in which they are taken."""
    inventory = state.inventory
    known = zip(inventory.nodes, inventory.gone_at, strict=True)
    present = [node for node, gone in known if node is not None and not gone]
    table = state.esi.tables.get(testbed.uid)
    used = {slot.node for slot in (table.slots.values() if table else ()) if _in_use(slot.state, slot.pod)}
    found = [_candidate(state, testbed, spec, node, node.name in used) for node in present]
    return sorted(found, key=_order)


def _in_use(state: SlotState, pod: str) -> bool:
    return state in (SlotState.OCCUPIED, SlotState.RESERVED) or bool(pod)


def _candidate(state: State, testbed: Testbed, spec: Spec, node: Node, in_use: bool) -> _Candidate:
    own = state.esi.pods.get(testbed.ref, {})
    free, requested = dict(node.allocatable), 0
    for holder, amounts in state.inventory.holders(node.name).items():
        place = state.esi.holds.get(holder)
        if holder in own or (place is not None and place.testbed == testbed.uid):
            continue
        for name, held in amounts:
            free[name] = free.get(name, 0) - held
            requested += held if name == "cpu" else 0
    takes_pods = node.ready and not node.unschedulable and not node.deleting
    fits = takes_pods and all(free.get(name, 0) >= need * spec.per_node for name, need in spec.amounts)
    return _Candidate(node, node.labels.get(spec.label), in_use, fits, requested, free)


def _order(each: _Candidate) -> tuple[bool, bool, int, int, str]:
    member = each.value is not None
    place = number(each.value or "") if member else 0
    return not each.in_use, not member, place, each.requested, each.node.name


def _numbered(chosen: Sequence[_Candidate], others: Sequence[str]) -> list[NodeLine]:
    """Each its own number: those in use keep their label, others get the lowest that nobody has."""
    taken = {*others, *(each.value for each in chosen if each.in_use)}
    lines: list[NodeLine] = []
    for each in chosen:
        value = each.value or ""
        if not each.in_use and (value in taken or not value.isdecimal()):
            value = next(str(n) for n in range(len(taken) + 1) if str(n) not in taken)
        taken.add(value)
        change = KEPT if value == each.value else LABELLED
        lines.append(NodeLine(each.node.name, value, change, each.in_use))
    return lines


def _too_few(count: int, fitting: int, spec: Spec, known: Sequence[_Candidate]) -> str:
    need = _amounts(dict(spec.amounts), spec.amounts, spec.per_node)
    rows = [f"{each.node.name}: {_amounts(each.free, spec.amounts)}" for each in known[:_SHOWN]]
    more = [f"and {len(known) - _SHOWN} more"] if len(known) > _SHOWN else []
    return (
        f"Not enough resources: {count} nodes are asked for, {fitting} have room for {spec.per_node} slots"
        f" ({need}). Free: {'; '.join([*rows, *more]) or 'there are no nodes'}"
    )


def _amounts(what: dict[str, int], names: Amounts, times: int = 1) -> str:
    return ", ".join(f"{name} {quantity.show(name, what.get(name, 0) * times)}" for name, _ in names)


# -- jobs --------------------------------------------------------------------------------------------


def failed(state: State, namespace: str) -> list[BatchJob]:
    """The jobs that have failed and can be begun anew; of all namespaces where it is ""."""
    found = [
        job
        for uid, job in state.esi.jobs.items()
        if state.esi.job_status(uid).state in FAILED and namespace in ("", job.namespace)
    ]
    return sorted(found, key=lambda job: job.ref)
