"""The process in which a policy function runs: `python -m fairlead.runtime.policy_worker NAME FOLDER`.

Started by `runtime.policies`; `load` is also used by `fairlead simulate`, which calls the function in its own
process. Reads views from stdin and writes answers to stdout; what the function prints goes to stderr, which
is the scheduler's log. Ends when stdin does, or with the process that started it. Must not know the engine.
"""

import contextlib
import ctypes
import importlib
import importlib.util
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, cast

from fairlead.model.outside import Nodes
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.policy_pipe import (
    ANSWER,
    ERROR,
    HEAD,
    READY,
    AnswerError,
    PolicyFunction,
    call,
    frame,
    said,
    unpack,
)

_PDEATHSIG = 1
_CHOICES = 8


def load(name: str, folder: str) -> PolicyFunction:
    """The function called `module:function` or `file.py:function`. Raises ConfigError: one line."""
    place, _, inner = name.rpartition(":")
    try:
        module = _from_file(place, folder) if place.endswith(".py") else _module(place, folder)
    except ConfigError as error:
        raise ConfigError(f"policy function {name}: {error}") from None
    except BaseException as error:  # whatever a module does while it is imported
        raise ConfigError(f"policy function {name}: importing it failed: {said(error)}") from error
    found = getattr(module, inner, None)
    if found is None:
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        known = f"; it has {', '.join(there[:_CHOICES])}" if there else ""
        raise ConfigError(f"policy function {name}: {place} has no function {inner}{known}")
    if not callable(found):
        raise ConfigError(f"policy function {name}: {inner} is a {type(found).__name__}, not a function")
    return cast("PolicyFunction", found)


def _module(place: str, folder: str) -> ModuleType:
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{place}.".startswith(f"{error.name}."):
            raise
        where = f"in {folder} or among" if folder else "among"
        raise ConfigError(f"there is no module {error.name} {where} what is installed") from None


def _from_file(place: str, folder: str) -> ModuleType:
    path = Path(folder, place)
    if not path.is_file():
        raise ConfigError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def main(name: str, folder: str, parent: int) -> int:
    """Answer until stdin ends."""
    die_with(parent)
    inward, outward = _pipes()
    try:
        function = load(name, folder)
    except ConfigError as error:
        _write(outward, frame(ERROR, str(error).encode()))
        return 1
    _write(outward, frame(READY, b""))
    nodes: Nodes | None = None
    while head := inward.read(HEAD.size):
        _, length = cast("tuple[bytes, int]", HEAD.unpack(head))
        view = unpack(inward.read(length), nodes)
        nodes = view.nodes
        try:
            answer = frame(ANSWER, call(function, view))
        except AnswerError as error:
            answer = frame(ERROR, str(error).encode())
        _write(outward, answer)
    return 0


def die_with(parent: int) -> None:
    """Be ended by the kernel if the parent is, however that comes about; without it, when stdin ends."""
    with contextlib.suppress(OSError, AttributeError):
        libc: Any = ctypes.CDLL(None)
        libc.prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)


def _pipes() -> tuple[BinaryIO, int]:
    """stdin and stdout for ourselves alone: the function finds an empty stdin, and prints to stderr."""
    inward, outward = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(inward, "rb"), outward


def _write(pipe: int, body: bytes) -> None:
    left = memoryview(body)
    while left:
        left = left[os.write(pipe, left) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
