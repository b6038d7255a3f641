"""ETags of ESI's REST interface: an object's version and a digest of what is shown of it.

Used by `api.esi.rest`. A read is told by the whole tag whether anything is new, for a status may be ahead of
the version; a write is held by the version alone, which is what the cluster compares. Pure.
"""

import hashlib

from starlette.exceptions import HTTPException
from starlette.requests import Request

ANY = "*"


def of_one(version: int, body: bytes) -> str:
    return f'"{version}.{_digest(body)}"'


def of_list(body: bytes) -> str:
    return f'"{_digest(body)}"'


def same(request: Request, tag: str) -> bool:
    """Whether the client has this already: If-None-Match of a read."""
    given = _tags(request.headers.get("if-none-match", ""))
    return ANY in given or tag.strip('"') in given


def must_be_new(request: Request) -> bool:
    """Whether a write may only create: If-None-Match: *."""
    return ANY in _tags(request.headers.get("if-none-match", ""))


def hold(request: Request, version: str | None, what: str) -> str:
    """The version that a write has to replace; "" if any. `version` is the present one, None if there is no
    such object. HTTPException 412 if the client has seen another."""
    header = request.headers.get("if-match", "")
    if not header:
        return ""
    given = _tags(header)
    if version is None:
        raise HTTPException(412, f"{what} does not exist (any more), and If-Match asks for one")
    if ANY not in given and version not in {tag.partition(".")[0] for tag in given}:
        raise HTTPException(412, f"{what} has changed since it was read: it is at version {version}")
    return version


def _tags(header: str) -> set[str]:
    return {each.strip().removeprefix("W/").strip('"') for each in header.split(",") if each.strip()}


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=8).hexdigest()
