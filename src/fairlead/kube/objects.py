"""Creates, patches and deletes custom resources, applications and ghost pods.

Used by `kube.actuate`. What is certainly refused is answered by ObjectFailed; of all else the watch tells.
Overload and silence are tried again, with longer and longer pauses, until there is an answer, a newer command
takes the place, or the fence is down: each request may be carried out twice without harm, for creations meet
what is there already and the others name the uid. A status is replaced as a whole: a merge patch of a custom
resource's status would be done whatever uid it names. Must not be told of a refusal that is none: a conflict
means that the object is another one or has changed, and that is seen.
"""

import asyncio
import random
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from fairlead.kube.client import JSON_PATCH, MERGE_PATCH
from fairlead.kube.errors import ApiError, KubeError, Unreachable
from fairlead.kube.patches import metadata
from fairlead.kube.paths import HOMES
from fairlead.kube.structs import Json
from fairlead.kube.writer import Writer
from fairlead.model.command import CreateObject, DeleteObject, ObjectRef, PatchObject
from fairlead.model.event import ObjectFailed
from fairlead.wire import salvage
from fairlead.wire.pod import owner_of
from fairlead.wire.structs import ObjectMeta

log = structlog.get_logger("fairlead.kube")

Command = CreateObject | PatchObject | DeleteObject
Key = tuple[str, ...]
PAUSES = (0.1, 15.0)
"""Seconds between two tries: the first, and the longest."""
LOUD = 4
"""From so many tries on it is told in the log."""


