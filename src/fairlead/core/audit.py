"""The state against fresh lists of the cluster: what differs, and what would put it right.

Called by `runtime.audit`. A list and the watch are not of the same instant. So what is known at a newer
version than listed is right, and what is known at an older one is only behind: whether the watch brings it is
for the caller to wait and see. Pure; works through generators, so that 50,000 pods hold up nobody.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, cast

from fairlead.core.esi.table import Thing as EsiThing
from fairlead.core.moment import Known, Moment, Stored, picturing
from fairlead.core.rebuild import STEP, Mark, Picture, rebuilding
from fairlead.core.steps import Steps
from fairlead.model import event as ev
from fairlead.model.audit import Listing
from fairlead.model.event import Told
from fairlead.model.node import Node
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod


class What(StrEnum):
    """How an object differs."""

    MISSING = "missing"
    """The cluster has it, Fairlead has not."""
    SURPLUS = "surplus"
    """Fairlead has it, the cluster has not."""
    OLDER = "older"
    """Fairlead has an older version of it."""
    OTHER = "other"
    """Both have the same version of it, and it is not the same."""


class Found(NamedTuple):
    """One object that differs. `item` is how the cluster tells it, for a repair."""

    what: What
    kind: str
    uid: str
    here: Known | None
    there: Known | None
    item: Told


class Truth:
    """The cluster's objects: those of the lists, brought forward to the moment by what the watch has told."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.rest: list[Mark] = []

    def add(self, kind: str, uid: str, known: Known) -> None:
        match known:
            case Pod():
                self.pods[uid] = known
            case Node():
                self.nodes[uid] = known
            case _:
                self.rest.append((kind, uid, known.version))


class Look(NamedTuple):
    """What a comparison found. `moved` counts objects of which the watch knows more than the list."""

    found: list[Found]
    truth: Truth
    moved: int


def comparing(moment: Moment, listings: Sequence[Listing], since: int) -> Steps[Look]:
    """Hold each object against its list. `since`: the engine's time when the lists were asked for."""
    look, moved = Look([], Truth(), 0), 0
    for listing in listings:
        known = moment.known(listing.kind)
        listed: set[str] = set(listing.unread)
        for count, item in enumerate(listing.items):
            uid, there = parts(item)
            listed.add(uid)
            moved += _listed(look, moment, listing.kind, uid, known.get(uid), there, item, since)
            if not count % STEP:
                yield
        for count, (uid, here) in enumerate(known.items()):
            if uid not in listed:
                moved += _unlisted(look, listing, uid, here)
            elif uid in listing.unread:
                look.truth.add(listing.kind, uid, here)
            if not count % STEP:
                yield
    yield from _unasked(look.truth, moment, {listing.kind for listing in listings})
    return look._replace(moved=moved)


def _listed(
    look: Look, moment: Moment, kind: str, uid: str, here: Known | None, there: Known, item: Told, since: int
) -> bool:
    """One listed object. Returns whether the watch knows more of it."""
    if here is None and moment.tombstones.get(uid, since) > since:
        return True  # it has gone since it was listed
    if here is not None and (here.version > there.version or uid in moment.set_aside):
        look.truth.add(kind, uid, here)
        return here.version > there.version
    look.truth.add(kind, uid, there)
    if here is None:
        look.found.append(Found(What.MISSING, kind, uid, None, there, item))
    elif here.version < there.version:
        look.found.append(Found(What.OLDER, kind, uid, here, there, item))
    elif here != there:
        look.found.append(Found(What.OTHER, kind, uid, here, there, item))
    return False


def _unlisted(look: Look, listing: Listing, uid: str, here: Known) -> bool:
    """An object that the list has not: it is new, or it is gone. Returns whether it is new."""
    if here.version > listing.version:
        look.truth.add(listing.kind, uid, here)
        return True
    gone = _gone(here, uid, listing.version)
    look.found.append(Found(What.SURPLUS, listing.kind, uid, here, None, gone))
    return False


