"""Owners of pods that decide the size and the life of a group: Job, ReplicaSet, StatefulSet.

Made by `wire.objects`. Deployments are not here: their annotations reach the ReplicaSets.
"""

from msgspec import Struct

from fairlead.model.pod import OwnerRef


class Owner(Struct, frozen=True, gc=False, omit_defaults=True):
    """`size` is how many pods the owner wants side by side: for a Job min(parallelism, completions left).

    `annotations` only where their key starts with `fairlead.dev/`. `ended` is "", "completed", "failed", or
    "timeout" where it failed for its deadline. `ordered` is true for a StatefulSet that creates its pods one
    after the other.
    """

    uid: str
    kind: str
    namespace: str
    name: str
    version: int
    size: int = 1
    suspended: bool = False
    ended: str = ""
    ordered: bool = False
    deleting: bool = False
    annotations: dict[str, str] = {}
    deadline: int = 0
    """Job-level activeDeadlineSeconds in milliseconds; 0 means none."""
    started: int = 0
    """Since when a Job's deadline runs, in milliseconds since the epoch; its pods may wait. 0 = not yet."""
    owner: OwnerRef | None = None
    retries: int | None = None
    """How many more of its pods may be evicted before a Job has failed; None where that does not count."""
