"""Events about external schedulers become state: their objects, refused writes, and which pods are theirs.

Called by `core.reduce`, whose part this is. News older than what is known of a uid is dropped, and what is
gone stays gone. Must not decide anything: slots are looked at again by `core.esi.slots`, all else by
`control.esi`.
"""

from typing import cast

from fairlead.core.esi.table import Thing
from fairlead.core.state import State
from fairlead.core.tombstones import bury
from fairlead.model import event as ev
from fairlead.model.application import ESI_THINGS, Account, Application, BatchV1Job, PriorityClass, tag_of
from fairlead.model.batchjob import AppKind, BatchJob
from fairlead.model.esi import BATCH_JOB, GHOST_LABEL, TESTBED_LABEL, Ref, Testbed
from fairlead.model.pod import Pod
from fairlead.model.scheduling import Scheduling

TAGS = frozenset(tag_of(each) for each in ESI_THINGS)
_UNSEEN = -1
_APPS = (AppKind.SPARK, AppKind.FLINK, AppKind.FLINK_CLUSTER)
"""Their drivers name no BatchJob; the pods of Jobs all do."""


def seen(state: State, event: ev.EsiSeen) -> None:
    esi, thing = state.esi, cast("Thing", event.thing)
    uid = thing.uid
    if uid in state.tombstones or thing.version <= esi.versions.get(uid, _UNSEEN):
        return
    name = (tag_of(event.thing), thing.namespace, thing.name)
    before = esi.names.get(name, uid)
    if before != uid:  # made anew under its name
        _forget(state, before)
    esi.names[name] = uid
    esi.versions[uid] = thing.version
    old = _shelf(state, thing).get(uid)
    _shelf(state, thing)[uid] = thing
    if isinstance(thing, Testbed | BatchJob | Scheduling):
        esi.status.setdefault(uid, thing.status)
    _overcome(state, thing, old)
    if isinstance(thing, Testbed) and not (isinstance(old, Testbed) and _same(old, thing)):
        esi.stale[uid] = None
    esi.dirty = True


def gone(state: State, event: ev.EsiGone) -> None:
    bury(state, event.uid)
    _forget(state, event.uid)


def listed(state: State, event: ev.Listed) -> None:
    """The end of a list: what is known of its kind and was not in it is gone."""
    present, esi = dict.fromkeys(event.uids), state.esi
    for name, uid in list(esi.names.items()):
        if name[0] == event.kind and uid not in present and esi.versions[uid] <= event.version:
            gone(state, ev.EsiGone(uid, event.version))


def rewound(state: State, kind: str) -> None:
    """Whatever is told next of this kind is newer than what is known. What ours are to be stays."""
    for name, uid in state.esi.names.items():
        if name[0] == kind:
            state.esi.versions[uid] = _UNSEEN


def failed(state: State, event: ev.ObjectFailed) -> None:
    if event.verb != "patch":  # a patch is asked for again as long as it is wanted
        state.esi.failures[event.kind, event.namespace, event.name] = event
    state.esi.dirty = True


def pod_changed(state: State, old: Pod | None, new: Pod | None) -> None:
    """A pod is seen or gone. Its place and size are told by `State.recount`; this is about what it says."""
    _of_application(state, old, new)
    for pod in (old, new):
        if pod is not None and TESTBED_LABEL in pod.labels:
            break
    else:
        return
    esi = state.esi
    was, now = home_of(old), home_of(new)
    pod = cast("Pod", new if new is not None else old)
    if was is not None and was != now:
        pods = esi.pods.get(was, {})
        pods.pop(pod.uid, None)
        if not pods:
            esi.pods.pop(was, None)
    if now is not None:
        esi.pods.setdefault(now, {})[pod.uid] = None
    if esi.failures.pop(("Pod", pod.namespace, pod.name), None) is not None:
        esi.dirty = True
    if old is not None and new is not None and _says(old) == _says(new):
        if (old.phase, old.condition) != (new.phase, new.condition):
            esi.dirty = True
        return  # kubelets write much that is nothing to anybody here
    esi.dirty = True
    esi.looked[pod.uid] = None
    if new is None:
        esi.refused.pop(pod.uid, None)
    for each in (old, new):
        if each is not None:
            esi.stir(each.node)


def _of_application(state: State, old: Pod | None, new: Pod | None) -> None:
    """Keep up which pods an application has, also those that want no slot."""
    was, now = made_for(old), made_for(new)
    if was == now and (now == () or _lives(old) == _lives(new)):
        return
    esi = state.esi
    esi.dirty = True
    either = old or new
    pod = either.uid if either is not None else ""
    for uid in was:
        pods = esi.pods_of.get(uid, {})
        pods.pop(pod, None)
        if not pods:
            esi.pods_of.pop(uid, None)
    for uid in now:
        esi.pods_of.setdefault(uid, {})[pod] = None


