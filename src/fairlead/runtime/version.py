"""Which engine this is: the version of Fairlead, and a hash of all that decides.

Called by `runtime.segmenting` and `runtime.record`, which write it down, and by `runtime.replay`: plans are
the same to the bit only where it is the same.
"""

from functools import cache
from hashlib import blake2b
from pathlib import Path

from fairlead import __file__ as package
from fairlead import __version__

_DECIDING = ("model", "core", "control")


@cache
def engine_version() -> str:
    """`0.1.0+3f2a…`: the hash is over the source of all modules that decide."""
    digest = blake2b(digest_size=8)
    top = Path(package).parent
    for path in sorted(path for name in _DECIDING for path in (top / name).rglob("*.py")):
        digest.update(f"{path.relative_to(top).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return f"{__version__}+{digest.hexdigest()}"
