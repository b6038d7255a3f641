"""Faults as a scenario orders them: binds that fail, and a watch that misses what happens.

Used by `sim.stage`, which fills it in; asked by `sim.world` at each bind and each event.
"""

from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.event import BindError
from fairlead.model.pod import Pod
from fairlead.sim.world import Faults


class Script(Faults):
    """`orders` of binds that fail: (pods that start with this, error, arrives after, times)."""

    def __init__(self) -> None:
        self.orders: list[list[object]] = []
        self.refusals: dict[str, int] = {}
        """Pods that start with this -> how many of them their kubelets still refuse."""
        self.gap = False
        """True while nothing that the watch says arrives."""
        self._late: int | None = None

    def bind(self, _: cmd.Bind) -> BindError | None:
        for order in self.orders:
            prefix, error, late, times = order
            assert isinstance(prefix, str) and isinstance(error, BindError) and isinstance(times, int)
            if times and (prefix == "all" or _.name == prefix or _.name.startswith(prefix + "-")):
                order[3] = times - 1
                self._late = late if isinstance(late, int) else None
                return error
        return None

    def kubelet_refuses(self, _: Pod) -> bool:
        for prefix, times in self.refusals.items():
            if times and (_.name == prefix or _.name.startswith(prefix + "-")):
                self.refusals[prefix] = times - 1
                return True
        return False

    def unknown_took_effect(self, _: cmd.Bind) -> bool:
        return self._late is not None

    def unknown_delay(self, _: cmd.Bind) -> int:
        return self._late or 0

    def deliveries(self, _: ev.Event) -> tuple[int, ...]:
        return () if self.gap else (0,)