class _Owned(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_json = msgspec.json.Decoder(Json).decode
_owned = msgspec.json.Decoder(_Owned).decode
_encode = msgspec.json.encode


_ANOTHER = ("metadata.uid", "the server rejected our request due to an error in our request")
"""How an API server says that the uid is another one: of a merge patch, of a JSON patch's tests."""


class _Again(KubeError):
    """Not now: what is in the way goes away by itself."""


def verb_of(command: Command) -> str:
    match command:
        case CreateObject():
            return "create"
        case PatchObject():
            return "patch"
        case DeleteObject():
            return "delete"


def key_of(command: Command) -> Key:
    """What a later command takes the place of: one for the same object and purpose."""
    match command:
        case CreateObject(kind, namespace, name):
            return "create", kind, namespace, name
        case PatchObject(ref, _, sub):
            return "patch", ref.uid, sub
        case DeleteObject(ref):
            return "delete", ref.uid


class ObjectWriter(Writer):
    """One request of a key at a time, and the latest of those that wait."""

    def __init__(self, *shared: Any, pauses: tuple[float, float] = PAUSES, **limits: Any) -> None:
        super().__init__(*shared, **limits)
        self._pauses = pauses
        self._waiting: dict[Key, Command] = {}
        self._busy: set[Key] = set()

    def add(self, command: Command) -> None:
        key = key_of(command)
        if key in self._waiting:
            self._count("object", "objects_superseded", "superseded")
        self._waiting[key] = command
        if key not in self._busy:
            self._busy.add(key)
            self._crew.begin(self._work(key))

    async def close(self, patience: float = 2.0) -> None:
        self._waiting.clear()
        await super().close(patience)

    async def _work(self, key: Key) -> None:
        tries = 0
        try:
            while (command := self._waiting.pop(key, None)) is not None:
                outcome = await self._once(command, tries)
                self._count("object", f"objects_{outcome}", outcome)
                tries = tries + 1 if outcome == "again" else 0
                if tries:
                    self._waiting.setdefault(key, command)  # a newer one goes before
                    low, high = self._pauses
                    await asyncio.sleep(min(high, low * 2.0 ** min(tries, 10)) * random.uniform(0.8, 1.2))
        finally:
            self._busy.discard(key)

    async def _once(self, command: Command, tries: int) -> str:
        async with self._room:
            allowed = min(self._request_timeout, self._fence())
            if not allowed:
                return "fenced"
            try:
                await self._send(command, allowed)
                return "written"
            except ApiError as error:
                if not error.transient and error.status != 401:
                    return self._refused(command, error)
                text = str(error)
            except (Unreachable, _Again) as error:
                text = str(error)
        if tries >= LOUD:
            log.warning("a write is not done yet; trying again", what=verb_of(command), error=text)
        return "again"

    async def _send(self, command: Command, timeout: float) -> None:
        match command:
            case CreateObject():
                await self._create(command, timeout)
            case PatchObject(ref, body, sub):
                path = HOMES[ref.kind].of(ref.namespace, ref.name)
                if sub:
                    content, changes = JSON_PATCH, _replacement(_json(body)[sub], ref, sub)
                    path += f"/{sub}"
                else:
                    content, changes = MERGE_PATCH, _merge(_json(body), ref)
                await self._client.patch(path, changes, content=content, timeout=timeout)
            case DeleteObject(ref, grace):
                options: Json = {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": {"uid": ref.uid},
                    "propagationPolicy": "Background",
                }
                if grace is not None:
                    options["gracePeriodSeconds"] = grace
                path = HOMES[ref.kind].of(ref.namespace, ref.name)
                await self._client.delete(path, _encode(options), timeout=timeout)

    async def _create(self, command: CreateObject, timeout: float) -> None:
        """That it is there already is fine, if it is what we, or an earlier process of ours, have made."""
        home = HOMES[command.kind]
        body = command.body.encode()
        try:
            await self._client.post(home.of(command.namespace), body, timeout=timeout)
        except ApiError as error:
            if error.status != 409 or error.reason not in ("AlreadyExists", ""):
                raise
            there = await self._there(command, timeout)
            if there.deletion_timestamp is not None:
                raise _Again(f"{command.kind} {command.name} of before is still being deleted") from error
            if owner_of(there) != owner_of(_owned(body).metadata):
                raise ApiError(
                    f"there is a {command.kind} {command.namespace}/{command.name} already, which was not"
                    " made from this object: delete or rename one of them",
                    status=409,
                    reason="AlreadyExists",
                ) from error

    async def _there(self, command: CreateObject, timeout: float) -> ObjectMeta:
        path = HOMES[command.kind].of(command.namespace, command.name)
        try:
            return _owned(await self._client.get(path, timeout=timeout)).metadata
        except ApiError as error:
            if error.status == 404:
                raise _Again(f"{command.kind} {command.name} went away just now") from error
            raise

    def _refused(self, command: Command, error: ApiError) -> str:
        """An answer for good: harmless, or a failure that somebody has to know of."""
        if harmless := _harmless(command, error):
            return harmless
        verb, (kind, namespace, name) = verb_of(command), _named(command)
        text = _words(kind, error)
        log.warning("a write was refused", what=verb, kind=kind, object=f"{namespace}/{name}", error=text)
        self._outcomes.add(ObjectFailed(verb, kind, namespace, name, error.status, text))
        return "refused"


def _harmless(command: Command, error: ApiError) -> str:
    """How an answer is counted that is no refusal; "" if it is one."""
    create = isinstance(command, CreateObject)
    if not create and error.status == 404:
        return "gone"
    if error.status == 422 and any(words in str(error) for words in _ANOTHER):
        return "gone"
    if error.status != 409 or (create and error.reason == "AlreadyExists"):
        return ""
    match command:
        case DeleteObject():
            return "gone"
        case PatchObject(ref) if ref.version or "UID" in str(error):
            return "dropped"
        case _:
            return "again"


def _named(command: Command) -> tuple[str, str, str]:
    if isinstance(command, CreateObject):
        return command.kind, command.namespace, command.name
    return command.ref.kind, command.ref.namespace, command.ref.name


def _merge(changes: Json, ref: ObjectRef) -> bytes:
    return _encode(changes | {"metadata": salvage.part(changes, "metadata") | metadata(ref)})


def _replacement(value: Json, ref: ObjectRef, sub: str) -> bytes:
    """A JSON patch that is done to this very object or not at all. What is null is left out."""
    tests = [
        {"op": "test", "path": f"/metadata/{key}", "value": known} for key, known in metadata(ref).items()
    ]
    whole = {key: each for key, each in value.items() if each is not None}
    return _encode([*tests, {"op": "add", "path": f"/{sub}", "value": whole}])


def _words(kind: str, error: ApiError) -> str:
    """One sentence for the owner of the object. 404 of a creation: its kind or its namespace is missing."""
    text = str(error)
    if error.status == 404 and "namespaces" not in text.partition(": ")[2]:
        return (
            f"the cluster does not know {kind} ({HOMES[kind].version}): install the operator that brings it"
        )
    if error.status == 403 and "quota" in text:
        return text.removesuffix(". Grant the missing verb by RBAC (a ClusterRole bound to this account)")
    return text
