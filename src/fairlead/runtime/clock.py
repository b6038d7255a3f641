"""The one place that reads clocks. `runtime.loop` stamps Ticks with it; the engine never sees a clock."""

import time


class Clock:
    """Milliseconds since the epoch that never go back: wall time at start plus the monotonic delta."""

    def __init__(self) -> None:
        self._wall = time.time_ns()
        self._start = time.monotonic_ns()
        self._drift = 0

    def now(self) -> int:
        return (self._wall + time.monotonic_ns() - self._start) // 1_000_000

    def jump(self) -> int:
        """Milliseconds the wall clock has moved against this one since last asked; 0 if under 1 s."""
        drift = time.time_ns() // 1_000_000 - self.now()
        moved = drift - self._drift
        if abs(moved) < 1000:
            return 0
        self._drift = drift
        return moved
