"""Commands that answer a question do not log: only warnings, and those on stderr.

Called before the store is used by a command; the scheduler configures its logs itself (`runtime.logs`).
"""

import logging
import sys

import structlog


def quiet() -> None:
    """Keep log lines out of answers, also where nobody has configured logging."""
    structlog.configure(
        processors=[structlog.processors.add_log_level, structlog.dev.ConsoleRenderer(colors=False)],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
