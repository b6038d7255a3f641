"""The data folder of a process: one scheduler each, by a lock that ends with it.

Used by the composition roots. Must not know what lies in it.
"""

import fcntl
from pathlib import Path
from typing import BinaryIO

from fairlead.runtime.errors import ConfigError


class DataFolder:
    """The data folder, locked: one scheduler process each. Replicas keep no database there and share it."""

    def __init__(self, path: Path, shared: bool = False) -> None:
        self.path = path
        self._shared = shared
        self._lock: BinaryIO | None = None

    def __enter__(self) -> "DataFolder":
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / "lock").open("a+b")
            fcntl.flock(self._lock, (fcntl.LOCK_SH if self._shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"{self.path}: another fairlead scheduler uses this data folder; stop it or give --data-dir"
            ) from error
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be used as the data folder ({error.strerror}); give another --data-dir"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None
