"""What surrounds pods and nodes: namespaces, storage objects and device classes, as filters look at them.

Part of `core.state`, changed by `core.things` (what the watch tells) and by `core.assume` (what is decided of
claims that wait for their first consumer). What is decided counts as done, as in kube-scheduler's assume
cache: the claim, or the volume, looks as it will once that is written. Must not decide anything itself.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar, cast

from msgspec.structs import replace

from fairlead.model.storage import (
    Attachment,
    Capacity,
    Claim,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    Storage,
    StorageClass,
)
from fairlead.model.thing import THINGS, DeviceClass, Namespace, Thing, kind_of

T = TypeVar("T", bound=Thing)
Name = tuple[str, str]
"""Namespace ("" for what is in none) and name; of what nobody names: its uid."""
IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Every DeviceClass also backs the extended resource of its own name under this prefix."""


class Shelf(NamedTuple):
    """All that was seen of one kind: uid -> name and version, name -> the thing."""

    records: dict[str, tuple[Name, int]]
    things: dict[Name, Thing]


class Choice:
    """What was decided of a claim that waits: a volume, or "" and the node where one is to be made."""

    __slots__ = ("claim", "holders", "node", "sent_at", "sent_version", "volume", "written")

    def __init__(self, claim: Name, volume: str, node: str) -> None:
        self.claim, self.volume, self.node = claim, volume, node
        self.holders: dict[str, None] = {}
        """The pods that it was made for."""
        self.written = False
        """True once the watch has shown it."""
        self.sent_at, self.sent_version = 0, 0
        """When it was last asked to be written, and over which version; 0 if never."""


class Held:
    """Pods of one grant that are not bound before all their claims are."""

    __slots__ = ("again_at", "claims", "pods", "since")

    def __init__(self, since: int) -> None:
        self.since, self.again_at = since, 0
        """When they began to wait, and when they are looked at again though nothing happened."""
        self.pods: dict[str, None] = {}
        self.claims: dict[Name, None] = {}


