"""The axis of a panel whose time is the calendar's: round times of the day, and the date where it changes.

Called by `recorder.figures*`. Local time of this machine, as in the tables. Milliseconds since the epoch.
"""

import time
from typing import NamedTuple

from fairlead.draw import svg

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_ROUND = (1, 2, 5, 10, 15, 30)
_STEPS = (
    *(n * _SECOND for n in _ROUND),
    *(n * _MINUTE for n in _ROUND),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 365, 3650)),
)
_MOST_TICKS = 10
_WORDS = 16
"""Half as wide as the words of a tick may be, less the margin."""


class Clock(NamedTuple):
    """From `first` to `last`."""

    first: int
    last: int

    def x(self, at: float) -> float:
        """Where an instant lies in a panel; those outside lie on its edge."""
        inside = min(max(at, self.first), self.last)
        return svg.Times(self.first, self.last).x(inside)

    def step(self) -> int:
        """How far ticks are from one another."""
        span = max(self.last - self.first, 1)
        return next((step for step in _STEPS if span / step <= _MOST_TICKS), _STEPS[-1])

    def ticks(self) -> list[int]:
        """Round local times within."""
        step, zone = self.step(), time.localtime(self.first / 1000).tm_gmtoff * 1000
        first = -(-(self.first + zone) // step) * step - zone
        return list(range(first, self.last + 1, step))

    def axis(self, height: int) -> str:
        """Ticks and words below a panel of this height."""
        parts: list[str] = []
        day = ""
        for tick in self.ticks():
            then = time.localtime(tick / 1000)
            date = time.strftime("%b %d", then)
            x = self.x(tick)
            parts.append(svg.line(x, svg.TOP, x, height - svg.BOTTOM, "grid"))
            at_edge = x > svg.WIDTH - svg.RIGHT - _WORDS
            place, anchor = (svg.WIDTH - 1, "end") if at_edge else (x, "middle")
            parts.append(svg.text(place, height - svg.BOTTOM + 14, self._words(then), anchor=anchor))
            if date != day and self.step() < _DAY:
                parts.append(svg.text(x, height - svg.BOTTOM + 27, date, anchor="middle", kind="faint"))
            day = date
        zone = time.strftime("local time (%Z)", time.localtime(self.first / 1000))
        return "".join(parts) + svg.text(svg.WIDTH - svg.RIGHT, height - 2, zone, anchor="end", kind="faint")

    def _words(self, then: time.struct_time) -> str:
        if self.step() >= _DAY:
            return time.strftime("%b %d", then) if self.step() < 91 * _DAY else time.strftime("%b %Y", then)
        return time.strftime("%H:%M:%S" if self.step() < _MINUTE else "%H:%M", then)


def instant(at: int) -> str:
    """For a title: local date and time to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at / 1000))
