"""ESI's doors on a real API server: custom resources written, tokens and rights asked for.

The shape that `api.esi.cluster.EsiCluster` asks for, composed by `app_esi`. Every failure is a ClusterError
with the API server's status. Must not repeat a write: whoever asked is told, and knows what to do.
"""

from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from fairlead.kube.client import MERGE_PATCH, ApiClient, segment
from fairlead.kube.errors import ApiError, KubeError
from fairlead.kube.paths import HOMES
from fairlead.kube.structs import Json
from fairlead.model.caller import Caller
from fairlead.model.esi import Ref
from fairlead.runtime.errors import ClusterError

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
UNANSWERED = 503


class _User(Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_encode = msgspec.json.encode
_object = msgspec.json.Decoder(Json).decode
_token = msgspec.json.Decoder(_TokenReview).decode
_access = msgspec.json.Decoder(_AccessReview).decode


async def _answer(request: Awaitable[bytes]) -> bytes:
    try:
        return await request
    except ApiError as error:
        raise ClusterError(str(error), error.status) from error
    except KubeError as error:
        raise ClusterError(str(error), UNANSWERED) from error


class KubeEsiCluster:
    """Its methods are told in `api.esi.cluster.EsiCluster`. The client is the caller's, to close too."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def get(self, kind: str, ref: Ref) -> Json:
        return _object(await _answer(self._client.get(_path(kind, ref))))

    async def create(self, kind: str, ref: Ref, manifest: Json) -> Json:
        path = HOMES[kind].of(ref.namespace)
        try:
            return _object(await _answer(self._client.post(path, _encode(manifest))))
        except ClusterError as error:
            if error.status != 404 or "namespaces " in str(error):
                raise
            text = f"the cluster does not know {kind} (kubectl apply -f deploy/crds): {error}"
            raise ClusterError(text, error.status) from error

    async def replace(self, kind: str, ref: Ref, manifest: Json) -> Json:
        return _object(await _answer(self._client.request("PUT", _path(kind, ref), _encode(manifest))))

    async def patch(self, kind: str, ref: Ref, changes: Json) -> Json:
        sent = self._client.patch(_path(kind, ref), _encode(changes), content=MERGE_PATCH)
        return _object(await _answer(sent))

    async def delete(self, kind: str, ref: Ref, version: str = "") -> None:
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if version:
            options["preconditions"] = {"resourceVersion": version}
        await _answer(self._client.delete(_path(kind, ref), _encode(options)))

    async def label_node(self, name: str, labels: Mapping[str, str | None]) -> None:
        body = _encode({"metadata": {"labels": dict(labels)}})
        await _answer(self._client.patch(f"/api/v1/nodes/{segment(name)}", body, content=MERGE_PATCH))

    async def token_review(self, token: str) -> Caller | None:
        review = _review("authentication.k8s.io/v1", "TokenReview", {"token": token})
        found = _token(await _answer(self._client.post(TOKEN_REVIEWS, review))).status
        if not found.authenticated:
            return None
        user = found.user
        extra = tuple((key, tuple(values)) for key, values in sorted(user.extra.items()))
        return Caller(user.username, user.uid, tuple(user.groups), extra)

    async def access_review(
        self, caller: Caller, verb: str, group: str, resource: str, namespace: str, name: str
    ) -> bool:
        spec: dict[str, Any] = {
            "user": caller.name,
            "uid": caller.uid,
            "groups": caller.groups,
            "extra": dict(caller.extra),
            "resourceAttributes": {
                "verb": verb,
                "group": group,
                "resource": resource,
                "namespace": namespace,
                "name": name,
            },
        }
        review = _review("authorization.k8s.io/v1", "SubjectAccessReview", spec)
        return _access(await _answer(self._client.post(ACCESS_REVIEWS, review))).status.allowed


def _path(kind: str, ref: Ref) -> str:
    if ref.name in (".", ".."):  # to some that pass requests on they mean the whole list, or more
        raise ClusterError(f"nothing is called {ref.name!r}", 404)
    return HOMES[kind].of(ref.namespace, ref.name)


def _review(version: str, kind: str, spec: Mapping[str, Any]) -> bytes:
    return _encode({"apiVersion": version, "kind": kind, "spec": spec})
