"""Release binds: every durable intent that may go out now, and none before.

Two reconcilers, run by the engine after each batch: `inspect` before the ladder, so that a start of which
one member cannot be bound any more is taken back whole, and `release` after it. Level-triggered over
`state.to_bind`, so a restart is no special case: an adopted intent is bound here too, once no earlier
request can be on its way.
"""

from collections.abc import Iterator, Sequence

from fairlead.control import claims
from fairlead.core.esi.asking import where
from fairlead.core.esi.marks import marks
from fairlead.core.esi.places import known
from fairlead.core.labels import constraints
from fairlead.core.live import Group, Intent
from fairlead.core.state import State
from fairlead.model.command import REVOKED, Bind, Command
from fairlead.model.event import BindError
from fairlead.model.pod import Pod


def inspect(state: State, _: Sequence[Group]) -> list[Command]:
    """Mark the intents whose pod or node has changed since the grant so that they must not be bound."""
    for intent, pod in _due(state):
        error = _spoiled(state, intent, pod)
        if error is not None:
            _withdraw(state, intent, error)
    return []


def release(state: State, _: Sequence[Group]) -> list[Command]:
    """Bind commands for what is due. Intent before effect: only durable intents are here at all."""
    claims.wake_held(state)
    due: list[tuple[Intent, Pod]] = []
    for intent, pod in _due(state):
        error = _spoiled(state, intent, pod)  # the ladder may just have let go what it held back
        if error is None:
            due.append((intent, pod))
        else:
            _withdraw(state, intent, error)
            state.wake(state.now, intent.group)
    commands = claims.hold(state, due)
    for intent, pod in due:
        if intent.pod not in state.to_bind:
            continue
        del state.to_bind[intent.pod]
        intent.in_flight = True
        known(state, intent.pod)  # no earlier request can come any more, and this one says which slot
        found = where(state, intent.pod)
        labels, annotations = marks(found[1]) if found is not None else ((), ())
        commands.append(
            Bind(
                grant=intent.grant,
                pod=intent.pod,
                namespace=pod.namespace,
                name=pod.name,
                node=intent.node,
                version=pod.version,
                scheduler=state.settings.scheduler,
                labels=labels,
                annotations=annotations,
            )
        )
    return commands


def _due(state: State) -> Iterator[tuple[Intent, Pod]]:
    if state.synced:
        for uid in list(state.to_bind):
            intent = state.intents[uid]
            if intent.not_before <= state.now:
                yield intent, state.pods[uid]


def _spoiled(state: State, intent: Intent, pod: Pod) -> BindError | None:
    """Why, as far as the watch has told, the pod must not be bound there; None if it may."""
    if pod.deleting or pod.gated or pod.annotations.get(REVOKED) == intent.grant:
        # What is revoked stays so: else nobody could tell when it is safe to give up.
        return BindError.CHANGED
    inventory = state.inventory
    row = inventory.rows.get(intent.node)
    if row is None or not inventory.classes().now(constraints(pod.shape))[row]:
        return BindError.REFUSED
    # What the intent holds is taken off already: below zero somebody else has come, or the node shrank.
    if any(inventory.free[resource, row] < 0 for resource, _ in inventory.vector(state.asked(pod)).pairs):
        return BindError.REFUSED
    return None


def _withdraw(state: State, intent: Intent, error: BindError) -> None:
    del state.to_bind[intent.pod]
    intent.error = error
    state.touch(intent.group)