def made_for(pod: Pod | None) -> tuple[str, ...]:
    """The uids of the BatchJob that the pod names and of the application that controls it."""
    if pod is None:
        return ()
    owner = pod.owner.uid if pod.owner is not None and pod.owner.kind in _APPS else ""
    return tuple(uid for uid in (pod.annotations.get(BATCH_JOB, ""), owner) if uid)


def _lives(pod: Pod | None) -> tuple[bool, bool]:
    return pod is not None and bool(pod.node), pod is not None and pod.ended


def pod_lost(state: State, uid: str) -> None:
    """A pod cannot be read (`core.poison`): whatever it said of a Testbed, it is none of its any more."""
    for pods in (*state.esi.pods.values(), *state.esi.pods_of.values()):
        pods.pop(uid, None)
    state.esi.looked[uid] = None


def node_changed(state: State, name: str) -> None:
    """A node has come, changed in what matters for placing, or gone."""
    esi = state.esi
    if not esi.testbeds:
        return
    esi.stir(name)
    node = state.inventory.node(name)
    for uid, testbed in esi.testbeds.items():
        table = esi.tables.get(uid)
        label = testbed.spec.node_label if testbed.spec is not None else ""
        value = node.labels.get(label) if node is not None else None
        if table is None or value != table.labels.get(name):
            esi.stale[uid] = None
            esi.dirty = True


def home_of(pod: Pod | None) -> Ref | None:
    """The Testbed that the pod names; None if it names none."""
    name = pod.labels.get(TESTBED_LABEL) if pod is not None else None
    return Ref(pod.namespace, name) if pod is not None and name is not None else None


def is_ghost(pod: Pod) -> bool:
    return pod.labels.get(GHOST_LABEL) == "true"


def _says(pod: Pod) -> tuple[object, ...]:
    """All of a pod that decides about its slot, but for the node that it is meant for."""
    return (
        pod.node, pod.ended, pod.deleting, pod.gated, pod.scheduler, pod.labels, pod.annotations,
        pod.shape.requests,
    )  # fmt: skip


def _shelf(state: State, thing: Thing) -> dict[str, Thing]:
    esi = state.esi
    match thing:
        case Testbed():
            shelf = esi.testbeds
        case BatchJob():
            shelf = esi.jobs
        case Scheduling():
            shelf = esi.schedulings
        case Application():
            shelf = esi.apps
        case Account():
            shelf = esi.accounts
        case PriorityClass():
            shelf = esi.classes
    return cast("dict[str, Thing]", shelf)


def _same(old: Testbed, new: Testbed) -> bool:
    """Whether its slots are the same: a status that we wrote comes back as news."""
    return (old.spec, old.problem, old.deleting, old.created) == (
        new.spec, new.problem, new.deleting, new.created,
    )  # fmt: skip


def _forget(state: State, uid: str) -> None:
    esi = state.esi
    if esi.versions.pop(uid, None) is None:
        return
    for each in esi.shelves:
        thing = cast("dict[str, Thing]", each).pop(uid, None)
        if thing is not None:
            tag = tag_of(cast("Testbed", thing))
            del esi.names[tag, thing.namespace, thing.name]
            esi.failures.pop((_kind(tag), thing.namespace, thing.name), None)
    esi.taken_back(esi.status.pop(uid, None), None)
    esi.verdicts.pop(uid, None)
    for key in [key for key in esi.sent if key[0] == uid]:
        del esi.sent[key]
    if uid in esi.tables:
        esi.stale[uid] = None
    esi.dirty = True


def _kind(tag: str) -> str:
    """The Kubernetes kind behind a tag."""
    return "Job" if tag == tag_of(BatchV1Job) else tag


def _overcome(state: State, thing: Thing, old: Thing | None) -> None:
    """A refused write is past once the object has changed, or what it is made from: then it is tried anew.

    Our own writes of a status do not change what is made from it.
    """
    failures = state.esi.failures
    if not failures:
        return
    namespace, name = thing.namespace, thing.name
    failures.pop((_kind(tag_of(cast("Testbed", thing))), namespace, name), None)
    if isinstance(thing, PriorityClass) and old is None:
        for key in [key for key in failures if key[0] == "Pod"]:
            del failures[key]
    if not isinstance(thing, Testbed | BatchJob) or _asks_as(old, thing):
        return
    ghosts = f"ghostpod-{name}-on-"
    for key in list(failures):
        made = key[2].startswith(ghosts) if isinstance(thing, Testbed) else key[2] == name
        if key[1] == namespace and made:
            del failures[key]


def _asks_as(old: Thing | None, new: Testbed | BatchJob) -> bool:
    if not isinstance(old, Testbed | BatchJob) or old.generation != new.generation:
        return False
    return isinstance(new, Testbed) or old.annotations == new.annotations
