"""The one place that reads clocks. `runtime.loop` stamps Ticks with it; the engine never sees a clock."""

import time
from collections.abc import Callable

JUMP = 1000
"""Milliseconds that the wall clock may be off before it counts as set. Slewing never gets there at once."""


def even_ns() -> int:
    """Nanoseconds on a clock that nobody sets, and that goes on while the machine is suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if clock is None else time.clock_gettime_ns(clock)


class Clock:
    """Milliseconds since the epoch that run evenly: wall time at start plus what has passed since.

    It leaves that line only by `jump`, to follow a wall clock that was set.
    """

    def __init__(self, wall: Callable[[], int] = time.time_ns, even: Callable[[], int] = even_ns) -> None:
        self._wall, self._even = wall, even
        self._offset = wall() - even()

    def now(self) -> int:
        return (self._even() + self._offset) // 1_000_000

    @property
    def off(self) -> int:
        """Milliseconds that the wall clock is ahead of this one; 0 if under 1 s."""
        ahead = self._wall() // 1_000_000 - self.now()
        return ahead if abs(ahead) >= JUMP else 0

    def jump(self) -> int:
        """Follow the wall clock if it was set; returns by how many milliseconds, 0 if it was not."""
        ahead = self.off
        self._offset += ahead * 1_000_000
        return ahead
