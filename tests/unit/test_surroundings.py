"""What surrounds pods, as the engine knows it: old news, lists, what is gone, what is decided of claims."""

import msgspec
import pytest
from msgspec import structs
from test_engine import engine, node, pod

from fairlead.core.surroundings import Choice, Surroundings
from fairlead.model import event as ev
from fairlead.model.group import Phase, Reason, Why
from fairlead.model.pod import Shape
from fairlead.model.storage import Attachment, Capacity, Claim, CsiDriver, PersistentVolume, StorageClass
from fairlead.model.thing import THINGS, DeviceClass, Namespace, Thing, kind_of

CLAIM = Claim("default", "data", "u1", storage_class="local", size=1000)
VOLUME = PersistentVolume("pv-a", storage_class="local", size=2000, available=True)


def seen(thing: Thing, version: int = 1, uid: str = "") -> ev.ThingSeen:
    return ev.ThingSeen(uid or f"uid-{kind_of(thing)}-{getattr(thing, 'name', '')}", version, thing)


def filled(*things: Thing) -> Surroundings:
    made = Surroundings()
    for thing in things:
        event = seen(thing)
        made.put(event.uid, event.version, event.thing)
    return made


def test_every_kind_goes_through_json_and_is_told_apart():
    some = [Namespace("a", {"x": "y"}), CLAIM, VOLUME, Capacity("local", 5), Attachment("n0", "d", "v")]
    events = [
        seen(thing) for thing in (*some, StorageClass("s"), CsiDriver("d", True), DeviceClass("g", "r"))
    ]
    assert msgspec.json.decode(msgspec.json.encode(events), type=list[ev.Event]) == events
    assert len({kind_of(each) for each in THINGS}) == len(THINGS)


def test_F32_old_news_changes_nothing():
    made, _ = engine()
    around = made.state.surroundings
    made.learn([seen(CLAIM, 5)])
    version = around.version
    made.learn([seen(structs.replace(CLAIM, volume="old"), 4), seen(CLAIM, 5), seen(CLAIM, 6)])
    assert around.storage.claims == {("default", "data"): CLAIM}
    assert around.version == version  # a newer version with nothing new in it is no change either


def test_what_is_gone_stays_gone_and_its_name_is_free_for_another():
    made, _ = engine()
    around = made.state.surroundings
    made.learn([seen(CLAIM, 5, "first"), ev.ThingGone("first", 6), seen(CLAIM, 5, "first")])
    assert not around.storage.claims
    again = structs.replace(CLAIM, uid="u2")
    made.learn([seen(again, 9, "second"), ev.ThingGone("first", 6), seen(CLAIM, 5, "first")])
    assert around.storage.claims == {("default", "data"): again}


def test_another_under_the_name_replaces_the_one_whose_end_nobody_saw():
    made, _ = engine()
    made.learn([seen(VOLUME, 5, "first"), seen(structs.replace(VOLUME, size=9), 8, "second")])
    made.learn([seen(VOLUME, 7, "first"), ev.ThingGone("first", 8)])
    assert made.state.surroundings.storage.volumes["pv-a"].size == 9


def test_what_a_list_does_not_have_is_gone_unless_it_is_newer():
    made, _ = engine()
    made.learn([seen(Namespace(name), at) for name, at in (("kept", 1), ("gone", 2), ("new", 30))])
    made.learn([seen(CLAIM), ev.Listed("Namespace", ("uid-Namespace-kept",), 20)])
    assert list(made.state.surroundings.namespaces) == ["kept", "new"]
    assert made.state.surroundings.storage.claims, "a list is about its own kind"


def test_a_picture_that_was_given_out_does_not_change():
    around = filled(CLAIM, VOLUME, Namespace("a"))
    before, spaces = around.storage, around.namespaces
    assert around.storage is before
    around.put("c2", 2, structs.replace(CLAIM, name="more"))
    around.put("n2", 2, Namespace("b"))
    around.drop("uid-PersistentVolume-pv-a")
    assert list(before.volumes) == ["pv-a"] and list(before.claims) == [("default", "data")]
    assert list(spaces) == ["a"] and list(around.namespaces) == ["a", "b"]
    assert not around.storage.volumes and len(around.storage.claims) == 2


def test_drivers_and_capacities_come_as_the_filters_want_them():
    around = filled(CsiDriver("tracked", True), CsiDriver("other"))
    around.put("one", 1, Capacity("local", 5))
    around.put("two", 1, Capacity("local", 7))
    around.put("one", 2, Capacity("local", 6))
    assert around.storage.tracked == ("tracked",)
    assert around.storage.capacities == (Capacity("local", 6), Capacity("local", 7))


@pytest.mark.parametrize("thing", [Namespace("a"), VOLUME, CLAIM, StorageClass("s"), CsiDriver("d")])
def test_something_may_fit_now(thing: Thing):
    rules = msgspec.json.decode('{"volumes": [{"kind": "persistentVolumeClaim", "id": "data"}]}')
    waiting = pod("p", cpu=9)
    shape = msgspec.convert({"requests": waiting.shape.requests, "rules": rules}, type(waiting.shape))
    made, _ = engine(ev.NodeSeen(node("n0")), ev.PodSeen(structs.replace(waiting, shape=shape)))
    made.state.freed = False
    made.state.planning = made.state.version
    made.learn([seen(thing)])
    assert made.state.freed
    made.state.freed = False
    made.learn([structs.replace(seen(thing), version=2)])
    assert not made.state.freed, "nothing was new"


