"""The data folder: where it is, who owns what in it, and whether it can be used at all.

Called by `store.embedded` before anything is started, and by the command line for the default path.
Must never change the mode or the owner of a folder that it did not create itself: opening up somebody's
home to make a database work is not ours to do.

Layout: `DATA/pg` belongs to the account the embedded server runs as (0700: database and socket);
everything else (`pg.lock`, `pg_hba.conf`, `pg_ident.conf`, `postgres.log`, `pg-bin`, and what the
scheduler itself writes) belongs to the user.
"""

import os
import pwd
import stat
import tempfile
from pathlib import Path

from msgspec import Struct

from fairlead.store.errors import StoreError

NOBODY = 65534
RECORDER = "recorder"
"""Below the default data folder: a database of the recorder's own, unless it is told where others are."""
SOCKET = ".s.PGSQL.5432"
_LONGEST_SOCKET = 107
"""What fits into sockaddr_un on Linux, without the closing zero; a little less elsewhere."""


class Account(Struct, frozen=True):
    """Who runs the server (`uid`, `gid`) and the operating system's name of who connects (`client`)."""

    uid: int
    gid: int
    client: str
    demoted: bool


def default_data_dir() -> Path:
    """/var/lib/fairlead for root (never a home: homes are private), else the user's state folder."""
    if os.geteuid() == 0:
        return Path("/var/lib/fairlead")
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path.home() / ".local" / "state"
    return base / "fairlead"


def recorded_data_dir() -> Path:
    """Where history is: the recorder's own folder once it has run, else the scheduler's (`--ledger`)."""
    own = default_data_dir() / RECORDER
    return own if (own / "pg").exists() else default_data_dir()


def account() -> Account:
    """PostgreSQL refuses to run as root, so root's server runs as `nobody`; anybody else's as themselves."""
    uid = os.geteuid()
    demoted = uid == 0
    server = NOBODY if demoted else uid
    for needed in (uid, server):
        if _name_of(needed) is None:
            raise StoreError(
                f"user id {needed} has no entry in /etc/passwd, and PostgreSQL does not run without one: "
                "add an entry or give --database-url"
            )
    return Account(server, NOBODY if demoted else os.getegid(), _name_of(uid) or "", demoted)


def _name_of(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def open_to_others(path: Path) -> Path | None:
    """The first folder from the root down to `path` that other users cannot pass through; None if all let."""
    for folder in [*reversed(path.parents), path]:
        if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def prepare(data: Path, who: Account) -> Path:
    """Make and check the data folder; returns it absolute. Raises StoreError when it cannot serve."""
    data = data.absolute()
    if len(str(data / "pg" / SOCKET)) > _LONGEST_SOCKET:
        room = _LONGEST_SOCKET - len(f"/pg/{SOCKET}")
        raise StoreError(
            f"data folder {data} has too long a path for a socket: at most {room} characters fit"
        )
    if who.demoted:
        _refuse_private_parents(data)
    try:
        _make(data, 0o711 if who.demoted else 0o700)
        with tempfile.TemporaryFile(dir=data):
            pass
    except OSError as error:
        raise StoreError(
            f"data folder {data} cannot be written ({error.strerror}): choose another --data-dir"
        ) from error
    return data


def _refuse_private_parents(data: Path) -> None:
    private = open_to_others(data)
    if private is not None:
        raise StoreError(
            f"data folder {data} is below {private}, which only its owner may enter, but as root the "
            "embedded PostgreSQL runs as `nobody`: choose a --data-dir whose parents all are o+x (such as "
            "/var/lib/fairlead), or give --database-url"
        )


def _make(folder: Path, mode: int) -> None:
    if folder.is_dir():
        return
    if not folder.parent.exists():
        _make(folder.parent, mode)
    folder.mkdir(exist_ok=True)
    folder.chmod(mode)  # whatever the umask: this one is ours


def prepare_server_folder(data: Path, who: Account) -> Path:
    """`DATA/pg`, 0700 and owned by the server's account. An existing one must already belong to it."""
    folder = data / "pg"
    if not folder.exists():
        folder.mkdir(mode=0o700)
        if who.demoted:
            os.chown(folder, who.uid, who.gid)
        folder.chmod(0o700)
    owner = folder.lstat().st_uid
    if owner != who.uid or folder.is_symlink():
        raise StoreError(
            f"{folder} belongs to user id {owner}, but the embedded PostgreSQL would run as {who.uid}: run "
            "Fairlead as the user who made it, or choose another --data-dir"
        )
    return folder
