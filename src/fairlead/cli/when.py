"""Times as people type them: 2h (ago), 10:30, 2026-11-22, 2026-11-22T10:00, with or without a zone.

Used by commands that ask about a stretch of the past. Without a zone, a time is this machine's local time.
"""

import time
from datetime import datetime

from fairlead.cli.errors import CliError
from fairlead.core.durations import duration


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def moment(option: str, text: str, at: int) -> int:
    """Milliseconds since the epoch of what was typed at the time `at`; 0 for nothing. Raises CliError."""
    text = text.strip()
    if not text or text == "now":
        return at if text else 0
    if ago := duration(text.removesuffix("ago").strip()):
        return max(at - ago, 1)
    today = time.strftime("%Y-%m-%d", time.localtime(at / 1000))
    for candidate in (text, f"{today}T{text}"):
        try:
            return round(datetime.fromisoformat(candidate).astimezone().timestamp() * 1000)
        except (ValueError, OverflowError):
            continue
    raise CliError(f"{option} {text}: give a time as 2h (ago), 10:30, 2026-11-22 or 2026-11-22T10:00[Z]")


def length(option: str, text: str) -> int:
    """Milliseconds of 90s, 10m or 2h30m. Raises CliError."""
    found = duration(text)
    if found is None:
        raise CliError(f"{option} {text}: give a length of time as 30s, 10m or 2h30m")
    return found
