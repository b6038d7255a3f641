"""Loads the named statements of `queries.sql`.

Used by every module here that talks to a database; there is no SQL elsewhere but in `migrations/`.
Statements are bytes, which psycopg takes as they are; values are always bound, never put into the text.
"""

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def parse(text: str) -> dict[str, bytes]:
    """`-- name: x` opens a statement, which goes on to the next such line."""
    parts = _NAME.split(text)
    names, bodies = parts[1::2], parts[2::2]
    if len(set(names)) != len(names):
        raise ValueError("a statement's name is used twice")
    return {name: body.strip().encode() for name, body in zip(names, bodies, strict=True)}


SQL = parse((files("fairlead.store") / "queries.sql").read_text("utf-8"))
