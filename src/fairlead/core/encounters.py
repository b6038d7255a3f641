"""Pods of ours that met those of other schedulers on a node within a moment, so that not all fit.

Called by `core.reduce` when a pod is seen on a node for the first time. Only notes it: `control.races` gives
way. Two who bind without asking each other can meet only shortly after a bind of ours, so that is how long
our pods are remembered.
"""

from collections.abc import Iterable

from fairlead.core.state import State
from fairlead.model.pod import Pod

MOMENT = 30_000
"""Milliseconds after a bind of ours in which another's may have been decided without knowing of it."""


def meet(state: State, pod: Pod) -> None:
    """A pod has come to a node."""
    if not state.synced:
        return
    _forget(state)
    if state.ours(pod):
        state.landed[pod.uid] = state.now
    if state.landed or state.intents:
        _look(state, (pod.node,))


def landed_before(state: State) -> None:
    """All sources are in: what an earlier process had begun to bind may have met others meanwhile."""
    begun = dict.fromkeys(state.restored_pods)
    for group in state.groups.values():
        if group.granted_at and group.granted_at + MOMENT > state.now:
            begun.update(dict.fromkeys(group.pods))
    for uid in begun:
        pod = state.pods.get(uid)
        if pod is not None and pod.node and not pod.ended:
            state.landed[uid] = state.now
    _look(state, {state.pods[uid].node: None for uid in state.landed})


def _forget(state: State) -> None:
    """Who has been there for more than a moment has met nobody who comes now; unless it is to give way."""
    while state.landed:
        oldest = next(iter(state.landed))
        if state.landed[oldest] + MOMENT > state.now:
            break
        del state.landed[oldest]
        pod = state.pods.get(oldest)
        if pod is not None and pod.node in state.raced:
            state.landed[oldest] = state.now


def _look(state: State, nodes: Iterable[str]) -> None:
    for node in nodes:
        if node in state.raced or not _over(state, node):
            continue
        since = state.now - MOMENT
        holders = state.inventory.holders(node)
        if any(uid in state.intents or state.landed.get(uid, since) > since for uid in holders):
            state.raced[node] = 0
            state.races += 1


def _over(state: State, node: str) -> bool:
    """Whether more is held there than the node has; what slots still hold for pods that have come is not."""
    lack = state.inventory.over(node)
    if lack and node in state.esi.members:
        for key, amounts in state.inventory.holders(node).items():
            for row, amount in state.inventory.vector(amounts).pairs if key in state.esi.holds else ():
                if row in lack:
                    lack[row] -= amount
    return any(amount > 0 for amount in lack.values())
