"""What happens as lines of the sniffer's log: its keys in its order, its names of endpoints and events.

Called by `recorder.jsonl_file` with every part that the recorder makes, in order. Pure, but for the phase of
each pod that it remembers: the sniffer writes what it sees again and again, this writes a line per change.
What the sniffer has no word for has no line. Must not raise for any part.
"""

from collections.abc import Iterable, Iterator

from fairlead.model.record import Change, NodeLife, Part, PodLife, Source
from fairlead.recorder import gotime
from fairlead.recorder.datum import Datum, datum, line

HIDDEN = "kube-system"
"""The sniffer leaves the pods of this namespace out."""
_CONDITIONS = {"Scheduled": "PodScheduled", "Initialized": "Initialized", "Ready": "Ready"}
_GONE = ("Deleted", "Vanished")
_BINARY = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")
_TAPPED = {
    "Reserve": ("schedulePod", "ScheduleSuccess"),
    "PostBind": ("bindingCycle", "BindingSuccess"),
}
"""What the plugin tells at the two moments at which the sniffer's scheduler would have told it."""


class Lines:
    """Parts to lines. `pods` are those that were told of before: a restart says nothing again."""

    def __init__(self, pods: Iterable[PodLife] = ()) -> None:
        self._phases = {pod.uid: pod.phase for pod in pods if pod.phase != "Pending"}

    def of(self, part: Part) -> bytes:
        """The lines of a part, each with its end; empty if it has none."""
        rows = _Rows(part)
        found: list[Datum] = []
        for change in part.changes:
            if change.source is Source.WATCH:
                found += self._watched(change, rows)
            elif change.source is Source.PLUGIN:
                found += _tapped(change)
            elif change.source in (Source.SNIFFER, Source.IMPORT):
                found.append(datum(change))
        for pod in part.pods:
            if pod.source is Source.WATCH and not pod.deleted and pod.namespace != HIDDEN:
                found += self._phase(pod, pod.phase, rows.endpoint(pod.uid))
        return b"".join([line(each) for each in found])

    def _watched(self, change: Change, rows: "_Rows") -> Iterator[Datum]:
        if change.object == "Node":
            yield from _node(change, rows)
        elif change.object == "Pod" and change.namespace != HIDDEN:
            yield from self._pod(change, rows)

    def _pod(self, change: Change, rows: "_Rows") -> Iterator[Datum]:
        pod = rows.pods.get(change.uid)
        endpoint = rows.endpoint(change.uid)
        if change.event in _GONE:
            yield from self._gone(change, pod)
        elif change.event == "Finished" and pod is not None:
            yield from self._phase(pod, change.reason, endpoint)
        elif change.event == "ContainerStarted" and pod is not None and pod.phase != "Pending":
            if pod.uid not in self._phases and not (change.extra or {}).get("init"):
                yield from self._phase(pod, "Running", endpoint)
        elif (condition := _CONDITIONS.get(change.event)) is not None:
            stamp = gotime.written(change.at * 1_000_000)
            reason, message = change.reason, change.message
            yield Datum("Pod", change.name, endpoint, reason, message, change.node, condition, None, stamp)

    def _phase(self, pod: PodLife, phase: str, endpoint: str) -> Iterator[Datum]:
        """Nothing for one that it is in already, nor for Pending, which the sniffer leaves out."""
        if phase not in ("", "Pending", self._phases.get(pod.uid)):
            self._phases[pod.uid] = phase
            yield Datum("Pod", pod.name, endpoint, node=pod.node, event=phase)

    def _gone(self, change: Change, pod: PodLife | None) -> Iterator[Datum]:
        """It goes in the phase that it was in last."""
        phase = self._phases.pop(change.uid, "")
        if pod is not None and pod.phase != "Pending":
            phase = pod.phase
        if phase:
            yield Datum("Pod", change.name, "podDelete", node=change.node, event=phase)


class _Rows:
    """A part's rows by uid, as they are in the end, and who is in it for the first time."""

    def __init__(self, part: Part) -> None:
        self.pods = {pod.uid: pod for pod in part.pods}
        self.nodes = {node.uid: node for node in part.nodes}
        self._new = {change.uid for change in part.changes if change.event in ("Created", "Added")}

    def endpoint(self, uid: str) -> str:
        return "podAdd" if uid in self._new else "podUpdate"

    def node_endpoint(self, uid: str) -> str:
        return "nodeAdd" if uid in self._new else "nodeUpdate"


def _tapped(change: Change) -> Iterator[Datum]:
    if change.namespace != HIDDEN and (known := _TAPPED.get(change.event)) is not None:
        endpoint, event = known
        stamp = gotime.written(change.at * 1_000_000)
        yield Datum("Pod", change.name, endpoint, node=change.node, event=event, timestamp=stamp)


# -- nodes -------------------------------------------------------------------------------------------


def _node(change: Change, rows: _Rows) -> Iterator[Datum]:
    """What it has, when that is new or changed or gone; and each condition that became true."""
    node = rows.nodes.get(change.uid)
    endpoint = rows.node_endpoint(change.uid)
    if change.event == "Condition":
        kind, _, status = change.reason.partition("=")
        if status == "True":
            reason, message = _reason(change.message)
            stamp = gotime.written(change.at * 1_000_000)
            yield Datum("Node", change.name, endpoint, reason, message, event=kind, timestamp=stamp)
    elif node is not None and (change.event in ("Added", *_GONE) or _has_other_amounts(change)):
        endpoint = "nodeDeleted" if change.event in _GONE else endpoint
        yield Datum("Node", change.name, endpoint, extra=amounts(node))


def _has_other_amounts(change: Change) -> bool:
    extra = change.extra or {}
    return change.event == "Changed" and ("capacity" in extra or "allocatable" in extra)


def _reason(text: str) -> tuple[str, str]:
    """The word and the sentence of `KubeletReady: kubelet is posting ready status`."""
    reason, _, message = text.partition(": ")
    return ("", text) if " " in reason else (reason, message)


def amounts(node: NodeLife) -> dict[str, str]:
    """Capacity and allocatable as the sniffer's `extra` has them: quantities as text, by name."""
    found = {f"capacity-{name}": quantity(name, node.capacity[name]) for name in sorted(node.capacity)}
    for name in sorted(node.allocatable):
        found[f"allocatable-{name}"] = quantity(name, node.allocatable[name])
    return found


def quantity(resource: str, value: int) -> str:
    """An amount exactly, in the form in which a kubelet writes it; cpu comes in milli-cores."""
    if resource == "cpu":
        return f"{value}m" if value % 1000 else str(value // 1000)
    if value and (resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")):
        for power, suffix in zip(range(60, 0, -10), _BINARY, strict=True):
            if value % (1 << power) == 0:
                return f"{value >> power}{suffix}"
    return str(value)
