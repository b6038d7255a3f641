"""Who may do what at ESI's doors: a bearer token is the cluster's, and so are the rights behind it.

Asked by all of ESI's doors through `api.esi.desk`. A TokenReview tells who it is, a SubjectAccessReview
whether RBAC lets them do that in that namespace; both answers hold for a few seconds. It must not let
anybody in whom the cluster does not know, also when the cluster does not answer.
"""

import hashlib
import time
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

from starlette.exceptions import HTTPException

from fairlead.api.esi.cluster import EsiCluster
from fairlead.model.caller import Caller
from fairlead.model.esi import GROUP
from fairlead.runtime.errors import ClusterError

SECONDS = 5.0
"""How long an answer of the cluster holds."""
MOST = 2_000
"""Answers that are kept; beyond, the oldest go."""
_V = TypeVar("_V")


class Right(NamedTuple):
    """`namespace` "" is all of them, `name` "" any."""

    verb: str
    resource: str
    namespace: str
    name: str = ""
    group: str = GROUP

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f"in the namespace {self.namespace}" if self.namespace else "in all namespaces"
        return f"{self.verb} {what} {where}"


class Access(Protocol):
    async def check(self, authorization: str, right: Right) -> None:
        """Returns if the bearer of this header may. HTTPException: 401 for no or a wrong token, 403 for one
        without the right, 503 where the cluster does not answer."""
        ...


class Unguarded:
    """Everybody may do everything: on loopback only, see `app_esi`."""

    async def check(self, authorization: str, right: Right) -> None:
        """Lets all in."""


class Guarded:
    """Rights as the cluster has them. `clock` is in seconds."""

    def __init__(self, cluster: EsiCluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._callers = _Cache[Caller | None](clock)
        self._rights = _Cache[bool](clock)

    async def check(self, authorization: str, right: Right) -> None:
        scheme, _, token = authorization.strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise _stranger("a token is needed: Authorization: Bearer TOKEN (kubectl create token ACCOUNT)")
        try:
            caller = await self._who(token)
            if caller is None:
                raise _stranger("the cluster does not accept this token: it is wrong, expired or revoked")
            if not await self._may(caller, right):
                raise HTTPException(403, f"{caller.name} may not {right}: grant the verb by RBAC")
        except ClusterError as error:
            raise HTTPException(503, f"the cluster cannot be asked who may do this: {error}") from error

    async def _who(self, token: str) -> Caller | None:
        key = hashlib.sha256(token.encode()).digest()
        if (known := self._callers.get(key)) is not None:
            return known.value
        return self._callers.put(key, await self._cluster.token_review(token))

    async def _may(self, caller: Caller, right: Right) -> bool:
        if (known := self._rights.get((caller, right))) is not None:
            return known.value
        verb, resource, namespace, name, group = right
        found = await self._cluster.access_review(caller, verb, group, resource, namespace, name)
        return self._rights.put((caller, right), found)


class _Kept(NamedTuple, Generic[_V]):
    value: _V
    until: float


class _Cache(Generic[_V]):
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[Hashable, _Kept[_V]] = {}

    def get(self, key: Hashable) -> _Kept[_V] | None:
        found = self._kept.get(key)
        return found if found is not None and found.until > self._clock() else None

    def put(self, key: Hashable, value: _V) -> _V:
        self._kept.pop(key, None)
        self._kept[key] = _Kept(value, self._clock() + SECONDS)
        while len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]
        return value


def _stranger(text: str) -> HTTPException:
    return HTTPException(401, text, {"WWW-Authenticate": 'Bearer realm="fairlead"'})
