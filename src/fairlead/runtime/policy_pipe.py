"""What goes to a policy function's process and comes back, as bytes; and calling the function.

Used on both sides: `runtime.policies` asks, `runtime.policy_worker` answers; `sim.play` calls without a
process between. Frames are one letter, four bytes of length, the body. What a function returns is never
believed: it crosses as plain data and is read strictly.
"""

import struct
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
from msgspec import msgpack, structs

from fairlead.model.outside import Decision, Nodes, Reserve, Start, View, Wait

READY, VIEW, ANSWER, ERROR = b"R", b"V", b"A", b"E"
HEAD = struct.Struct(">cI")
MOST = 64 << 20
"""Bytes of one frame."""
PolicyFunction = Callable[[View], Iterable[object]]
"""As people write it; that these are decisions is found out."""
_NONE = Nodes((), (), (), np.zeros((0, 0), dtype=np.int64))
_ONE_LINE = 300


class AnswerError(Exception):
    """A function failed, or returned what is no answer; the text is one line."""


def frame(kind: bytes, body: bytes) -> bytes:
    """As it goes through the pipe."""
    return HEAD.pack(kind, len(body)) + body


# -- views -------------------------------------------------------------------------------------------


def pack(view: View, known: Nodes | None) -> bytes:
    """The view; without its nodes if the other side has them already."""
    if view.nodes is known:
        view = structs.replace(view, nodes=_NONE)
    return msgpack.encode(view, enc_hook=_from_array)


def unpack(body: bytes, known: Nodes | None) -> View:
    """The view again; `known` are the nodes of the one before."""
    view = _VIEWS.decode(body)
    return view if view.nodes.resources or known is None else structs.replace(view, nodes=known)


def _from_array(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    raise NotImplementedError


def _to_array(_: type, value: Any) -> Any:
    kind, shape, body = value
    return np.frombuffer(body, dtype=kind).reshape(shape)  # of bytes: nobody can change it


_VIEWS = msgpack.Decoder(View, dec_hook=_to_array)


# -- answers -----------------------------------------------------------------------------------------


def call(function: PolicyFunction, view: View) -> bytes:
    """What the function answers, as bytes. Raises AnswerError for all that it does wrong."""
    try:
        returned = function(view)
        decisions = list(returned)
    except Exception as error:
        raise AnswerError(said(error)) from error
    for decision in decisions:
        if not isinstance(decision, Start | Reserve | Wait):
            raise AnswerError(f"it returned {_shown(decision)} where a Start, Reserve or Wait belongs")
    try:
        return msgpack.encode(decisions, enc_hook=_plain)
    except Exception as error:
        raise AnswerError(f"what it returned cannot be read: {_shown(error)}") from error


def read(body: bytes) -> list[Decision]:
    """The answer. Raises AnswerError if a decision's fields are not what they should be."""
    try:
        return _ANSWERS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise AnswerError(f"what it returned cannot be read: {error}") from error


_ANSWERS = msgpack.Decoder(list[Decision])


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return cast("Any", value).tolist()
    raise NotImplementedError(f"a {type(value).__name__}")


def said(error: BaseException) -> str:
    """An exception in one line, with the place where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [each for each in frames if Path(each.filename).name != Path(__file__).name]
    where = f" ({Path(inner[-1].filename).name}:{inner[-1].lineno})" if inner else ""
    return f"{type(error).__name__}: {_shown(error)}{where}"


def _shown(value: object) -> str:
    try:
        text = str(value) if isinstance(value, BaseException) else repr(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return " ".join(text.split())[:_ONE_LINE]
