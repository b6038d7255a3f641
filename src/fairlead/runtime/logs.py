"""How log lines look: for people, or one JSON object each.

Called once by the composition root before anything logs. Lines go to stderr; stdout is for answers.
"""

import contextlib
import logging
import sys
from typing import TextIO, cast

import structlog


class Enduring:
    """A stream that may be full or gone: what cannot be said is not said, and everything else goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def configure(form: str) -> None:
    """`form` is "text" or "json"."""
    times = structlog.processors.TimeStamper(fmt="iso", utc=form == "json")
    if form == "json":
        last: structlog.typing.Processor = structlog.processors.JSONRenderer()
    else:
        last = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[structlog.processors.add_log_level, times, structlog.processors.format_exc_info, last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *_: structlog.WriteLogger(cast("TextIO", Enduring(sys.stderr))),
        cache_logger_on_first_use=True,
    )
