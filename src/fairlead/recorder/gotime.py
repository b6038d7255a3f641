"""Times as Go programs write them: `time.Time.String()` and RFC 3339.

Used by the sniffer's doors (`recorder.sniffer_service`, `recorder.importing`, `recorder.jsonl`). Pure. What
cannot be read is None, never an exception: it comes from programs of others, and a record is kept without it.
"""

import re
from datetime import date
from functools import lru_cache

_SECOND = 1_000_000_000
_MILLISECOND = 1_000_000
_EPOCH = date(1970, 1, 1).toordinal()
ZERO = "0001-01-01 00:00:00 +0000 UTC"
"""How Go prints a time that was never set."""

# 2024-04-23 19:51:07.300887638 +0000 UTC m=+82.830887   and   2024-04-23T19:51:07Z
_WHOLE = re.compile(
    r"(\d{4}-\d\d-\d\d)[ Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?"
    r"(?: ([+-]\d{4}) [^ ]+(?: m=[+-]\d+(?:\.\d+)?)?|([Zz]|[+-]\d\d:\d\d))",
    re.ASCII,
)


def nanoseconds(text: str) -> int | None:
    """Since the epoch; None for no time ("", Go's zero time), for one before 1970 and for what is no time."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    day, hour, minute, second, fraction, plain, colon = found.groups()
    days = _days(day)
    hours, minutes, seconds = int(hour), int(minute), int(second)
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    seconds += days * 86_400 + hours * 3600 + minutes * 60 - _offset(plain or colon)
    whole = seconds * _SECOND + (int(fraction.ljust(9, "0")) if fraction else 0)
    return whole if whole > 0 else None


def _offset(zone: str) -> int:
    """Seconds east of Greenwich, of `Z`, `+0530` or `+05:30`."""
    if zone in "Zz":
        return 0
    seconds = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
    return -seconds if zone[0] == "-" else seconds


@lru_cache(maxsize=256)
def _days(text: str) -> int | None:
    """Since the epoch; the same few days come again and again."""
    try:
        return date(int(text[:4]), int(text[5:7]), int(text[8:])).toordinal() - _EPOCH
    except ValueError:
        return None


def written(nanoseconds: int) -> str:
    """A time of 1970 or later as Go prints it in UTC, without a monotonic part."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    days, seconds = divmod(seconds, 86_400)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{_day(days)} {minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{fraction} +0000 UTC"


@lru_cache(maxsize=256)
def _day(days: int) -> str:
    return date.fromordinal(days + _EPOCH).isoformat()


def unreadable(text: str) -> bool:
    """There is a time, and nobody can tell which: not for Go's way to write that there is none."""
    return bool(text) and not text.startswith(ZERO[:10]) and nanoseconds(text) is None
