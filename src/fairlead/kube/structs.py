"""What the API server wraps objects in: lists, watch lines and its answers.

Decoded by `kube.watch` and `kube.client`. Must not hold behaviour. The objects themselves are in
`wire.structs`.
"""

from typing import Any

from msgspec import Raw, Struct


class WatchEvent(Struct, frozen=True):
    """The envelope of one watch line; the object is decoded by kind, and only when it is needed."""

    type: str
    object: Raw = Raw(b"{}")


class Status(Struct, frozen=True, rename="camel"):
    """What the API server answers on failure (and on a successful bind or delete)."""

    message: str = ""
    reason: str = ""
    code: int = 0


class ListMeta(Struct, frozen=True, rename={"resource_version": "resourceVersion", "token": "continue"}):
    resource_version: str = "0"
    token: str = ""


class ObjectList(Struct, frozen=True):
    metadata: ListMeta
    items: list[Raw] = []


Json = dict[str, Any]
