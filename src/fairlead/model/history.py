"""What is asked of the ledger's rows, and what comes back: pods with their times, and what changed.

Made by `store.history`, counted by `recorder.occupancy` and `recorder.latency`, shown by the command line.
Times are milliseconds since the epoch, 0 = not (yet); amounts as in model/record.py: cpu in milli-cores, all
else in whole units.
"""

from msgspec import Struct


class Asked(Struct, frozen=True):
    """Which pods are meant. What is left empty excludes nothing; pods that have not ended are never left out.

    `owner` is a controller's NAME or KIND/NAME. `since` and `until` (0 = without limit) keep what was there
    at some time between them, also what was there before or is there still.
    """

    namespace: str = ""
    owner: str = ""
    labels: dict[str, str] = {}
    scheduler: str = ""
    node: str = ""
    group: str = ""
    name: str = ""
    since: int = 0
    until: int = 0
    open: bool = False
    """Only those that have not ended."""


class PodHistory(Struct, frozen=True, gc=False):
    """A pod from its creation to its end. `since` to `until` is when it held its node (0: not yet, still).
    One that never had a node has `until` all the same: when it was gone.

    `since` is `bound`, or where nobody saw that the best that is known; `ended` is one word: succeeded,
    failed, finished, deleted, lost; empty while it has not ended. The other times are those of `PodLife`.
    """

    uid: str
    namespace: str
    name: str
    scheduler: str
    owner_kind: str
    owner_name: str
    group: str
    node: str
    phase: str
    ended: str
    reason: str
    exit_code: int
    since: int
    until: int
    created: int
    queued: int
    scheduled: int
    bound: int
    started: int
    ready: int
    finished: int
    deleted: int
    requests: dict[str, int]
    labels: dict[str, str]


class ChangeRow(Struct, frozen=True, gc=False):
    """A `Change` as it stands in the ledger: `seq` is the order of writing, `extra` JSON text or empty."""

    seq: int
    at: int
    seen: int
    source: str
    object: str
    event: str
    uid: str
    namespace: str
    name: str
    node: str
    scheduler: str
    version: int
    reason: str
    message: str
    extra: str


class View(Struct, frozen=True):
    """A view for those who write SQL; `columns` are names, types and what each means."""

    name: str
    comment: str
    columns: tuple[tuple[str, str, str], ...]
