"""How log lines look: for people, or one JSON object each.

Called once by the composition root before anything logs. Lines go to stderr; stdout is for answers.
"""

import logging
import sys

import structlog


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
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
