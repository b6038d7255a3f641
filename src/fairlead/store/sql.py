"""Loads the named statements of `queries.sql` and its kin, `queries_*.sql`.

Used by every module here that talks to a database; there is no SQL elsewhere but in `migrations/`.
Statements are bytes, which psycopg takes as they are; values are always bound, never put into the text.
"""

import re
from importlib.resources import files

_FILE = re.compile(r"^queries(_\w+)?\.sql$")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def parse(text: str) -> dict[str, bytes]:
    """`-- name: x` opens a statement, which goes on to the next such line."""
    parts = _NAME.split(text)
    names, bodies = parts[1::2], parts[2::2]
    if len(set(names)) != len(names):
        raise ValueError("a statement's name is used twice")
    return {name: body.strip().encode() for name, body in zip(names, bodies, strict=True)}


def _all() -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in files("fairlead.store").iterdir():
        if _FILE.match(entry.name):
            more = parse(entry.read_text("utf-8"))
            if not found.keys().isdisjoint(more):
                raise ValueError("a statement's name is used in two files")
            found |= more
    return found


SQL = _all()
