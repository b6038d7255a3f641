"""Slots of Testbeds: how they are numbered, what they hold, who gets which, what becomes of them."""

import pytest
from msgspec import structs

from auditing import differences, listings
from fairlead.core.dump import dump
from fairlead.core.esi.numbering import lay_out
from fairlead.core.esi.slots import free_of
from fairlead.core.esi.table import Slot
from fairlead.core.state import State
from fairlead.core.story import explain
from fairlead.core.views import queue_page, queues_page
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.dump import Holds
from fairlead.model.esi import ID_LABEL, NODE_LABEL, SLOT, SlotState, Testbed
from fairlead.model.group import Phase
from fairlead.model.pod import PodPhase
from fairlead.model.settings import SLOT_QUEUE
from slotted import (
    ERROR,
    FREE,
    LABEL,
    bed_of,
    free,
    ghost,
    ghostly,
    group,
    plain,
    requests,
    slot,
    slotted,
    states,
    table,
    words,
    world,
)

# -- which slots there are ---------------------------------------------------------------------------


def test_slots_are_numbered_round_robin_over_the_nodes() -> None:
    made = world({"n0": "0", "n1": "1", "n2": "2"})
    assert table(made).order == ["n0/0", "n1/0", "n2/0", "n0/1", "n1/1", "n2/1"]
    assert [each.position for each in free_of(table(made))] == [0, 1, 2, 3, 4, 5]


def test_nodes_stand_in_the_order_of_their_number_and_those_without_come_last() -> None:
    made = world({"a": "10", "b": "9", "c": "x", "d": "9", "e": "007"}, bed_of(slots=1))
    assert table(made).nodes == ("e", "b", "d", "a", "c")
    assert [slot(made, f"{node}/0").node_id for node in "abcde"] == [10, 9, -1, 9, -1]


def test_a_node_that_joins_gets_slots_and_the_others_keep_their_names() -> None:
    made = world({"n1": "1", "n2": "2"})
    made.node("n0", {LABEL: "0"})
    made.run(100)
    assert table(made).order == ["n0/0", "n1/0", "n2/0", "n0/1", "n1/1", "n2/1"]
    assert [each.position for each in table(made).slots.values()] == list(range(6))


@pytest.mark.parametrize(
    ("bed", "said"),
    [
        (bed_of(slots=0), "slotsPerNode is 0"),
        (bed_of(slots=10**9), "slotsPerNode is 1000000000, not between 1 and 1000"),
        (bed_of(cpu="much"), "resourcesPerSlot: 'much' is not a quantity"),
    ],
)
def test_a_testbed_that_makes_no_sense_has_no_slots_and_says_why(bed: object, said: str) -> None:
    made = world()
    made.tell(ev.EsiSeen(structs.replace(bed, uid="other", name="other", version=10**6)))
    made.run(100)
    found = table(made, "other")
    assert not found.slots and said in found.problem


# -- what they hold ----------------------------------------------------------------------------------


def test_RA11_a_free_slot_is_nobody_elses_though_no_pod_holds_it() -> None:
    made = world({"n0": "0"})
    assert free(made, "n0") == 800 and not made.ghosts()
    made.pod(plain("big", 900))
    made.run(1_000)
    assert not made.pods["big"].node
    made.pod_gone("big")
    made.pod(plain("small", 800))
    made.run(1_000)
    assert made.pods["small"].node == "n0"


def test_RA11_what_a_testbed_held_is_free_once_it_is_gone() -> None:
    made = world({"n0": "0"})
    made.pod(plain("big", 2_000))
    made.run(1_000)
    assert not made.pods["big"].node
    made.delete("Testbed", "tb")
    made.run(1_000)
    assert made.pods["big"].node == "n0" and not made.engine.state.esi.tables


