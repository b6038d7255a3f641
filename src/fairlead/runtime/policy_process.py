"""One process with one policy function in it, as the scheduler holds it: started, asked, ended.

Used by `runtime.policies`. Started anew and not copied: nothing of the scheduler's (connections, locks,
threads) is in it, and it has a session of its own, so that what it starts ends with it. Must never wait
longer than it is told to, whatever the function does.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine, Sequence

from fairlead.model.outside import Decision, Nodes, View
from fairlead.model.settings import PolicyFunction
from fairlead.runtime import policy_pipe
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.policy_pipe import ANSWER, ERROR, HEAD, MOST, READY, VIEW, AnswerError

LOADING = 30.0
"""Seconds until a module has been imported."""
_MOMENT = 1.0


class PolicyError(Exception):
    """No answer; `kind` is failed (it raised, or answered rubbish), late or crashed."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def _command(function: PolicyFunction) -> Sequence[str]:
    """Without the working folder among the places of modules: what is imported must not depend on it."""
    worker = "fairlead.runtime.policy_worker"
    return (sys.executable, "-P", "-m", worker, function.name, function.path, str(os.getpid()))


def check(function: PolicyFunction) -> None:
    """Whether it can be imported, found out in a process of its own. Raises ConfigError: one line."""
    try:
        with subprocess.Popen(
            _command(function), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        ) as process:
            try:
                told, _ = process.communicate(timeout=LOADING)
            finally:
                _kill(process.pid)
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"policy function {function.name}: importing it takes more than {LOADING:g} s"
        ) from None
    if told[:1] == ERROR:
        raise ConfigError(told[HEAD.size :].decode(errors="replace"))
    if told[:1] != READY:
        raise ConfigError(
            f"policy function {function.name}: importing it ended the process ({ended(process.returncode)})"
        )


def ended(code: int | None) -> str:
    """How a process ended, in words."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"


class PolicyProcess:
    """The process. One question at a time."""

    def __init__(self, function: PolicyFunction) -> None:
        self.function = function
        self._process: asyncio.subprocess.Process | None = None
        self._nodes: Nodes | None = None

    @property
    def pid(self) -> int:
        """Its number; 0 where there is none."""
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        """Returns when the function can be asked. Raises PolicyError."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *_command(self.function),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise PolicyError("crashed", f"its process cannot be started: {error.strerror}") from error
        kind, body = await self._within(LOADING, self._read(), f"not imported after {LOADING:g} s")
        if kind != READY:
            raise PolicyError("failed", body.decode(errors="replace"))

    async def ask(self, view: View) -> list[Decision]:
        """What it answers within its time. Raises PolicyError; after all but failed, stop it."""
        limit = self.function.limit
        late = f"no answer within its time limit of {limit} ms"
        kind, body = await self._within(limit / 1000, self._exchange(view), late)
        if kind == ERROR:
            raise PolicyError("failed", body.decode(errors="replace"))
        if kind != ANSWER:
            raise PolicyError("crashed", "what came from its process is no answer")
        try:
            return policy_pipe.read(body)
        except AnswerError as error:
            raise PolicyError("failed", str(error)) from error

    async def stop(self) -> None:
        """End it and all that it has started. May be called at any time, and twice."""
        process, self._process = self._process, None
        if process is not None:
            _kill(process.pid)
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()

    # -- inside --------------------------------------------------------------------------------------

    async def _exchange(self, view: View) -> tuple[bytes, bytes]:
        process = self._process
        if process is None or process.stdin is None:
            raise PolicyError("crashed", "its process has ended")
        body = policy_pipe.pack(view, self._nodes)
        self._nodes = view.nodes
        process.stdin.write(policy_pipe.frame(VIEW, body))
        await process.stdin.drain()
        return await self._read()

    async def _read(self) -> tuple[bytes, bytes]:
        process = self._process
        if process is None or process.stdout is None:
            raise PolicyError("crashed", "its process has ended")
        kind, length = HEAD.unpack(await process.stdout.readexactly(HEAD.size))
        if length > MOST:
            raise PolicyError("crashed", f"its answer has {length:,} bytes")
        return kind, await process.stdout.readexactly(length)

    async def _within(
        self, seconds: float, work: Coroutine[None, None, tuple[bytes, bytes]], late: str
    ) -> tuple[bytes, bytes]:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError:
            raise PolicyError("late", late) from None
        except (asyncio.IncompleteReadError, OSError):
            raise PolicyError("crashed", f"its process ended {await self._ending()}") from None

    async def _ending(self) -> str:
        """How it ended; it may have closed its end of the pipe and live on."""
        if self._process is None:
            return "before"
        try:
            async with asyncio.timeout(_MOMENT):
                return ended(await self._process.wait())
        except TimeoutError:
            return "the conversation"


def _kill(pid: int) -> None:
    """Its whole session: it is the leader, so the group has its number until the last of them is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
