"""STOMP 1.1 and 1.2 frames: text to frame and back.

Pure; used by `api.esi.stomp` and by tests. A frame is a command, header lines, an empty line, a body and a
NUL. Only what a broker without transactions needs is here.
"""

from msgspec import Struct

LARGEST = 64 << 10
"""Characters of a frame from a client: they send no bodies that count."""
_ESCAPES = {"\\n": "\n", "\\r": "\r", "\\c": ":", "\\\\": "\\"}
_UNESCAPED = ("CONNECT", "CONNECTED")


class FrameError(ValueError):
    """What came is no frame; the text says why."""


class Frame(Struct, frozen=True):
    command: str
    headers: dict[str, str] = {}
    body: str = ""


def read(text: str) -> Frame | None:
    """A frame; None for a heart-beat (nothing but ends of lines). Raises FrameError."""
    if len(text) > LARGEST:
        raise FrameError(f"a frame is longer than {LARGEST} characters")
    text = text.lstrip("\r\n")
    if not text:
        return None
    head, gap, rest = text.replace("\r\n", "\n").partition("\n\n")
    body, end, _ = rest.partition("\0")
    if not gap or not end:
        raise FrameError("a frame has an empty line after its headers, and a NUL at its end")
    command, *lines = head.split("\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise FrameError(f"{line[:80]!r} is no header")
        if command not in _UNESCAPED:
            name, value = _plain(name), _plain(value)
        headers.setdefault(name, value)  # the first of a name counts
    return Frame(command, headers, body)


def write(frame: Frame) -> str:
    escape = frame.command not in _UNESCAPED
    lines = [
        f"{_escaped(name)}:{_escaped(value)}" if escape else f"{name}:{value}"
        for name, value in frame.headers.items()
    ]
    return "\n".join([frame.command, *lines]) + f"\n\n{frame.body}\0"


def beats(header: str) -> tuple[int, int]:
    """The two numbers of a heart-beat header, in milliseconds. Raises FrameError."""
    first, comma, second = header.partition(",")
    if not (comma and first.strip().isdecimal() and second.strip().isdecimal() and len(header) < 24):
        raise FrameError(f"heart-beat {header[:40]!r} is no pair of milliseconds")
    return int(first), int(second)


def _plain(text: str) -> str:
    if "\\" not in text:
        return text
    found, i = "", 0
    while i < len(text):
        pair = text[i : i + 2]
        if text[i] != "\\":
            found, i = found + text[i], i + 1
        elif pair in _ESCAPES:
            found, i = found + _ESCAPES[pair], i + 2
        else:
            raise FrameError(f"{pair!r} is no escape")
    return found


def _escaped(text: str) -> str:
    for escape, plain in (("\\\\", "\\"), ("\\n", "\n"), ("\\r", "\r"), ("\\c", ":")):
        text = text.replace(plain, escape)
    return text
