"""Event batches as JSON lines (`--record FILE`), written and read back (for `runtime.replay`).

The first line names format, version, engine and settings; every further line is one batch as the engine
learned it. That is all a replay needs: where a snapshot was taken follows from the batches, and the plan that
re-entered stands in one of them. Written behind by `runtime.loop`; a full disk ends the recording with
a loud message, never the scheduler.
"""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Protocol

import msgspec
import structlog
from msgspec import Struct

from fairlead import __version__
from fairlead.model.event import Event
from fairlead.model.settings import Settings
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.shared import Shared
from fairlead.runtime.version import engine_version

FORMAT = "fairlead-batches/1"
_log = structlog.get_logger("record")


class Header(Struct, frozen=True):
    format: str
    version: str
    settings: Settings
    engine: str = ""
    """What `runtime.version` says; "" in recordings that are older than that."""


class Recording(Protocol):
    """What `runtime.loop` tells every batch before the engine learns it. It must not raise, nor wait."""

    def batch(self, events: Sequence[Event]) -> None:
        """Add one batch, exactly as the engine learns it."""
        ...

    def flush(self) -> None:
        """Nothing more is known at the moment."""
        ...

    def close(self) -> None:
        """The end; may come twice."""
        ...


class Recordings:
    """Several as one."""

    def __init__(self, *parts: Recording) -> None:
        self._parts = parts

    def batch(self, events: Sequence[Event]) -> None:
        for part in self._parts:
            part.batch(events)

    def flush(self) -> None:
        for part in self._parts:
            part.flush()

    def close(self) -> None:
        for part in self._parts:
            part.close()


class Recorder:
    """Appends batches to a file. Created anew: a recording starts with an empty engine."""

    def __init__(self, path: pathlib.Path, settings: Settings) -> None:
        self._path = path
        self._encoder = msgspec.json.Encoder()
        self._file: BinaryIO | None
        try:
            self._file = path.open("wb", buffering=1 << 20)
        except OSError as error:
            raise ConfigError(
                f"--record {path}: {error.strerror}; name a file that can be written"
            ) from error
        self._write(Header(FORMAT, __version__, settings, engine_version()))

    def batch(self, events: Sequence[Event]) -> None:
        """Add one batch, exactly as the engine learns it."""
        self._write(events)

    def flush(self) -> None:
        self._guard(lambda f: f.flush())

    def close(self) -> None:
        self._guard(lambda f: f.close())
        self._file = None

    def _write(self, value: object) -> None:
        line = self._encoder.encode(value) + b"\n" if self._file is not None else b""
        self._guard(lambda f: f.write(line))

    def _guard(self, action: Callable[[BinaryIO], object]) -> None:
        if self._file is None:
            return
        try:
            action(self._file)
        except OSError as error:
            _log.error("recording stopped: the file ends here", file=str(self._path), error=str(error))
            self._file = None


def read(path: pathlib.Path) -> Iterator[Header | list[Event]]:
    """The header, then the batches. Raises ConfigError with the line where the file is not a recording."""
    decoder = msgspec.json.Decoder(list[Event])
    shared = Shared()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                if number == 1:
                    header = msgspec.json.decode(line, type=Header)
                    if header.format != FORMAT:
                        raise ConfigError(f"{path}: format {header.format!r}, this version reads {FORMAT!r}")
                    yield header
                else:
                    yield [shared.event(event) for event in decoder.decode(line)]
            except msgspec.DecodeError as error:
                if number > 1 and not line.endswith(b"\n"):
                    return  # cut off in mid-line by a kill
                raise ConfigError(f"{path}:{number}: not a recording of Fairlead ({error})") from error