class Surroundings:
    """Everything by name. `version` moves with each change that a filter may notice."""

    def __init__(self) -> None:
        self.version = 0
        self._seen: dict[str, dict[Name, Thing]] = {kind_of(each): {} for each in THINGS}
        self._uids: dict[str, dict[Name, str]] = {kind: {} for kind in self._seen}
        self._records: dict[str, dict[str, tuple[Name, int]]] = {kind: {} for kind in self._seen}
        self._claims: dict[Name, Claim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        """Both as they will be once all choices are written."""
        self._storage: Storage | None = None
        self._rest: Storage | None = None
        self._namespaces: dict[str, dict[str, str]] | None = None
        self.choices: dict[Name, Choice] = {}
        """Claim -> what was decided of it for pods that are not bound yet."""
        self._chosen: dict[str, Name] = {}
        """Volume -> the claim that it was chosen for."""
        self._choices_of: dict[str, dict[Name, None]] = {}
        """Pod -> the claims that were decided on for it."""
        self.held: dict[str, Held] = {}
        """Grant -> its pods that wait for claims."""
        self._held_by: dict[str, str] = {}

    # -- reading -------------------------------------------------------------------------------------

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """Name -> labels. Not changed once given out."""
        if self._namespaces is None:
            self._namespaces = {each.name: each.labels for each in self.all(Namespace).values()}
        return self._namespaces

    @property
    def storage(self) -> Storage:
        """All storage objects, choices taken. Not changed once given out: a change makes a new one."""
        if self._storage is None:
            self._storage = replace(self.present, claims=self._claims.copy(), volumes=self._volumes.copy())
        return self._storage

    @property
    def present(self) -> Storage:
        """The same without a copy, for a question that is answered before anything changes."""
        if self._rest is None:
            self._rest = Storage(
                claims=self._claims,
                volumes=self._volumes,
                classes={each.name: each for each in self.all(StorageClass).values()},
                csi_nodes={each.name: each for each in self.all(CsiNode).values()},
                tracked=tuple(each.name for each in self.all(CsiDriver).values() if each.tracked),
                capacities=tuple(self.all(Capacity).values()),
                attachments=tuple(self.all(Attachment).values()),
            )
        return self._rest

    def all(self, kind: type[T]) -> Mapping[Name, T]:
        """All of one kind as they were seen last; what is decided but not written yet does not show."""
        return cast("dict[Name, T]", self._seen[kind_of(kind)])

    def record(self, kind: type[Thing], name: Name) -> tuple[str, int]:
        """Uid and version of what has this name; ("", 0) if nothing has."""
        uid = self._uids[kind_of(kind)].get(name, "")
        return (uid, self._records[kind_of(kind)][uid][1]) if uid else ("", 0)

    def chosen_for(self, volume: str) -> Name:
        """The claim that the volume was chosen for; ("", "") if for none."""
        return self._chosen.get(volume, ("", ""))

    def missing(self, kind: str, present: Mapping[str, None], version: int) -> list[str]:
        """The uids of that kind that a list of this version should have had and has not."""
        records = self._records[kind]
        return [uid for uid, (_, known) in records.items() if uid not in present and known <= version]

    def shelves(self) -> dict[str, Shelf]:
        """Copies of all that was seen, by kind."""
        return {kind: Shelf(self._records[kind].copy(), seen.copy()) for kind, seen in self._seen.items()}

    def backed(self, resource: str) -> str:
        """The DeviceClass that backs this extended resource, the first by name; "" if none does."""
        classes = self.all(DeviceClass)
        own = resource.removeprefix(IMPLICIT)
        if own != resource and ("", own) in classes:
            return own
        return min((each.name for each in classes.values() if each.resource == resource), default="")

    # -- what was seen -------------------------------------------------------------------------------

    def put(self, uid: str, version: int, thing: Thing) -> tuple[bool, str]:
        """Take it in. Returns whether anything is different now, and the uid that it took the place of."""
        kind, name = kind_of(thing), name_of(uid, thing)
        uids, records, things = self._uids[kind], self._records[kind], self._seen[kind]
        old = uids.get(name, "")
        if old and version <= records[old][1]:  # also of an earlier object of that name
            return False, ""
        if old and old != uid:
            del records[old]
        uids[name], records[uid] = uid, (name, version)
        changed = things.get(name) != thing
        if changed:
            things[name] = thing
            self._changed(name, thing)
        return changed, old if old != uid else ""

    def forget_versions(self, kind: str) -> None:
        """Whatever is told next of that kind is newer than what is known."""
        records = self._records[kind]
        records.update({uid: (name, -1) for uid, (name, _) in records.items()})

    def doubt(self, kind: type[Thing] | Thing, uid: str, version: int) -> None:
        """Let what is known of this uid count as older than `version` if it is of that very version."""
        record = self._records[kind_of(kind)].get(uid)
        if record is not None and record[1] == version:
            self._records[kind_of(kind)][uid] = (record[0], version - 1)

    def version_of(self, uid: str) -> int:
        """The version that the object was seen at; -1 if it is not known."""
        return next((records[uid][1] for records in self._records.values() if uid in records), -1)

    def drop(self, uid: str) -> Thing | None:
        """The object is gone. Returns what it was; None if it was not known."""
        for kind, records in self._records.items():
            record = records.pop(uid, None)
            if record is not None:
                name, _ = record
                del self._uids[kind][name]
                thing = self._seen[kind].pop(name)
                self._changed(name, thing)
                return thing
        return None

    def _changed(self, name: Name, thing: Thing) -> None:
        self.version += 1
        match thing:
            case Namespace():
                self._namespaces = None
            case DeviceClass():
                pass
            case Claim():
                self._look(name)
            case PersistentVolume():
                self._look_at_volume(thing.name)
            case _:
                self._rest = self._storage = None

    # -- what was decided ----------------------------------------------------------------------------

    def choose(self, pod: str, choice: Choice) -> None:
        """Let the choice count as taken, for this pod; another one of the same claim is void."""
        old = self.choices.get(choice.claim)
        if old is choice and pod in choice.holders:
            return
        if old is not None and old is not choice and old.volume:
            self._chosen.pop(old.volume, None)
            self._look_at_volume(old.volume)
        self.choices[choice.claim] = choice
        choice.holders[pod] = None
        self._choices_of.setdefault(pod, {})[choice.claim] = None
        if choice.volume:
            self._chosen[choice.volume] = choice.claim
        self._look(choice.claim)

    def hold(self, grant: str, pod: str, now: int) -> Held:
        """Let the pod wait with the others of its grant."""
        held = self.held.get(grant)
        if held is None:
            held = self.held[grant] = Held(now)
        held.pods[pod] = None
        self._held_by[pod] = grant
        return held

    def release(self, grant: str) -> None:
        """The pods of the grant wait no longer."""
        held = self.held.pop(grant, None)
        for pod in held.pods if held is not None else ():
            del self._held_by[pod]

    def forget(self, pod: str) -> None:
        """The pod is bound, or will not be: what was decided for it alone is free again."""
        grant = self._held_by.pop(pod, "")
        if grant:
            pods = self.held[grant].pods
            del pods[pod]
            if not pods:
                del self.held[grant]
        for claim in self._choices_of.pop(pod, ()):
            choice = self.choices[claim]
            choice.holders.pop(pod, None)
            if not choice.holders:
                del self.choices[claim]
                self._chosen.pop(choice.volume, None)
                self._look(claim)
                if choice.volume:
                    self._look_at_volume(choice.volume)

    def _look(self, name: Name) -> None:
        """The claim as it will be, and the volume that was chosen for it."""
        self.version += 1
        self._storage = None
        claim, choice = self.all(Claim).get(name), self.choices.get(name)
        if choice is not None and choice.volume:
            self._look_at_volume(choice.volume)
        if claim is None:
            self._claims.pop(name, None)
            return
        if choice is not None and not (choice.volume or claim.volume):
            choice.written = choice.written or claim.selected_node == choice.node
            if not choice.written and claim.selected_node is None:
                claim = replace(claim, selected_node=choice.node)
        self._claims[name] = claim

    def _look_at_volume(self, name: str) -> None:
        """The volume as it will be: meant for the claim that it was chosen for."""
        self.version += 1
        self._storage = None
        volume = self.all(PersistentVolume).get(("", name))
        if volume is None:
            self._volumes.pop(name, None)
            return
        choice = self.choices.get(self.chosen_for(name))
        claim = self.all(Claim).get(choice.claim) if choice is not None else None
        if choice is not None and claim is not None:
            meant = (claim.namespace, claim.name, claim.uid)
            choice.written = choice.written or volume.claim == meant
            if not choice.written and volume.claim in (None, (*meant[:2], "")):
                volume = replace(volume, claim=meant)
        self._volumes[name] = volume


def name_of(uid: str, thing: Thing) -> Name:
    """Under which name the thing is found."""
    match thing:
        case Claim():
            return thing.namespace, thing.name
        case Capacity() | Attachment():
            return "", uid
        case _:
            return "", thing.name