def _unasked(truth: Truth, moment: Moment, asked: set[str]) -> Steps[None]:
    """Kinds of which there is no list are as they are known."""
    for kind in ("Pod", "Node"):
        if kind not in asked:
            for uid, known in moment.known(kind).items():
                truth.add(kind, uid, known)
    for count, mark in enumerate(moment.marks()):
        if mark[0] not in asked:
            truth.rest.append(mark)
        if not count % STEP:
            yield


def parts(item: Told) -> tuple[str, Known]:
    """Uid and object of a Seen event."""
    match item:
        case ev.PodSeen(pod):
            return pod.uid, pod
        case ev.NodeSeen(node):
            return node.uid, node
        case ev.OwnerSeen(owner):
            return owner.uid, owner
        case ev.ThingSeen(uid, version, thing):
            return uid, Stored(version, thing)
        case ev.EsiSeen(thing):
            return thing.uid, cast("EsiThing", thing)
        case _:
            raise ValueError(f"{type(item).__name__} cannot be in a list")


def _gone(known: Known, uid: str, version: int) -> Told:
    match known:
        case Pod():
            return ev.PodGone(uid, version)
        case Node():
            return ev.NodeGone(uid, version)
        case Owner():
            return ev.OwnerGone(uid, version)
        case Stored():
            return ev.ThingGone(uid, version)
        case _:
            return ev.EsiGone(uid, version)


# -- pictures ----------------------------------------------------------------------------------------


class Pictures(NamedTuple):
    """What Fairlead sees, what the cluster comes to, and what Fairlead's own objects come to."""

    here: Picture
    there: Picture
    own: Picture


def drawing(moment: Moment, look: Look) -> Steps[Pictures]:
    """Count the cluster, and where objects differ also Fairlead's own: then wrong columns stand apart."""
    here = yield from picturing(moment)
    truth = look.truth
    there = yield from rebuilding(
        list(truth.nodes.values()),
        truth.pods.values(),
        moment.intents,
        moment.asked,
        truth.rest,
        moment.holds,
    )
    if not look.found:
        return Pictures(here, there, there)
    nodes = list(moment.nodes.values())
    pods = moment.pods.values()
    own = yield from rebuilding(nodes, pods, moment.intents, moment.asked, moment.marks(), moment.holds)
    return Pictures(here, there, own)


def miscounted(pictures: Pictures) -> list[str]:
    """The nodes whose columns are not what Fairlead's own objects come to; "" for pods on no known node."""
    here, own = pictures.here, pictures.own
    wrong = [name for name, row in own.rows.items() if here.rows[name].digest != row.digest]
    return [*wrong, ""] if not wrong and here.rest != own.rest else wrong


# -- repair ------------------------------------------------------------------------------------------

BATCH = 200
"""Objects in one event of a repair: some ten milliseconds for the engine."""
_ORDER: Mapping[type, int] = {ev.NodeSeen: 1, ev.OwnerSeen: 2, ev.ThingSeen: 3, ev.EsiSeen: 4, ev.PodSeen: 5}


def repairs(found: Sequence[Found], since: int, recount: bool) -> Iterator[ev.Repaired]:
    """The events that put it right: what is gone first, then nodes before pods."""
    items = sorted((each.item for each in found), key=_place)
    for at in range(0, len(items), BATCH):
        yield ev.Repaired(since, tuple(items[at : at + BATCH]), recount=False)
    if recount:
        yield ev.Repaired(since, (), recount=True)


def _place(item: Told) -> tuple[int, int, int, str]:
    rank = _ORDER.get(type(item), 0)
    if not rank:
        return 0, 0, 0, cast("ev.PodGone", item).uid
    uid, known = parts(item)
    created = known.created if isinstance(known, Pod) else 0
    return rank, created, known.version, uid