def test_RA9_a_node_without_room_for_all_its_slots_has_none_and_says_what_it_lacks() -> None:
    made = world({"n0": "0", "n1": "1", "n2": ""})
    made.pod(plain("other", 1_000, scheduler="default-scheduler", node="n0", phase=PodPhase.RUNNING))
    made.run(100)
    assert states(made) == {"n0/0": ERROR, "n1/0": FREE, "n0/1": ERROR, "n1/1": FREE}
    assert table(made).problems == {"n0": ["Requires 1.2 of cpu resources. Available: 1"]}
    assert free(made, "n0") == 1_000
    made.pod_gone("other")
    made.run(100)
    assert set(states(made).values()) == {FREE} and not table(made).problems and free(made, "n0") == 800


def test_RA9_pods_that_have_ended_take_no_room() -> None:
    made = world({"n0": "0"})
    made.pod(plain("done", 2_000, scheduler="x", node="n0", phase=PodPhase.SUCCEEDED))
    made.run(100)
    assert set(states(made).values()) == {FREE}


def test_of_testbeds_that_share_a_node_the_earlier_one_has_its_slots() -> None:
    early, late = bed_of("early", created=1), bed_of("late", created=2)
    made = world({"n0": "0"}, late, early)
    for bed in (late, early):
        made.tell(ev.EsiSeen(structs.replace(bed, uid=f"uid-{bed.name}", version=10**6)))
    made.run(100)
    assert set(states(made, "early").values()) == {FREE}
    assert set(states(made, "late").values()) == {ERROR}
    assert table(made, "late").problems == {"n0": ["Requires 1.2 of cpu resources. Available: 0.8"]}


def test_a_group_with_a_node_for_itself_leaves_no_slots_there() -> None:
    made = world({"n0": "0", "n1": ""})
    made.pod(plain("alone", 100, annotations={"fairlead.dev/exclusive": "true"}))
    made.run(1_000)
    assert made.pods["alone"].node == "n1"
    made.label("n1", **{LABEL.replace("/", "__"): "1"})
    made.run(100)
    assert table(made).problems == {"n1": ["a group has the node for itself"]}
    made.pod_gone("alone")
    made.run(100)
    assert set(states(made).values()) == {FREE}


# -- who gets which ----------------------------------------------------------------------------------


def test_RA8_pods_get_the_first_free_slot_that_they_may_use_in_order_of_arrival() -> None:
    made = world()
    for name in ("a", "b", "c"):
        made.pod(slotted(name, ids="1_2"))
    made.run(0)
    state = made.engine.state
    assert states(made) == {"n0/0": FREE, "n1/0": "RESERVED a", "n0/1": "RESERVED b", "n1/1": FREE}
    assert words(made, "c") == "no slot it may use is free: n1/0, n0/1 of testbed tb"
    assert group(state, "c").queue == SLOT_QUEUE and not state.line
    made.run(1_000)
    assert (made.pods["a"].node, made.pods["b"].node, made.pods["c"].node) == ("n1", "n0", "")


def test_RA8_a_pod_is_bound_with_its_slot_written_on_it() -> None:
    made = world()
    made.pod(slotted("a", slots="n1/1"))
    made.run(1_000)
    pod = made.pods["a"]
    assert pod.node == "n1" and pod.annotations[SLOT] == "n1/1"
    assert (pod.labels[ID_LABEL], pod.labels[NODE_LABEL]) == ("1", "n1")
    assert states(made)["n1/1"] == "OCCUPIED a" and free(made, "n1") == 800
    assert group(made.engine.state, "a").phase is Phase.RUNNING


def test_RA8_more_slots_than_a_label_holds_and_nodes_with_names_longer_than_one() -> None:
    name = "n" + "0123456789" * 10
    made = world({name: "0", "n1": "1"})
    made.pod(slotted("a", ids="1", slots=",".join(f"x/{i}" for i in range(200)) + f",{name}/1"))
    made.run(1_000)
    assert made.pods["a"].node == name and NODE_LABEL not in made.pods["a"].labels
    made.crash()
    made.start()
    made.run(1_000)
    assert states(made)[f"{name}/1"] == "OCCUPIED a"


def test_the_annotation_counts_before_the_label() -> None:
    made = world()
    made.pod(slotted("a", ids="0", slots="n1/1,n1/0"))
    made.run(0)
    assert states(made)["n1/0"] == "RESERVED a"


