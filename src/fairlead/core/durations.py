"""Durations and instants written by people in annotations. Pure; called by `core.grouping`.

Must not read a clock: an instant is data. RFC 3339 is parsed by hand because the engine's packages may
not import `datetime` (its `now` would be one step away).
"""

import re

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|d|h|m|s)")
_UNIT = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RFC3339 = re.compile(
    r"^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))$", re.ASCII
)
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def duration(text: str) -> int | None:
    """Milliseconds of "3600" (seconds), "90s" or "2h30m"; None if it is not a duration above zero."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return int(text) * 1000 or None
    parts = _PART.findall(text)
    if not parts or "".join(a + b for a, b in parts) != text:
        return None
    total = 0
    for number, unit in parts:
        head, _, fraction = number.partition(".")
        total += int(head) * _UNIT[unit]
        if fraction:
            total += int(fraction) * _UNIT[unit] // 10 ** len(fraction)
    return total or None


def instant(text: str) -> int | None:
    """Milliseconds since the epoch of an RFC 3339 instant; None if it is not one."""
    match = _RFC3339.match(text.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(g) for g in match.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= _days_of(year, month)):
        return None
    if hour > 23 or minute > 59 or second > 60:  # 60: a leap second, taken as the next minute's first
        return None
    if match[8] and (int(match[9]) > 23 or int(match[10]) > 59):
        return None
    milliseconds = int((match[7] or "0").ljust(9, "0")) // 1_000_000
    offset = (int(match[9]) * 60 + int(match[10])) * (1 if match[8] == "+" else -1) if match[8] else 0
    minutes = (_days(year, month, day) * 24 + hour) * 60 + minute - offset
    return (minutes * 60 + second) * 1000 + milliseconds


def rfc3339(milliseconds: int) -> str:
    """The instant in UTC to the second below, as `instant` reads it: "2026-11-21T09:59:17Z"."""
    days, second = divmod(milliseconds // 1000, 86_400)
    year, month, day = _date(days)
    return f"{year:04}-{month:02}-{day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def _days_of(year: int, month: int) -> int:
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return _MONTH_DAYS[month - 1] + leap


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the proleptic Gregorian calendar (years begin in March inside)."""
    if month <= 2:
        year, month = year - 1, month + 12
    leap = year // 4 - year // 100 + year // 400
    return 365 * year + leap + (153 * (month - 3) + 2) // 5 + day - 1 - 719_468


def _date(days: int) -> tuple[int, int, int]:
    """Year, month and day of the day so many days after 1970-01-01: `_days` the other way round."""
    era, rest = divmod(days + 719_468, 146_097)  # from the first of March of the year 0; 400 years are an era
    year = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
    rest -= 365 * year + year // 4 - year // 100
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5 + 1
    return 400 * era + year + (month >= 10), (month + 2) % 12 + 1, day


def soon(milliseconds: int) -> str:
    """A length of time to come, without the digits that do not matter; at least "1s"."""
    unit = next((u for u in (86_400_000, 3_600_000, 60_000) if milliseconds >= 10 * u), 1000)
    return show(max(-(-milliseconds // unit) * unit, 1000))


def show(milliseconds: int) -> str:
    """A duration for people: "2h30m", "45s", "0s"."""
    seconds = milliseconds // 1000
    parts = [
        (seconds // 86_400, "d"),
        (seconds // 3600 % 24, "h"),
        (seconds // 60 % 60, "m"),
        (seconds % 60, "s"),
    ]
    return "".join(f"{n}{unit}" for n, unit in parts if n)[:12] or "0s"
