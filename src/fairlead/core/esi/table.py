"""The part of the state that concerns external schedulers: their objects, the slots, who has which.

Owned by `core.state`; filled by `core.esi.feed` (events) and `core.esi.slots` (which slots there are, what
they hold); read by `control.esi` and the doors. Mutable inside, never shared; only dicts are iterated. Must
not decide who gets a slot.
"""

from typing import Any, NamedTuple, cast

from fairlead.model.application import Account, Application, EsiThing, PriorityClass, tag_of
from fairlead.model.batchjob import BatchJob, BatchJobStatus, JobState
from fairlead.model.esi import Ref, SlotState, Testbed, TestbedStatus
from fairlead.model.event import ObjectFailed
from fairlead.model.pod import Amounts
from fairlead.model.scheduling import Scheduling, SchedulingStatus

Thing = Testbed | BatchJob | Scheduling | Application | Account | PriorityClass
Status = TestbedStatus | BatchJobStatus | SchedulingStatus
STARTED = (JobState.SUBMITTED, JobState.SCHEDULED, JobState.RUNNING)
"""The application of a BatchJob in these states is to be there, and has not ended."""
TAKING = (JobState.IN_QUEUE, *STARTED, JobState.PENDING_DELETION)
"""If slots are assigned to it, nobody else gets them, whether or not pods are there (yet, or still)."""


class Slot:
    """One slot of a Testbed: the `index`-th of its node. `key` is NODE/INDEX and never changes."""

    __slots__ = ("fits", "ghost", "index", "key", "node", "node_id", "pod", "position", "problem", "state")

    def __init__(self, node: str, index: int, node_id: int) -> None:
        self.key = f"{node}/{index}"
        self.node, self.index, self.node_id = node, index, node_id
        self.position = -1
        """Its number at present; -1 where its node is no member any more and a pod still runs in it."""
        self.state = SlotState.FREE
        self.pod = ""
        """The pod that it is reserved for or occupied by (uid); never a ghost."""
        self.ghost = ""
        """The ghost pod in it (uid)."""
        self.problem = ""
        self.fits = False
        """Whether there is room for all slots of its node, this one among them: then it holds its own."""


class SlotTable:
    """The slots of one Testbed. `amounts` is what one slot has."""

    def __init__(self, testbed: str, ref: Ref, rank: tuple[int, str]) -> None:
        self.testbed, self.ref = testbed, ref
        self.rank = rank
        """(Created, uid): of Testbeds that share a node the earlier one counts first."""
        self.amounts: Amounts = ()
        self.problem = ""
        """Why it has no slots: its spec cannot be read, or it is being deleted."""
        self.spec: object = None
        """The spec that this was laid out by."""
        self.slots: dict[str, Slot] = {}
        """By key, in the order of their numbers; those without a number come last."""
        self.order: list[str] = []
        """Number -> key."""
        self.nodes: tuple[str, ...] = ()
        """Members, in the order of their numbers."""
        self.labels: dict[str, str] = {}
        """Member -> the value of its label."""
        self.problems: dict[str, list[str]] = {}
        """Node -> what is wrong with it."""
        self.by_node: dict[str, list[Slot]] = {}
        """Node -> its slots by index, of members and of nodes that were."""
        self.waiting: dict[str, tuple[Slot, ...] | None] = {}
        """Pods that want a slot and have none, in no order, and which they may use; None if that is to be
        read from them (`core.esi.slots`)."""

    def at(self, position: int) -> Slot | None:
        """The slot of this number, None if there is none."""
        return self.slots[self.order[position]] if 0 <= position < len(self.order) else None


class Place(NamedTuple):
    """Where a pod has its slot."""

    testbed: str
    slot: str


class Sent(NamedTuple):
    """A write that the watch has not confirmed: what was asked for, over which version, when."""

    what: str
    version: int
    at: int


class Verdict(NamedTuple):
    """What is wrong with a BatchJob, "" if nothing, and whose account it needs; of the very object given."""

    job: BatchJob
    problem: str
    account: str


