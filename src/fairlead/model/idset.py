"""Flux's short notations: sets of numbers ("0-3,7") and lists of hosts ("node[0-3,7]"), both ways.

Called by `wire` and `core.tree`. Every error is a ValueError whose text names the piece that is wrong.
"""

import re
from collections.abc import Iterable, Sequence

MOST = 1 << 22
"""How many numbers or hosts a text may stand for."""
_RANGE = re.compile(r"([0-9]{1,14})(?:-([0-9]{1,14}))?")
_HOSTS = re.compile(r"([^\[\],]*)(?:\[([^\[\]]*)\])?([^\[\],]*)")
_TAIL = re.compile(r"(.*?)(\d+)")


def idset(text: str) -> list[int]:
    """The numbers of "0-3,7" or "[0-3,7]", in order."""
    body = text.strip()
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1]
    found: list[int] = []
    for piece in filter(None, body.split(",")):
        found.extend(int(number) for number in _numbers(piece, text))
        _bounded(found, text)
    return sorted(set(found))


def idset_text(numbers: Iterable[int]) -> str:
    """The shortest notation of a set of numbers."""
    return ",".join(_runs([str(number) for number in sorted(set(numbers))]))


def hostlist(text: str) -> list[str]:
    """The hosts of "node[0-3,07],login1", in the order given."""
    found: list[str] = []
    for piece in _pieces(text):
        match = _HOSTS.fullmatch(piece)
        if match is None or not piece.isprintable():
            raise ValueError(f"{text!r:.60} is not a list of hosts such as node[0-3,7]")
        if match[2] is None:
            found.append(piece)
            continue
        for part in filter(None, match[2].split(",")):
            found.extend(f"{match[1]}{number}{match[3]}" for number in _numbers(part, text))
            _bounded(found, text)
    return found


def hostlist_text(names: Sequence[str]) -> str:
    """The shortest notation of these hosts that keeps their order."""
    pieces: list[str] = []
    prefix, tails = "", list[str]()
    for name in [*names, ""]:
        match = _TAIL.fullmatch(name)
        if match is not None and tails and match[1] == prefix:
            tails.append(match[2])
            continue
        if tails:
            runs = ",".join(_runs(tails))
            pieces.append(f"{prefix}[{runs}]" if len(tails) > 1 else f"{prefix}{runs}")
        prefix, tails = (match[1], [match[2]]) if match else ("", [])
        if match is None and name:
            pieces.append(name)
    return ",".join(pieces)


def _bounded(found: Sequence[object], text: str) -> None:
    if len(found) > MOST:
        raise ValueError(f"{text!r:.60} stands for more than {MOST}")


def _pieces(text: str) -> list[str]:
    """Split at commas outside brackets."""
    pieces, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece for piece in pieces if piece]


def _numbers(piece: str, whole: str) -> list[str]:
    """The numbers of "3" or "0-3", with the zeros that lead them."""
    match = _RANGE.fullmatch(piece.strip())
    if match is None:
        raise ValueError(f"{whole!r:.60} is not a set of numbers such as 0-3,7")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first or last - first >= MOST:
        raise ValueError(f"{whole!r:.60}: {piece:.40} is not a range")
    width = len(match[1])
    return [str(number).zfill(width) for number in range(first, last + 1)]


def _runs(numbers: Sequence[str]) -> list[str]:
    """Neighbours that follow each other as one piece; only numbers written equally wide make a run."""
    runs: list[list[str]] = []
    for number in numbers:
        last = runs[-1][-1] if runs else ""
        if last and int(number) == int(last) + 1 and str(int(last) + 1).zfill(len(last)) == number:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
