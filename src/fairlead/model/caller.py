"""Who asks a door for something, as the cluster knows them.

Made by the ports' `EsiCluster` (a TokenReview), held against rights by `api.esi.access`.
"""

from msgspec import Struct


class Caller(Struct, frozen=True):
    """A user of the cluster. `extra` is handed on to access reviews as it came."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
