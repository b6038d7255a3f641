"""Where another scheduler bound without asking and not all fit, ours give way (design.md §5).

A reconciler, run by the engine after each batch over the nodes in `State.raced`. Two schedulers that bind to
one node within a moment cannot know of each other; the watch shows it, and then the members of ours that came
last are evicted, if their controller brings new ones. Bare pods stay and their group is flagged broken,
loudly. Must not touch a pod that has been there for long, nor one for which the node merely shrank.
"""

from collections.abc import Sequence

from fairlead.control.ladder import MAX_EVICTIONS
from fairlead.control.spare import evict, spare
from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.model.command import Command
from fairlead.model.group import Why
from fairlead.model.pod import Pod


def give_way(state: State, _: Sequence[Group]) -> list[Command]:
    """Evictions that make room on the nodes where ours met others."""
    return [command for node in list(state.raced) for command in _on_node(state, node)]


def _on_node(state: State, node: str) -> list[Command]:
    lack = _lack(state, node)
    if not lack:
        if not _awaited(state, node):
            _over(state, node)
        return []
    if state.now < state.raced[node]:
        return []
    recent = [pod for uid in reversed(state.landed) if (pod := state.pods.get(uid)) and pod.node == node]
    commands: list[Command] = []
    for pod in recent:
        if not (pod.ended or pod.deleting) and _helps(state, pod, lack):
            commands += _evict(state, pod, lack)
    if commands:
        state.raced[node] = state.now + state.settings.request_timeout
        state.wake(state.raced[node], "")
    elif not _awaited(state, node):
        _flag(state, node, recent)
    return commands


def _awaited(state: State, node: str) -> bool:
    """Whether pods of ours may still come there."""
    return any(intent.node == node for intent in state.intents.values())


def _over(state: State, node: str) -> None:
    del state.raced[node]
    for group in state.groups.values():
        if group.crowded == node:
            state.touch(group.id)


def _evict(state: State, pod: Pod, lack: dict[int, int]) -> list[Command]:
    group = state.groups.get(state.group_of.get(pod.uid, ""))
    if group is None or not spare(state, [pod]) or group.evictions >= MAX_EVICTIONS:
        return []
    _give_back(state, pod, lack)
    if not any(uid in state.leaving for uid in group.pods):  # members that go together count once
        group.evictions += 1
    text = f"another scheduler placed pods on {pod.node}, and not all fit: this one gives way"
    state.alarm(pod, Why.YIELDED, text)
    return [evict(state, pod, text)]


def _lack(state: State, node: str) -> dict[int, int]:
    """Resource -> how much too much is held, without what is on its way out and what is not there yet.

    An intent that does not fit any more is withdrawn by `control.binds`: nobody has to go for it.
    """
    lack = state.inventory.over(node)
    if lack:
        for uid in state.inventory.holders(node):
            pod = state.pods.get(uid)
            if pod is not None and (pod.deleting or not pod.node):
                _give_back(state, pod, lack)
    return lack


def _give_back(state: State, pod: Pod, lack: dict[int, int]) -> None:
    for row, amount in state.inventory.vector(state.asked(pod)).pairs:
        if row in lack:
            lack[row] -= amount
            if lack[row] <= 0:
                del lack[row]


def _helps(state: State, pod: Pod, lack: dict[int, int]) -> bool:
    return any(row in lack for row, _ in state.inventory.vector(state.asked(pod)).pairs)


def _flag(state: State, node: str, pods: list[Pod]) -> None:
    """Nobody would bring these again, so they stay."""
    for pod in pods:
        group = state.groups.get(state.group_of.get(pod.uid, ""))
        if group is not None and not group.crowded:
            group.crowded = node
            group.broken = f"another scheduler placed pods on {node} at the same time, and not all fit there"
            state.alarm(pod, Why.BROKEN, group.broken)
            state.note(group.id)