# -- what is decided ---------------------------------------------------------------------------------

DATA = ("default", "data")


def test_a_chosen_volume_is_taken_until_nobody_holds_the_choice():
    around = filled(CLAIM, VOLUME)
    choice = Choice(DATA, "pv-a", "n0")
    around.choose("p1", choice)
    around.choose("p2", choice)
    assert around.storage.volumes["pv-a"].claim == (*DATA, "u1")
    around.forget("p1")
    assert around.storage.volumes["pv-a"].claim == (*DATA, "u1")
    around.forget("p2")
    assert around.storage.volumes["pv-a"] == VOLUME and not around.choices


def test_a_chosen_node_shows_on_the_claim_until_it_is_written_or_let_go():
    around = filled(CLAIM)
    around.choose("p1", Choice(DATA, "", "n0"))
    assert around.storage.claims[DATA].selected_node == "n0"
    around.put("uid-PersistentVolumeClaim-data", 2, structs.replace(CLAIM, size=5))  # something else of it
    assert around.storage.claims[DATA].selected_node == "n0" and not around.choices[DATA].written
    around.forget("p1")
    assert around.storage.claims[DATA].selected_node is None


def test_what_was_written_and_taken_back_is_seen_as_it_is():
    around = filled(CLAIM)
    around.choose("p1", Choice(DATA, "", "n0"))
    uid = "uid-PersistentVolumeClaim-data"
    around.put(uid, 2, structs.replace(CLAIM, selected_node="n0"))
    around.put(uid, 3, CLAIM)  # the provisioner could not
    assert around.choices[DATA].written
    assert around.storage.claims[DATA].selected_node is None


def test_a_volume_that_another_took_is_seen_as_it_is():
    around = filled(CLAIM, VOLUME)
    around.choose("p1", Choice(DATA, "pv-a", "n0"))
    around.put("uid-PersistentVolume-pv-a", 2, structs.replace(VOLUME, claim=("x", "y", "z")))
    assert around.storage.volumes["pv-a"].claim == ("x", "y", "z") and not around.choices[DATA].written


def test_a_claim_that_is_gone_frees_the_volume_that_was_chosen_for_it():
    around = filled(CLAIM, VOLUME)
    around.choose("p1", Choice(DATA, "pv-a", "n0"))
    around.drop("uid-PersistentVolumeClaim-data")
    assert around.storage.volumes["pv-a"] == VOLUME


# -- resources behind which devices stand ------------------------------------------------------------


def test_the_class_behind_a_resource():
    around = filled(
        DeviceClass("b", "example.com/gpu"), DeviceClass("a", "example.com/gpu"), DeviceClass("c")
    )
    assert around.backed("example.com/gpu") == "a"
    assert around.backed("deviceclass.resource.kubernetes.io/c") == "c"
    assert around.backed("deviceclass.resource.kubernetes.io/d") == around.backed("cpu") == ""


def asking(**requests: int) -> ev.PodSeen:
    amounts = sorted(
        {"cpu": 1_000, "pods": 1, **{f"example.com/{k}": n for k, n in requests.items()}}.items()
    )
    return ev.PodSeen(structs.replace(pod("p"), shape=Shape(tuple(amounts))))


def offering(name: str, **extended: int) -> ev.NodeSeen:
    made = node(name)
    more = tuple((f"example.com/{key}", n) for key, n in extended.items())
    return ev.NodeSeen(structs.replace(made, allocatable=tuple(sorted((*made.allocatable, *more)))))


def test_a_resource_that_only_a_device_class_offers_is_unsupported_and_says_so():
    made, _ = engine(offering("n0"), asking(gpu=1))
    (group,) = made.state.groups.values()
    made.learn([seen(DeviceClass("gpus", "example.com/gpu"))])
    assert group.phase is Phase.HELD and group.reason == Reason(
        Why.UNSUPPORTED,
        "Unsupported: resource example.com/gpu from DeviceClass gpus (dynamic resource allocation)",
    )
    made.learn([ev.ThingGone("uid-DeviceClass-gpus", 2)])
    assert group.reason.why is not Why.UNSUPPORTED


def test_a_node_that_offers_the_resource_itself_is_used():
    made, _ = engine(seen(DeviceClass("gpus", "example.com/gpu")), offering("n0"), asking(gpu=1))
    (group,) = made.state.groups.values()
    assert group.reason.why is Why.UNSUPPORTED
    made.learn([offering("n1", gpu=4)])
    assert group.phase is Phase.QUEUED


def test_resources_of_no_class_are_no_affair_of_devices():
    made, _ = engine(seen(DeviceClass("gpus", "example.com/gpu")), offering("n0", nic=1), asking(nic=1))
    (group,) = made.state.groups.values()
    assert group.phase is Phase.QUEUED
