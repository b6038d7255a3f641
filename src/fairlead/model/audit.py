"""What an audit looks at and what it says: fresh lists of the cluster, named differences, the report.

`Listing` is made by `kube.relist`, compared by `core.audit`; `runtime.audit` makes the `Report`, which
`api.server` sends as JSON, so these structs are the contract of `/api/v1/audit`. Times are milliseconds since
the epoch, lengths of time milliseconds; amounts as in `model.view`.
"""

from msgspec import Struct

from fairlead.model.event import Told
from fairlead.model.view import ResourceUse


class Listing(Struct, frozen=True, gc=False):
    """All objects of one kind as the API server had them at one version.

    `items` are Seen events. `unread` are uids of objects that exist and cannot be read: nothing is said of
    them.
    """

    kind: str
    version: int
    items: tuple[Told, ...]
    unread: tuple[str, ...] = ()


class Difference(Struct, frozen=True):
    """One thing in which the scheduler's picture and the cluster differ.

    `kind` is of a short vocabulary (docs/audit.md), `object` the Kubernetes kind. `here` is what Fairlead
    has, `there` what the cluster has; "" where there is nothing. `text` says it in a sentence. `repaired` is
    true once a second look has found it gone.
    """

    kind: str
    object: str
    name: str
    uid: str
    here: str
    there: str
    text: str
    repaired: bool = False


class Side(Struct, frozen=True):
    """One node as one of the two has it. `ours` and `others` count the pods that take up room on it."""

    present: bool
    resources: tuple[ResourceUse, ...]
    ours: int
    others: int


class NodeAudit(Struct, frozen=True):
    """One node as Fairlead sees it (`here`) and as the cluster says (`there`), before any repair.

    `equal` is true when the digests of the two are: the node object, what is free and which pods are on it.
    """

    name: str
    equal: bool
    here: Side
    there: Side


class Report(Struct, frozen=True):
    """One audit. `result` is "clean", "differences" or "failed"; then `error` says why.

    `digest_incremental` is of the picture that events have made, `digest_rebuilt` of the one that was counted
    from the lists; both are of the state before any repair. `moved` counts objects that changed while the
    audit ran: for these the watch's word was taken, which is newer than the list's.
    """

    at: int
    result: str
    error: str
    duration: int
    nodes: int
    pods: int
    moved: int
    digest_incremental: str
    digest_rebuilt: str
    differences: tuple[Difference, ...]
    repaired: int
    rows: tuple[NodeAudit, ...]
