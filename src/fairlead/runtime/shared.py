"""One object for all equal shapes and wishes: the engine tells kinds of pods apart by identity.

Live, `wire.pod` sees to it; whoever reads events back (`runtime.record`, `runtime.segments`,
`runtime.checkpoint`) does it here. Must not keep anything but frozen objects.
"""

from typing import TypeVar, cast

from msgspec import structs

from fairlead.model.event import Event, PodSeen, Repaired, Told

T = TypeVar("T")


class Shared:
    """The first of all equal objects, for as long as one replay takes."""

    def __init__(self) -> None:
        self._known: dict[object, object] = {}

    def add(self, value: T) -> T:
        """The one that stands for all equal ones: this one, if it is the first."""
        return cast("T", self._known.setdefault(value, value))

    def event(self, event: Event) -> Event:
        """The event with shapes and wishes that stand for all."""
        if isinstance(event, Repaired):
            items = [cast("Told", self.event(item)) for item in event.items]
            return structs.replace(event, items=tuple(items))
        if not isinstance(event, PodSeen):
            return event
        pod = event.pod
        shape, wishes = self.add(pod.shape), self.add(pod.wishes)
        if shape is pod.shape and wishes is pod.wishes:
            return event
        return PodSeen(structs.replace(pod, shape=shape, wishes=wishes))