class Esi:
    """Objects by uid. `status` is what ours are to be; it is written to the cluster where that differs."""

    def __init__(self) -> None:
        self.testbeds: dict[str, Testbed] = {}
        self.jobs: dict[str, BatchJob] = {}
        self.schedulings: dict[str, Scheduling] = {}
        self.apps: dict[str, Application] = {}
        self.accounts: dict[str, Account] = {}
        self.classes: dict[str, PriorityClass] = {}
        self.names: dict[tuple[str, str, str], str] = {}
        """(Tag of the thing, namespace, name) -> uid."""
        self.versions: dict[str, int] = {}
        """uid -> the version it was last seen at."""
        self.status: dict[str, Status] = {}
        self.tables: dict[str, SlotTable] = {}
        """Testbed uid -> its slots."""
        self.pods: dict[Ref, dict[str, None]] = {}
        """Testbed -> all pods that carry its label, ghosts and ended ones, too."""
        self.pods_of: dict[str, dict[str, None]] = {}
        """Uid of a BatchJob or of an application -> pods that name it, drivers and ended ones, too."""
        self.places: dict[str, Place] = {}
        """Pods that have a slot, from its reservation until they end."""
        self.guessed: dict[str, None] = {}
        """Those of them of which nothing says which one, while an earlier request of a bind may be on its way
        that does: it may bring them to any that they may use on their node."""
        self.holds: dict[str, Place] = {}
        """Key in `Inventory.held` -> the slot whose free part it holds."""
        self.refused: dict[str, str] = {}
        """Pod -> why it could not be started in its slot when that was last tried."""
        self.failures: dict[tuple[str, str, str], ObjectFailed] = {}
        """(Kind, namespace, name) -> the last refused write, until the object or its maker changes."""
        self.sent: dict[tuple[str, str], Sent] = {}
        """(uid or name, purpose) -> the write on its way. Kept by `control.esi.writing`."""
        self.stale: dict[str, None] = {}
        """Testbeds whose slots must be laid out again (uid)."""
        self.stirred: dict[str, None] = {}
        """Nodes whose slots must be looked at again, for what is on them, or they themselves, changed."""
        self.seeking: dict[str, None] = {}
        """Testbeds of which a slot may have become free, or a pod that wants one has come (uid)."""
        self.looked: dict[str, None] = {}
        """Pods that hold something else, or say something else, than when their slot was last looked at."""
        self.members: dict[str, dict[str, None]] = {}
        """Node -> Testbeds that have slots there."""
        self.startable: dict[str, None] = {}
        """Pods of ours that have a slot and are neither on a node nor meant for one."""
        self.tried: dict[str, int] = {}
        """Such pods -> when their start may be submitted again; owned by `control.esi.placing`."""
        self.verdicts: dict[str, Verdict] = {}
        """BatchJob uid -> what `control.esi` found when it read its spec."""
        self.epoch = 0
        """The leadership in which `status` was taken from the objects (`control.esi.drive`)."""
        self.due = 0
        """When the machines of `control.esi` want to run though nothing has changed; 0: never."""
        self.dirty = False
        """True when anything here, or a pod or node of a Testbed, has changed since the reconcilers ran."""

    def stir(self, node: str) -> None:
        """The node has changed, or what is held on it."""
        if node in self.members:
            self.stirred[node] = None
            self.dirty = True

    def moved(self, pod: str, before: str, after: str) -> None:
        """A pod holds something on another node, or something else; "" for no node."""
        self.looked[pod] = None
        self.stir(before)
        self.stir(after)

    def given(self, testbed: str) -> dict[str, str]:
        """The slots of the Testbed that are assigned to BatchJobs -> the uid of the job."""
        found: dict[str, str] = {}
        for uid in self.jobs:
            status = self.job_status(uid)
            if status.places and status.state in TAKING and self.find("Testbed", status.slots) == testbed:
                found.update(dict.fromkeys(status.places, uid))
        return found

    def taken_back(self, old: Status | None, new: Status | None) -> None:
        """The status of an object has changed: others may have the slots that it gives back."""
        if not isinstance(old, BatchJobStatus) or not old.places or old.state not in TAKING:
            return
        kept = isinstance(new, BatchJobStatus) and new.state in TAKING and new.places == old.places
        testbed = self.find("Testbed", old.slots)
        if not kept and testbed in self.tables:
            self.seeking[testbed] = None

    @property
    def shelves(self) -> tuple[dict[str, Any], ...]:
        """All that is kept by uid and seen in the cluster."""
        return self.testbeds, self.jobs, self.schedulings, self.apps, self.accounts, self.classes

    def lacks(self, priority: str) -> bool:
        """Whether there is no such PriorityClass. Every cluster has some of its own: where none was listed it
        is not known."""
        return bool(self.classes) and (tag_of(PriorityClass), "", priority) not in self.names

    def things(self) -> dict[str, dict[str, Thing]]:
        """All objects: tag -> uid -> object."""
        found: dict[str, dict[str, Thing]] = {}
        for shelf in self.shelves:
            for uid, thing in shelf.items():
                found.setdefault(tag_of(cast("EsiThing", thing)), {})[uid] = thing
        return found

    @property
    def unsettled(self) -> bool:
        """Whether `core.esi.slots.settle` has anything to do."""
        return bool(self.stale or self.stirred or self.looked or self.seeking)

    def find(self, tag: str, ref: Ref | None) -> str:
        """The uid of an object; "" if there is none."""
        return "" if ref is None else self.names.get((tag, ref.namespace, ref.name), "")

    def testbed(self, ref: Ref | None) -> Testbed | None:
        return self.testbeds.get(self.find("Testbed", ref))

    def job(self, ref: Ref | None) -> BatchJob | None:
        return self.jobs.get(self.find("BatchJob", ref))

    def scheduling(self, ref: Ref | None) -> Scheduling | None:
        return self.schedulings.get(self.find("Scheduling", ref))

    def app(self, job: BatchJob) -> Application | None:
        """The application of a BatchJob, as its operator shows it."""
        tag = "ApplicationJob" if job.kind == "Job" else str(job.kind)
        return self.apps.get(self.names.get((tag, job.namespace, job.name), ""))

    def testbed_status(self, uid: str) -> TestbedStatus:
        found = self.status.get(uid)
        return found if isinstance(found, TestbedStatus) else TestbedStatus()

    def job_status(self, uid: str) -> BatchJobStatus:
        found = self.status.get(uid)
        return found if isinstance(found, BatchJobStatus) else BatchJobStatus()

    def scheduling_status(self, uid: str) -> SchedulingStatus:
        found = self.status.get(uid)
        return found if isinstance(found, SchedulingStatus) else SchedulingStatus()
