"""Release binds: every durable intent that may go out now, and none before.

A reconciler, run by the engine after each batch. Level-triggered over `state.to_bind`, so a restart is
no special case: an adopted intent is bound here too, once no earlier request can be on its way.
"""

from collections.abc import Sequence

from fairlead.core.state import Group, State
from fairlead.model.command import Bind, Command
from fairlead.model.event import BindError


def release(state: State, _: Sequence[Group]) -> list[Command]:
    """Bind commands for what is due. Intent before effect: only durable intents are here at all."""
    commands: list[Command] = []
    if not state.synced:
        return commands
    for uid in list(state.to_bind):
        intent = state.intents[uid]
        if intent.not_before > state.now:
            continue
        del state.to_bind[uid]
        pod = state.pods[uid]
        if pod.deleting or pod.gated:
            intent.error = BindError.CHANGED
            state.touch(intent.group)
            continue
        if state.inventory.node(intent.node) is None:
            intent.error = BindError.REFUSED
            state.touch(intent.group)
            continue
        intent.in_flight = True
        commands.append(
            Bind(
                grant=intent.grant,
                pod=uid,
                namespace=pod.namespace,
                name=pod.name,
                node=intent.node,
                version=pod.version,
                scheduler=state.settings.scheduler,
            )
        )
    return commands
