"""Each node as Fairlead sees it and as the cluster says, side by side: the rows of `fairlead audit --table`.

Called by `runtime.audit`. Pure.
"""

from collections.abc import Mapping

from fairlead.core.audit import Pictures
from fairlead.core.rebuild import STEP, Row
from fairlead.core.steps import Steps
from fairlead.core.tenancy import PLACES
from fairlead.core.views import natural
from fairlead.model.audit import NodeAudit, Side
from fairlead.model.pod import Pod
from fairlead.model.view import ResourceUse

NOWHERE = Side(False, (), 0, 0)


def comparison(
    pictures: Pictures, here: Mapping[str, Pod], there: Mapping[str, Pod], scheduler: str
) -> Steps[tuple[NodeAudit, ...]]:
    """A row per node that either side has, by name in natural order; `scheduler` says whose pods are ours."""
    mine, its = pictures.here.rows, pictures.there.rows
    names: list[tuple[object, str]] = []
    for count, name in enumerate({**mine, **its}):
        names.append((natural(name), name))
        if not count % STEP:
            yield
    rows: list[NodeAudit] = []
    for count, (_, name) in enumerate(sorted(names)):
        a, b = mine.get(name), its.get(name)
        equal = a is not None and b is not None and a.digest == b.digest
        right = _side(b, there, scheduler)
        # What is equal need not be made twice, where there are thousands.
        rows.append(NodeAudit(name, equal, right if equal else _side(a, here, scheduler), right))
        if not count % STEP:
            yield
    return tuple(rows)


def _side(row: Row | None, pods: Mapping[str, Pod], scheduler: str) -> Side:
    if row is None:
        return NOWHERE
    used, free = dict(row.used), dict(row.free)
    resources = [
        ResourceUse(name, whole, used.get(name, 0), free.get(name, 0))
        for name, whole in sorted({**dict.fromkeys(used, 0), **dict(row.capacity)}.items())
        if name != PLACES and not name.startswith("port:")
    ]
    known = [pods.get(uid) for uid, _, _ in row.pods]
    ours = sum(pod is not None and pod.scheduler == scheduler for pod in known)
    return Side(True, tuple(resources), ours, len(known) - ours)
