"""What we want done: the Command union. The only way anything leaves the engine.

Made by `core.engine` and the reconcilers in `control`; performed by ports, whose outcomes come back
as events. A command may be performed twice (after a crash) without harm.
"""

from typing import Any

from msgspec import Struct

from fairlead.model.group import GroupRecord, Why
from fairlead.model.plan import Grant, Plan, Reserve


class ObjectRef(Struct, frozen=True, gc=False, omit_defaults=True):
    """A Kubernetes object that an Event is about, or that is changed."""

    kind: str
    namespace: str
    name: str
    uid: str
    version: int = 0


class Propose(Struct, frozen=True, tag="propose"):
    """Make a plan from the snapshot (`core.snapshot.Snapshot`). Answered by PlanProposed."""

    version: int
    snapshot: Any


class RecordAllocations(Struct, frozen=True, gc=False, tag="record"):
    """Make the grants and reservations of one plan durable, in one transaction fenced by `epoch`.

    `groups` are the records of the groups concerned, written in the same transaction. `reservations`
    replaces all stored ones. Answered by AllocationsRecorded or AllocationsRefused, however long it takes.
    """

    plan: str
    epoch: int
    at: int
    grants: tuple[Grant, ...]
    reservations: tuple[Reserve, ...] = ()
    groups: tuple[GroupRecord, ...] = ()


class SaveGroups(Struct, frozen=True, gc=False, tag="save"):
    """Write these records behind, whole; a later record of the same id replaces an earlier one."""

    groups: tuple[GroupRecord, ...]


class SettleGrants(Struct, frozen=True, gc=False, tag="settle"):
    """These grants are resolved: every placement was seen bound, or was given up. Written behind."""

    grants: tuple[str, ...]


class Bind(Struct, frozen=True, gc=False, tag="bind", omit_defaults=True):
    """Bind one pod; `version` is the resourceVersion that it was last seen with."""

    grant: str
    pod: str
    namespace: str
    name: str
    node: str
    version: int
    scheduler: str = "fairlead"
    labels: tuple[tuple[str, str], ...] = ()
    """Labels and annotations that the binding puts on the pod: they cost no request of their own."""
    annotations: tuple[tuple[str, str], ...] = ()


REVOKED = "fairlead.dev/revoked"
"""The annotation of a pod that names the grant by which it must not be bound any more."""


class Revoke(Struct, frozen=True, gc=False, tag="revoke"):
    """Make sure that a binding by this grant that may still be on its way fails: annotate the pod.

    Any change of the pod does that, for a binding carries the version that it was decided on. The watch shows
    when it is done; asked again until then.
    """

    pod: ObjectRef
    grant: str


class BindClaim(Struct, frozen=True, gc=False, tag="bind_claim"):
    """Let a claim of a pod that is granted `node` be bound, over exactly the versions given.

    The volume is marked as meant for the claim; without one the claim is marked with the node, and its
    provisioner makes one there. Answered only where it can never succeed, by BindFailed for the pod: else the
    watch shows what comes of it.
    """

    grant: str
    pod: str
    node: str
    claim: ObjectRef
    volume: ObjectRef | None = None
    by_controller: bool = True
    """Whether the volume is to be free again once the claim is gone: not if a user had reserved it."""


class Evict(Struct, frozen=True, gc=False, tag="evict"):
    """Mark the pod DisruptionTarget, then delete it by uid; grace 0 only when no container started."""

    pod: ObjectRef
    text: str
    grace: int | None = None


class End(Struct, frozen=True, gc=False, tag="end", omit_defaults=True):
    """End a group whose walltime is over or that has failed (`why`): each object by its uid, pods with the
    grace that they ask for.

    Jobs in `fail` are failed and kept; owners in `delete` go with all they own, if they are still of the
    version given. What is gone already, or goes, is left alone.
    """

    group: str
    text: str
    fail: tuple[ObjectRef, ...] = ()
    delete: tuple[ObjectRef, ...] = ()
    pods: tuple[ObjectRef, ...] = ()
    why: Why = Why.TIMEOUT


class PatchCondition(Struct, frozen=True, gc=False, tag="condition"):
    """Set PodScheduled=False with this reason on unbound pods. Yields to binds; may be dropped late."""

    pods: tuple[ObjectRef, ...]
    reason: str
    message: str


class PatchAnnotation(Struct, frozen=True, gc=False, tag="annotation"):
    """Set an annotation of a Job or of an unbound pod; an empty value takes it away.

    Yields to binds; a later one of the same key replaces it, and a bind of the pod drops it.
    """

    ref: ObjectRef
    key: str
    value: str


class Announce(Struct, frozen=True, gc=False, tag="announce"):
    """Write one Kubernetes Event about an object."""

    regarding: ObjectRef
    reason: str
    note: str
    warning: bool = False
    action: str = "Scheduling"


class Submit(Struct, frozen=True, gc=False, tag="submit"):
    """Let this plan of an outside scheduler enter as a PlanProposed, after what was learned up to now."""

    plan: Plan


class CreateObject(Struct, frozen=True, gc=False, tag="create_object"):
    """Create an object of a kind that `kube.objects` knows; `body` is its whole JSON. That it is there
    already is no failure. Answered by the watch, or by ObjectFailed."""

    kind: str
    namespace: str
    name: str
    body: str


class PatchObject(Struct, frozen=True, gc=False, tag="patch_object"):
    """Merge this JSON into the object with this uid; with `sub` "status" replace its status, given whole.

    A later one of the same uid and `sub` replaces one that has not been sent. With `ref.version` it is done
    over exactly that version or not at all.
    """

    ref: ObjectRef
    body: str
    sub: str = ""


class DeleteObject(Struct, frozen=True, gc=False, tag="delete_object"):
    """Delete the object with this uid, and what it owns after it; `grace` in seconds, None as it asks for."""

    ref: ObjectRef
    grace: int | None = None


class WakeAt(Struct, frozen=True, gc=False, tag="wake"):
    """Give the engine a Tick at this time (milliseconds since the epoch), even if nothing happens."""

    at: int


Command = (
    Propose
    | RecordAllocations
    | SaveGroups
    | SettleGrants
    | Bind
    | Revoke
    | BindClaim
    | Evict
    | End
    | PatchCondition
    | PatchAnnotation
    | Announce
    | Submit
    | CreateObject
    | PatchObject
    | DeleteObject
    | WakeAt
)
