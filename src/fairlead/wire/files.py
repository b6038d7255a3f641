"""Files that people name: their text whatever they are packed in, and the objects in YAML and JSON.

Called by `wire.nodefile` and by the simulator's readers. Must not talk to a server. All it raises for a
file's fault is FileError, one line that names the file and the place.
"""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

Fields = dict[str, Any]

PACKED = (".gz", ".xz")

# libyaml where PyYAML was built with it: 5,000 manifests take seconds, not a minute.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FileError(Exception):
    """A file that cannot be used: `FILE: what is wrong` or `FILE:LINE: what is wrong`, and what to do."""


def ending(path: Path) -> str:
    """What a file is, by its name: ".csv" for x.csv and for x.csv.xz; "" without an ending."""
    names = [suffix.lower() for suffix in path.suffixes]
    while names and names[-1] in PACKED:
        names.pop()
    return names[-1] if names else ""


def text(path: Path) -> str:
    """The text of a file, unpacked if its name ends in .gz or .xz; raises FileError."""
    packed = path.suffix.lower()
    try:
        data = path.read_bytes()
        if packed == ".xz":
            data = lzma.decompress(data)
        elif packed == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except gzip.BadGzipFile:
        raise FileError(f"{path}: not a whole .gz file; fetch it again") from None
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from None
    except (lzma.LZMAError, EOFError, zlib.error):
        raise FileError(f"{path}: not a whole {packed} file; fetch it again") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise FileError(f"{path}:{line}: not UTF-8 text; convert it, for example with iconv") from None


def objects(path: Path, content: str) -> Iterator[tuple[str, Fields]]:
    """Every object of a YAML or JSON text, lists taken apart, with its place ("document 2, item 1")."""
    for number, document in enumerate(_documents(path, content), 1):
        if document is not None:
            yield from _taken_apart(path, f"document {number}", document)


def _documents(path: Path, content: str) -> list[object]:
    if ending(path) == ".json":
        try:
            return [msgspec.json.decode(content)]
        except (msgspec.MsgspecError, RecursionError):
            pass  # YAML's reader takes what people write as JSON, too, and tells the line
    try:
        return list(yaml.load_all(content, Loader=_LOADER))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark: Any = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else f"{path}"
        problem = " ".join(str(error).split())
        raise FileError(f"{place}: not YAML or JSON: {problem}") from None


def _taken_apart(path: Path, where: str, document: object) -> Iterator[tuple[str, Fields]]:
    """A document is an object, a List of them, or a plain sequence of them."""
    if isinstance(document, dict):
        fields = cast("Fields", document)
        kind = fields.get("kind")
        if not (isinstance(kind, str) and kind.endswith("List") and "items" in fields):
            yield where, fields
            return
        items: object = fields["items"] or []
    else:
        items = document
    if not isinstance(items, list):
        raise FileError(f"{path}: {where}: not a manifest but {items!r:.60}")
    for number, item in enumerate(cast("list[object]", items), 1):
        yield from _taken_apart(path, f"{where}, item {number}", item)


def plain(value: object) -> object:
    """A YAML value as JSON has it: times as text, numbers with a point as quantities, no nulls."""
    if isinstance(value, dict):
        return {
            key: plain(each) for key, each in cast("dict[object, object]", value).items() if each is not None
        }
    if isinstance(value, list):
        return [plain(each) for each in cast("list[object]", value)]
    if isinstance(value, datetime):
        return value.isoformat() + ("" if value.tzinfo else "Z")
    if isinstance(value, date):
        return value.isoformat()
    return str(value) if isinstance(value, float) else value
