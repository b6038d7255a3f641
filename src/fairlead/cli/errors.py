"""Errors that a user can put right: one red line on stderr and exit code 1, never a traceback.

`cli.main` lets every command run inside `told`. FAIRLEAD_TRACEBACK=1 shows where an error came from.
Must stay cheap to import: it imports none of the packages whose errors it knows.
"""

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

import typer


class CliError(Exception):
    """Something is wrong with what was typed, or nobody is there to answer; the text is for people."""


_KNOWN = (
    ("fairlead.runtime.errors", "ConfigError"),
    ("fairlead.wire.files", "FileError"),
    ("fairlead.kube.errors", "KubeError"),
    ("fairlead.store.errors", "StoreError"),
    ("fairlead.api.server", "ServerError"),
    ("fairlead.localcluster.errors", "ClusterError"),
)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""No room for the answer; every print may meet it."""


def user_errors() -> tuple[type[Exception], ...]:
    """All exception classes whose text is meant for the user; only what was imported can have raised."""
    found = [getattr(sys.modules[module], name) for module, name in _KNOWN if module in sys.modules]
    return (CliError, *found)


def _without_room(error: Exception) -> CliError | None:
    if isinstance(error, OSError) and error.errno in _FULL:
        where = f"{error.filename}: " if error.filename else ""
        return CliError(f"the answer is not written whole: {where}{error.strerror}")
    return None


def tell(error: BaseException) -> None:
    """The error as one line (its own further lines below), red on a terminal."""
    first, _, rest = str(error).strip().partition("\n")
    text = f"fairlead: {first or type(error).__name__}"
    red = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    typer.echo(typer.style(text, fg=typer.colors.RED) if red else text, err=True)
    if rest:
        typer.echo(rest, err=True)


@contextmanager
def told() -> Generator[None]:
    """Turn a user's errors into a line and exit code 1; let bugs through with their traceback."""
    try:
        yield
    except Exception as error:
        known = _without_room(error) or (error if isinstance(error, user_errors()) else None)
        if os.environ.get("FAIRLEAD_TRACEBACK") == "1" or known is None:
            raise
        tell(known)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