def test_a_slot_that_is_free_again_goes_to_the_one_who_waits() -> None:
    made = world()
    made.pod(slotted("a", ids="0"), run_time=1_000)
    made.pod(slotted("b", ids="0"))
    made.run(500)
    assert states(made)["n0/0"] == "OCCUPIED a"
    made.run(3_000)
    assert states(made)["n0/0"] == "OCCUPIED b" and made.pods["b"].node == "n0"


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (slotted("p", ids="0", bed="none"), "testbed default/none does not exist"),
        (
            slotted("p"),
            "names no slots: annotation fairlead.dev/slots (NODE/INDEX,...) says which it may use",
        ),
        (slotted("p", ids="9"), "none of the slots that it may use exists in testbed default/tb"),
        (slotted("p", slots="n0/x,/1,n0"), "none of the slots that it may use exists in testbed default/tb"),
        (slotted("p", ids="0", asks=requests(700)), "it asks for cpu=0.7, a slot of testbed tb has cpu=0.6"),
    ],
)
def test_a_pod_that_can_have_no_slot_waits_and_says_why(pod: object, said: str) -> None:
    made = world()
    made.pod(pod)
    made.run(100)
    assert words(made, "p") == said
    assert not made.pods["p"].node and set(states(made).values()) == {FREE}


def test_RA9_a_pod_that_asks_for_a_little_more_belongs_if_the_node_has_it() -> None:
    little = requests(600, int(1024 * (1 << 20) * 1.02))
    made = world({"n0": "0"})
    made.pod(slotted("a", ids="0", asks=little))
    made.run(1_000)
    assert states(made)["n0/0"] == "OCCUPIED a"
    full = world({"n0": "0"}, bed_of(slots=3))
    full.pod(slotted("a", ids="0_1", asks=requests(612)))
    full.pod(plain("other", 200))
    full.run(1_000)
    assert full.pods["a"].node == "n0" or words(full, "a").endswith("more than the slot")


def test_a_pod_that_asks_for_more_than_slot_and_node_have_waits() -> None:
    made = world({"n0": "0"}, bed_of(slots=2, cpu="1"))
    made.pod(slotted("a", ids="0", asks=requests(1_020)))
    made.run(1_000)
    assert not made.pods["a"].node
    assert words(made, "a").endswith("node n0 has not cpu=0.02 more than the slot")


def test_a_gated_or_deleted_pod_gets_no_slot() -> None:
    made = world()
    made.pod(slotted("a", ids="0", gated=True))
    made.pod(slotted("b", ids="1"))
    made.run(0)
    made.change("b", deleting=True)
    made.run(0)
    assert set(states(made).values()) <= {FREE, "RESERVED b"} and states(made)["n0/0"] == FREE
    made.change("a", gated=False)
    made.run(1_000)
    assert states(made)["n0/0"] == "OCCUPIED a"


def test_a_pod_of_another_scheduler_gets_a_slot_but_no_plan() -> None:
    made = world()
    made.pod(slotted("a", ids="2", scheduler="stock"))
    made.run(1_000)
    assert states(made)["n0/1"] == "RESERVED a" and not made.pods["a"].node
    assert not [each for _, each in made.log if isinstance(each, cmd.Submit)]


@pytest.mark.parametrize("marks", ["annotation", "labels", "none"])
def test_a_pod_that_others_bound_sits_where_it_says_else_where_it_may(marks: str) -> None:
    made = world({"n0": "0"}, bed_of(slots=3))
    pod = slotted("a", ids="1_2", scheduler="stock", node="n0", phase=PodPhase.RUNNING)
    if marks == "annotation":
        pod = structs.replace(pod, annotations={SLOT: "n0/2"})
    elif marks == "labels":
        pod = structs.replace(pod, labels={**pod.labels, ID_LABEL: "2", NODE_LABEL: "n0"})
    made.pod(pod)
    made.run(100)
    assert states(made)["n0/1" if marks == "none" else "n0/2"] == "OCCUPIED a"


