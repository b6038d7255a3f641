"""The file of `fairlead recorder --jsonl FILE`: the sniffer's lines, appended while the recorder runs.

Made by `app_recorder`. Writing has a thread of its own, so that a slow disk holds up neither the recorder nor
whoever waits for its answer. A disk that is full, or too slow for long, costs lines of this file and nothing
else: it is told once, and once when it is over. The file holds whole lines only.
"""

import contextlib
import os
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import structlog

from fairlead.model.record import Part, PodLife
from fairlead.recorder.jsonl import Lines
from fairlead.runtime.errors import ConfigError

MOST_WAITING = 1 << 24
"""Bytes that may wait for the disk."""
_log = structlog.get_logger("jsonl")


class JsonLines:
    """Appends to a file what `put` is given. `written` and `lost` count lines."""

    def __init__(self, path: Path, pods: Iterable[PodLife] = (), most_waiting: int = MOST_WAITING) -> None:
        """`pods` are open ones of before. Raises ConfigError for a file that cannot be written."""
        self.written = 0
        self.lost = 0
        self._path, self._lines, self._most = path, Lines(pods), most_waiting
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._missing = 0
        """Lines lost since the last that was written."""
        self._closing = False
        self._changed = threading.Condition()
        try:
            self._file = _opened(path)
        except OSError as error:
            raise ConfigError(f"--jsonl {path}: {error.strerror}; name a file that can be written") from error
        self._thread = threading.Thread(target=self._run, name="jsonl", daemon=True)
        self._thread.start()

    def put(self, part: Part) -> bool:
        """Have its lines written soon; never waits. False when some are lost, since too many wait."""
        text = self._lines.of(part)
        if not text:
            return True
        with self._changed:
            room = self._bytes + len(text) <= self._most
            if room:
                self._waiting.append(text)
                self._bytes += len(text)
                self._changed.notify()
            else:
                self._lose(text, "the disk is too slow")
        return room

    def go_on(self, pods: Iterable[PodLife]) -> None:
        """These were told of before."""
        self._lines = Lines(pods)

    def close(self, seconds: float = 5) -> None:
        """Write what waits, for so long at most."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(seconds)
        if self._thread.is_alive():
            _log.warning("not all lines were written before the end", file=str(self._path))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                text = b"".join(self._waiting)
                self._waiting.clear()
                self._bytes = 0
            if not text:
                break
            self._append(text)
        os.close(self._file)

    def _append(self, text: bytes) -> None:
        """All of it, or nothing."""
        done = 0
        try:
            while done < len(text):
                done += os.write(self._file, memoryview(text)[done:])
        except OSError as error:
            self._take_back(done)
            with self._changed:
                self._lose(text, error.strerror or str(error))
            return
        with self._changed:
            self.written += text.count(b"\n")
            if self._missing:
                _log.warning("lines are written again", file=str(self._path), missing=self._missing)
                self._missing = 0

    def _take_back(self, done: int) -> None:
        """The file ends where it ended before, without the part of a line."""
        if done:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, os.fstat(self._file).st_size - done)

    def _lose(self, text: bytes, why: str) -> None:
        """Count it; told at the first of a row."""
        if not self._missing:
            sentence = "lines are left out until they can be written; recording goes on"
            _log.error(sentence, file=str(self._path), why=why)
        lines = text.count(b"\n")
        self._missing += lines
        self.lost += lines


def _opened(path: Path) -> int:
    """For appending; a line that an earlier process was killed in gets its end. Raises OSError."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            os.write(file, b"\n")
    except OSError:
        # A pipe or a terminal has no end to look at.
        pass
    return file
