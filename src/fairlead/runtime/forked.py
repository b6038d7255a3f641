"""Bytes made by a copy of this process while this one goes on, as Redis does with BGSAVE.

Called by `runtime.segmenting` for checkpoints. `start` costs what a fork costs, some milliseconds; the child
sees everything as it was at that moment, works at low priority, answers through a pipe and ends. The child
must not touch the event loop, a connection, a lock or a signal: it closes all it has inherited but the pipe,
and leaves by `os._exit`, so that nobody's clean-up runs twice.
"""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Callable

_DONE = b"done"
_READ = 1 << 20


class ForkError(Exception):
    """The child did not give what was asked of it; the text says why."""


class Forked:
    """A child at work. `result` waits for it; `kill` ends it."""

    def __init__(self, pid: int, pipe: int) -> None:
        self._pid, self._pipe = pid, pipe

    async def result(self, patience: float) -> bytes:
        """What the child made. Raises ForkError if it fails or takes more than `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                body = await _read_all(self._pipe)
        except TimeoutError as error:
            self.kill()
            raise ForkError(f"not done after {patience:g} s") from error
        except BaseException:
            self.kill()
            raise
        self._close()
        status = self._reap()  # its pipe is closed, so it has ended or is about to
        if status or not body.endswith(_DONE):
            words = body.decode(errors="replace")[-200:] if status else "it was cut off"
            raise ForkError(words or f"ended with status {os.waitstatus_to_exitcode(status)}")
        return body[: -len(_DONE)]

    def kill(self) -> None:
        """End the child and forget it. May be called at any time, and twice."""
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._reap()
        self._close()

    def _reap(self) -> int:
        pid, self._pid = self._pid, 0
        return os.waitpid(pid, 0)[1]

    def _close(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def start(make: Callable[[], bytes]) -> Forked:
    """Let a copy of this process, as it is now, make the bytes. Raises OSError if there can be none."""
    inward, outward = os.pipe()
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if not pid:
            _be_the_child(make, outward)
    except OSError:
        os.close(inward)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        os.close(outward)
    os.set_blocking(inward, False)
    return Forked(pid, inward)


def _be_the_child(make: Callable[[], bytes], outward: int) -> None:
    """Never returns. All signals but SIGKILL stay blocked: they are the parent's."""
    status = 1
    try:
        gc.disable()
        gc.freeze()
        os.closerange(0, outward)
        os.closerange(outward + 1, os.sysconf("SC_OPEN_MAX"))
        os.nice(10)
        _write(outward, make() + _DONE)
        status = 0
    except BaseException as error:
        with contextlib.suppress(BaseException):
            _write(outward, f"{type(error).__name__}: {error}".encode())
    finally:
        os._exit(status)


def _write(pipe: int, body: bytes) -> None:
    left = memoryview(body)
    while left:
        left = left[os.write(pipe, left) :]


async def _read_all(pipe: int) -> bytes:
    """Until the other side closes it; only this task waits, not the loop."""
    loop, parts = asyncio.get_running_loop(), bytearray()
    news = asyncio.Event()
    loop.add_reader(pipe, news.set)
    try:
        while True:
            await news.wait()
            news.clear()
            with contextlib.suppress(BlockingIOError):
                part = os.read(pipe, _READ)
                if not part:
                    return bytes(parts)
                parts += part
    finally:
        loop.remove_reader(pipe)
