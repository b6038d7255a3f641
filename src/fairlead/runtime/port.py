"""The two sides every outside thing has: it emits events and performs commands.

Implemented by `kube`, `store` and `sim`; driven by `runtime.loop`. A port must not know the engine:
all it has is the inbox it puts events into and the commands it is given.
"""

from collections.abc import Sequence
from typing import Protocol

from fairlead.model.command import Command
from fairlead.model.event import Event


class Inbox(Protocol):
    """Where events go in. Never blocks and never drops."""

    def put(self, events: Sequence[Event]) -> None:
        """Add events, in order; those of one call enter the engine in the same batch or in order."""
        ...


class Port(Protocol):
    """One outside thing: Kubernetes, the store, a simulated world."""

    handles: tuple[type, ...]
    """The command types this port performs."""

    async def run(self, inbox: Inbox) -> None:
        """Emit events until cancelled. Faults of the outside are retried inside, never raised."""
        ...

    def perform(self, commands: Sequence[Command]) -> None:
        """Begin to carry out commands. Returns at once; outcomes come back as events."""
        ...

    async def close(self) -> None:
        """Finish or give up what is in flight and free what is held."""
        ...
