"""`fairlead db url | shell`: the way into the database with your own tools.

A sub-app of `cli.main`. Must not write anything itself and must not keep a server running that it started.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, NoReturn
from urllib.parse import quote

import typer

from fairlead.store.binaries import bundled
from fairlead.store.embedded import DATABASE, ROLE, running_postmaster
from fairlead.store.errors import StoreError
from fairlead.store.folder import default_data_dir
from fairlead.store.reader import served

app = typer.Typer(help="The database: its address, or a shell in it.", no_args_is_help=True)
DataDir = Annotated[Path | None, typer.Option("--data-dir", help="The scheduler's data folder.")]
DatabaseUrl = Annotated[
    str, typer.Option("--database-url", help="Your own PostgreSQL, if the scheduler uses one.")
]
_SEARCH_PATH = "options=" + quote("-csearch_path=fairlead,public")


@app.command()
def url(data_dir: DataDir = None, database_url: DatabaseUrl = "") -> None:
    """Print a libpq URL for the running store: psql "$(fairlead db url)"."""
    data = (data_dir or default_data_dir()).absolute()
    if not database_url and running_postmaster(data) is None:
        _fail(f"no database runs in {data}: start `fairlead scheduler` with it, or use `fairlead db shell`")
    typer.echo(_with_path(database_url) if database_url else socket_url(data))


@app.command()
def shell(data_dir: DataDir = None, database_url: DatabaseUrl = "") -> None:
    """Open psql on the store; an embedded server that is not running is started for this while."""
    psql = _psql()
    if database_url:
        raise typer.Exit(_run(psql, _with_path(database_url)))
    data = (data_dir or default_data_dir()).absolute()
    try:
        with served(data):
            code = _run(psql, socket_url(data))
    except StoreError as error:
        _fail(str(error))
    raise typer.Exit(code)


def socket_url(data: Path) -> str:
    """For the user who runs the scheduler; nobody else gets in."""
    return f"postgresql:///{DATABASE}?host={quote(str(data / 'pg'), safe='')}&user={ROLE}&{_SEARCH_PATH}"


def _with_path(database_url: str) -> str:
    """The views without `fairlead.` before them; a key=value string or own options stay as they are."""
    if "://" not in database_url or "options=" in database_url:
        return database_url
    return f"{database_url}{'&' if '?' in database_url else '?'}{_SEARCH_PATH}"


def _psql() -> str:
    found = shutil.which("psql")
    if found:
        return found
    own = bundled() / "psql"
    if not own.exists():
        _fail("psql is not on PATH: install PostgreSQL's client (Debian: postgresql-client, Homebrew: libpq)")
    return str(own)


def _run(psql: str, address: str) -> int:
    """Ctrl-C belongs to psql while it runs."""
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.run([psql, address], env=os.environ, preexec_fn=_default_interrupt).returncode
    finally:
        signal.signal(signal.SIGINT, earlier)


def _default_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _fail(text: str) -> NoReturn:
    typer.echo(f"fairlead: {text}", err=True)
    sys.exit(1)