def test_who_is_bound_elsewhere_than_its_slot_leaves_it_to_others() -> None:
    made = world()
    made.pod(slotted("a", ids="0_1", scheduler="stock"))
    made.pod(slotted("b", ids="0", scheduler="stock"))
    made.run(0)
    assert (states(made)["n0/0"], words_of(made, "b")) == ("RESERVED a", {})
    made.change("a", node="n1", phase=PodPhase.RUNNING)
    made.run(100)
    assert states(made)["n0/0"] == "RESERVED b" and states(made)["n1/0"] == "OCCUPIED a"


def words_of(made: object, pod: str) -> dict[str, object]:
    """Of a pod that is not ours no group is kept."""
    state = made.engine.state
    return {pod: state.group_of[pod]} if pod in state.group_of else {}


# -- ghosts ------------------------------------------------------------------------------------------


def test_RA11_a_ghost_pod_holds_its_slot_once_and_goes_before_the_pod_comes() -> None:
    made = world({"n0": "0"}, ghostly())
    made.run(2_000)
    assert [each.node for each in made.ghosts()] == ["n0", "n0"] and free(made, "n0") == 800
    assert set(states(made).values()) == {FREE}
    made.pod(slotted("a", ids="1"))
    made.run(0)
    assert "which ghost pod" in words(made, "a")
    made.run(2_000)
    assert states(made) == {"n0/0": FREE, "n0/1": "OCCUPIED a"} and free(made, "n0") == 800
    assert [each.labels[ID_LABEL] for each in made.ghosts()] == ["0"]
    deleted = [each for _, each in made.log if isinstance(each, cmd.DeleteObject)]
    assert [(each.ref.kind, each.grace) for each in deleted] == [("Pod", 0)]


def test_a_second_ghost_pod_in_a_slot_counts_as_a_foreigner() -> None:
    made = world({"n0": "0"}, bed_of(slots=3))
    for uid in ("one", "two"):
        made.pod(ghost("n0", 1, uid=uid))
    made.tell()
    made.engine.state.esi.stir("n0")
    made.run(0)
    assert slot(made, "n0/1").ghost == "one"
    assert table(made).problems["n0"] == ["Requires 1.8 of cpu resources. Available: 1.4"]


# -- nodes and Testbeds change -----------------------------------------------------------------------


@pytest.mark.parametrize("change", ["cordon", "not ready", "deleting"])
def test_a_closed_node_has_no_free_slots_and_who_waits_for_one_goes_elsewhere(change: str) -> None:
    made = world()
    made.pod(slotted("runs", ids="2"))
    made.run(1_000)
    node = made.nodes["n0"]
    fields = {
        "cordon": {"unschedulable": True},
        "not ready": {"ready": False},
        "deleting": {"deleting": True},
    }
    made.pod(slotted("stays", ids="0_1", scheduler="stock"))
    made.run(0)
    assert states(made)["n0/0"] == "RESERVED stays"
    made.node(structs.replace(node, **fields[change]))
    made.run(100)
    assert states(made) == {"n0/0": ERROR, "n1/0": "RESERVED stays", "n0/1": "OCCUPIED runs", "n1/1": FREE}
    assert len(table(made).problems["n0"]) == 1
    made.node(node)
    made.run(100)
    assert states(made)["n0/0"] == FREE


@pytest.mark.parametrize("how", ["label", "edit", "gone"])
def test_RA10_an_occupied_slot_stays_until_its_pod_ends_whatever_becomes_of_its_node(how: str) -> None:
    made = world()
    made.pod(slotted("a", ids="3"), run_time=5_000)
    made.run(1_000)
    if how == "label":
        made.label_node("n1", {LABEL: None})
    elif how == "edit":
        made.edit("Testbed", "tb", {"spec": {"slotsPerNode": 1}})
    else:
        made.node_gone("n1")
    made.run(1_000)
    left = slot(made, "n1/1")
    assert (left.position, left.state, left.pod) == (-1, SlotState.OCCUPIED, "a")
    assert made.pods["a"].phase is PodPhase.RUNNING
    assert not [each for _, each in made.log if isinstance(each, cmd.Evict | cmd.DeleteObject)]
    made.run(10_000)
    assert "n1/1" not in table(made).slots


