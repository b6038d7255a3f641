"""The one error of this package that a user may see.

Raised everywhere in the package; the command line prints it as it is and exits with 1. It must not carry
tracebacks: the text itself says what happened, where, and what to do.
"""

from __future__ import annotations


class ClusterError(Exception):
    """What went wrong with a local cluster; `detail` holds further lines such as the end of a log."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.message}\n{self.detail}" if self.detail else self.message
