"""YAML files of users as plain values, with the line of every one of them, and as structs.

Called by `runtime.config`. Stricter than YAML: a key may stand once, numbers are decimal, and what is
neither number, true, false nor null is a text (no dates, no `1:30`). Must not know what a file means.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import yaml
from msgspec import Struct

from fairlead.runtime.errors import ConfigError

T = TypeVar("T", bound=Struct)
DEEPEST = 20
MOST_VALUES = 100_000
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `(.*?)`")
_WORDS = {
    "int": "a whole number",
    "str": "a text (put it into quotes if it is meant as one)",
    "int | str": "a whole number or a text",
    "array": "a list",
    "object": "keys with values",
    "bool": "true or false",
}


class YamlFile:
    """One file: its plain value, and where each part of it stands. Paths look like `queues[0].policy`."""

    def __init__(self, path: Path) -> None:
        """Read it. Raises ConfigError for people."""
        self.path = path
        self._lines: dict[str, int] = {}
        root = _root(path)
        self.value: Any = {} if root is None else self._plain(root, "", 0)

    def wrong(self, path: str, what: str) -> ConfigError:
        """The error that says what is wrong at this place."""
        line = self._lines.get(path, 1)
        return ConfigError(f"{self.path}:{line}: {f'{path}: ' if path else ''}{what}")

    def convert(self, kind: type[T], kinds: Mapping[str, type[Struct]]) -> T:
        """The value as a struct. `kinds` has the struct of each path (without numbers), for its keys."""
        try:
            return msgspec.convert(self.value, kind)
        except msgspec.ValidationError as error:
            found = _AT.match(str(error))
            assert found is not None  # the expression takes every text
            raise self._explained(found["what"], (found["path"] or "").lstrip("."), kinds) from None

    # -- inside --------------------------------------------------------------------------------------

    def _plain(self, node: yaml.Node, path: str, depth: int) -> Any:
        self._lines.setdefault(path, node.start_mark.line + 1)
        if depth > DEEPEST:
            raise self.wrong(path, f"more than {DEEPEST} levels deep")
        if len(self._lines) > MOST_VALUES:
            raise self.wrong(path, f"more than {MOST_VALUES} values (aliases multiply them)")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(each, f"{path}[{i}]", depth + 1) for i, each in enumerate(node.value)]
        return _scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for key, each in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise self.wrong(path, "a key is not a text")
            inner = f"{path}.{key.value}" if path else key.value
            if key.value in value:
                first = self._lines[inner]
                self._lines[inner] = key.start_mark.line + 1
                raise self.wrong(inner, f"stands twice (first in line {first}); keep one of them")
            self._lines[inner] = key.start_mark.line + 1
            value[key.value] = self._plain(each, inner, depth + 1)
        return value

    def _explained(self, what: str, path: str, kinds: Mapping[str, type[Struct]]) -> ConfigError:
        """What msgspec complains of, in words, with the value and the keys that there are."""
        kind = kinds.get(re.sub(r"\[\d+\]", "", path))
        if found := _UNKNOWN.fullmatch(what):
            known = [field.encode_name for field in msgspec.structs.fields(kind)] if kind else []
            inner = f"{path}.{found[1]}" if path else found[1]
            return self.wrong(inner, f"unknown key {shown(found[1])}; known here: {', '.join(known)}")
        if found := _MISSING.fullmatch(what):
            return self.wrong(path, f"the key {found[1]!r} is missing")
        expected = _EXPECTED.match(what)
        needed = _WORDS.get(expected[1], expected[1]) if expected else what
        return self.wrong(path, f"is {shown(self.at(path))}, but must be {needed}")

    def at(self, path: str) -> Any:
        """The plain value at a path that exists."""
        value = self.value
        for number, key in re.findall(r"\[(\d+)\]|([^.\[\]]+)", path):
            value = value[int(number)] if number else value[key]
        return value


def shown(value: Any) -> str:
    """A value of a file as it may stand in a message."""
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"{value[:57]!r}…"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "keys with values"
    return "empty" if value is None else str(value).lower()


def _root(path: Path) -> yaml.Node | None:
    """The one document of the file."""
    try:
        return cast(yaml.Node | None, yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}; name a file that can be read") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text in UTF-8 (byte {error.start + 1})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: not YAML: {str(error).splitlines()[0]}") from error


def _scalar(node: yaml.Node) -> Any:
    text: str = node.value
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() in ("true", "yes", "on")
    if kind == "int" and _DECIMAL.fullmatch(text):
        return int(text)
    return text