def test_RA10_larger_slots_wait_for_the_pods_that_run() -> None:
    made = world({"n0": "0"}, bed_of(slots=3))
    for number in range(3):
        made.pod(slotted(f"p{number}", ids=str(number)), run_time=5_000 * (number + 1))
    made.run(1_000)
    made.edit("Testbed", "tb", {"spec": {"slotsPerNode": 2, "resourcesPerSlot": {"cpu": "1"}}})
    made.run(1_000)
    assert states(made) == {"n0/0": "OCCUPIED p0", "n0/1": "OCCUPIED p1", "n0/2": "OCCUPIED p2"}
    made.run(6_000)
    assert states(made)["n0/0"] == ERROR and states(made)["n0/1"] == "OCCUPIED p1"
    made.run(10_000)
    assert states(made) == {"n0/0": FREE, "n0/1": FREE} and free(made, "n0") == 0
    assert not [each for _, each in made.log if isinstance(each, cmd.Evict)]


def test_a_restart_finds_the_same_slots_and_the_same_pods_in_them() -> None:
    made = world()
    made.pod(slotted("a", ids="3"))
    made.pod(slotted("b", slots="n1/0"))
    made.run(1_000)
    made.label_node("n1", {LABEL: None})
    made.run(1_000)
    before = states(made)
    assert before["n1/1"] == "OCCUPIED a"
    made.crash()
    made.start()
    made.run(20_000)
    assert states(made) == before


# -- what people and audits see ----------------------------------------------------------------------


def test_RA8_who_waits_for_a_slot_is_explained_with_who_has_it() -> None:
    made = world({"n0": "0"})
    made.pod(slotted("a", ids="0"))
    made.pod(slotted("b", ids="0"))
    made.pod(plain("ordinary", 5_000))
    made.run(1_000)
    state = made.engine.state
    told = explain(state, group(state, "b"), made.now)
    assert told.group.text == "no slot it may use is free: n0/0 of testbed tb"
    assert told.next_step == "it starts once a slot that it may use is free (n0/0 has pod default/a)"
    assert told.ahead == 0 and told.short == ""
    rows = {row.name: row for row in queue_page(state, made.now).groups}
    assert (rows["b"].queue, rows["b"].text) == (SLOT_QUEUE, told.group.text)
    assert explain(state, group(state, "ordinary"), made.now).ahead == 0
    assert queues_page(state, made.now).warnings == ()


def test_slots_that_are_kept_free_are_no_difference_to_an_audit_and_no_pods() -> None:
    made = world()
    made.pod(slotted("a", ids="0"))
    made.run(1_000)
    state = made.engine.state
    assert differences(state, listings(made)) == []
    picture = dump(state, made.now, "test")
    held = [pod for node in picture.nodes for pod in node.held]
    assert sorted(pod.name for pod in held if pod.why is Holds.SLOT) == ["tb/n0/1", "tb/n1/0", "tb/n1/1"]
    assert picture.counts["pods_holding"] == 1


def test_a_hold_that_is_wrong_is_found_by_an_audit_and_put_right() -> None:
    made = world()
    state = made.engine.state
    made.check_always = False
    state.inventory.release(next(iter(state.esi.holds)))
    assert len(differences(state, listings(made))) == 1
    made.tell(ev.Repaired(made.now, (), recount=True))
    made.run(0)
    made.look()
    assert differences(state, listings(made)) == [] and free(made, "n0") == 800


def test_a_mistake_of_ours_about_slots_is_remembered_and_everybody_else_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trip(state: State, testbed: Testbed) -> list[Slot]:
        return lay_out(state, testbed) if testbed.name == "tb" else 1 // 0

    made = world()
    monkeypatch.setattr("fairlead.core.esi.slots.lay_out", trip)
    made.put(bed_of("broken"))
    made.pod(plain("ordinary", 300))
    made.run(1_000)
    poison = made.engine.state.poisoned["Slots"]
    assert poison.kind == "Testbed" and "ZeroDivisionError" in poison.text
    assert made.pods["ordinary"].node
    made.pod(slotted("a", ids="0"))
    made.run(1_000)
    assert states(made)["n0/0"] == "OCCUPIED a"
