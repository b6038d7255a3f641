"""Small texts for people: lengths of time, instants, amounts, names cut to size, nodes as ranges.

Called by `cli.tables` and `cli.prose`. Pure; what goes in is data of other people's objects, so what
comes out has no control characters.
"""

import re
import time
from collections.abc import Iterable, Sequence

from fairlead.model import quantity

_UNITS = (
    ("Ei", 1 << 60),
    ("Pi", 1 << 50),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
)
_LAST_NUMBER = re.compile(r"^(.*?)(\d+)(\D*)$", re.DOTALL)


def clean(text: str) -> str:
    """On one line and without anything that a terminal would obey."""
    return "".join(ch if ch.isprintable() else "\N{REPLACEMENT CHARACTER}" for ch in " ".join(text.split()))


def span(milliseconds: int) -> str:
    """A length of time in five characters or so: 12s, 3m12s, 45m, 2h05m, 17h, 3d04h, 12d."""
    seconds = max(milliseconds, 0) // 1000
    if seconds < 60:
        return f"{seconds}s"
    for size, (unit, letter), (part, small) in (
        (3600, (60, "m"), (1, "s")),
        (86_400, (3600, "h"), (60, "m")),
        (1 << 62, (86_400, "d"), (3600, "h")),
    ):
        if seconds < size:
            whole, rest = divmod(seconds, unit)
            return f"{whole}{letter}" + (f"{rest // part:02}{small}" if whole < 10 else "")
    return "-"


def instant(milliseconds: int) -> str:
    """Local date and time to the second; "-" for a time that has not come."""
    if milliseconds <= 0:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))


def moment(at: int, now: int) -> str:
    """Local time to the millisecond, of another day with its date: "12:00:01.204", "Nov 20 12:00:01.204"."""
    then, today = time.localtime(at / 1000), time.localtime(now / 1000)
    form = "%H:%M:%S" if then[:3] == today[:3] else "%b %d %H:%M:%S"
    return f"{time.strftime(form, then)}.{at % 1000:03}"


def step(milliseconds: int) -> str:
    """A length of time that may be very short: 12 ms, 1.2 s, then as `span`."""
    if milliseconds < 1000:
        return f"{max(milliseconds, 0)} ms"
    return f"{milliseconds // 100 / 10:.1f} s" if milliseconds < 60_000 else span(milliseconds)


def coming(at: int, now: int) -> str:
    """A time to come, both ways: "in 5m00s, 14:05"; of another day with its date."""
    then, today = time.localtime(at / 1000), time.localtime(now / 1000)
    form = "%H:%M" if then[:3] == today[:3] else "%b %d %H:%M"
    return f"{f'in {span(at - now)}' if at > now else 'due'}, {time.strftime(form, then)}"


def lateness(milliseconds: int) -> str:
    """How far something was off its time: "3s earlier", "5m00s later", "on time"."""
    if abs(milliseconds) < 1000:
        return "on time"
    return f"{span(abs(milliseconds))} {'later' if milliseconds > 0 else 'earlier'}"


def shorten(text: str, width: int) -> str:
    """Cut out the middle: generated names differ at their ends."""
    if len(text) <= width or width < 3:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def amount(resource: str, value: int) -> str:
    """An amount with about three digits: exact numbers are in the JSON."""
    if resource == "cpu":
        return f"{value / 1000:.4g}"
    if not (resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")):
        return str(value)
    for suffix, unit in _UNITS:
        if abs(value) >= unit:
            digits = value / unit
            return (
                f"{digits:.0f}{suffix}"
                if abs(digits) >= 100 or value % unit == 0
                else f"{digits:.1f}{suffix}"
            )
    return quantity.show(resource, value)


def counted(n: int, noun: str) -> str:
    """1 group, 2 groups."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def spread(span: dict[str, int]) -> str:
    """Over how much a group spreads, nodes first and then wider levels: "8 nodes in 1 rack, 1 zone"."""
    nodes, *wider = [counted(n, clean(level)) for level, n in span.items()]
    return f"{nodes} in {', '.join(wider)}"


# -- nodes as ranges ---------------------------------------------------------------------------------


def ranges(names: Sequence[str]) -> str:
    """Node names with runs of numbers drawn together: n0-n3,n7 or kwok-node-[0-3,7]."""
    families: dict[tuple[str, str, int], list[int]] = {}
    plain: list[str] = []
    for name in names:
        match = _LAST_NUMBER.match(name)
        if match is None or len(match[2]) > 12:
            plain.append(name)
            continue
        head, digits, tail = match.groups()
        width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        families.setdefault((head, tail, width), []).append(int(digits))
    parts = [_family(head, tail, width, numbers) for (head, tail, width), numbers in _merged(families)]
    return ",".join([*parts, *plain])


def _merged(
    families: dict[tuple[str, str, int], list[int]],
) -> Iterable[tuple[tuple[str, str, int], list[int]]]:
    """Zero-padded numbers and those that have outgrown the padding (n09, n10) belong together."""
    for (head, tail, width), numbers in list(families.items()):
        padded = [w for h, t, w in families if h == head and t == tail and w > 0]
        if width == 0 and len(padded) == 1 and all(len(str(n)) >= padded[0] for n in numbers):
            families[(head, tail, padded[0])] += numbers
            del families[(head, tail, width)]
    return families.items()


def _family(head: str, tail: str, width: int, numbers: list[int]) -> str:
    runs = _runs(sorted(set(numbers)))
    text = [
        f"{first:0{width}}" if first == last else f"{first:0{width}}-{last:0{width}}" for first, last in runs
    ]
    if len(numbers) == 1:
        return f"{head}{text[0]}{tail}"
    if tail or len(head) > 3 or head.endswith(("-", ".")):
        return f"{head}[{','.join(text)}]{tail}"
    return ",".join(f"{head}{part.replace('-', f'-{head}')}" for part in text)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs
