"""Canonical jobspecs: what is read, and where an error is said to be."""

import copy
import json
from typing import Any

import pytest

from fairlead.core.tree.counts import alternatives, largest, nodes_asked, taken
from fairlead.model.idset import hostlist, hostlist_text, idset, idset_text
from fairlead.model.jobspec import Constraint, Count, Jobspec, Resource
from fairlead.wire.jobspec import UNBOUNDED, JobspecError, UnknownType, read
from fairlead.wire.units import in_graph_units

GOOD: dict[str, Any] = {
    "version": 1,
    "resources": [
        {
            "type": "node",
            "count": {"min": 2, "max": 8, "operator": "*", "operand": 2},
            "exclusive": True,
            "with": [
                {
                    "type": "slot",
                    "count": 1,
                    "label": "task",
                    "with": [
                        {"type": "memory", "count": "4-16:4", "unit": "GB"},
                        {"type": "core", "count": {"min": 1}},
                    ],
                }
            ],
        }
    ],
    "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}],
    "attributes": {
        "system": {
            "duration": 59.2,
            "queue": "debug",
            "constraints": {"or": [{"ranks": ["0-3"]}, {"not": []}]},
        }
    },
}


def with_(path: str, value: Any) -> str:
    """GOOD with another value at a path such as resources.0.count; None takes the key away."""
    changed = copy.deepcopy(GOOD)
    at: Any = changed
    *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in steps:
        at = at[step]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return json.dumps(changed)


def test_everything_is_read() -> None:
    job = read(json.dumps(GOOD), ["node", "core", "memory"])
    (node,) = job.resources
    assert (node.type, node.exclusive, node.count) == ("node", True, Count(2, 8, "*", 2))
    (slot,) = node.children
    assert (slot.label, slot.exclusive, slot.count) == ("task", None, Count(1, 1))
    memory, core = slot.children
    assert (memory.unit, memory.count) == ("GB", Count(4, 16, "+", 4))
    assert core.count == Count(1, UNBOUNDED)
    assert (job.duration, job.queue) == (60, "debug"), "durations are rounded up"
    assert job.constraint == Constraint("or", (Constraint("ranks", (), ("0-3",)), Constraint("not")))


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ("version", None, "jobspec"),
        ("version", 0, "version"),
        ("version", "one", "version"),
        ("more", 1, "jobspec"),
        ("resources", {}, "resources"),
        ("resources.0", [], "resources[0]"),
        ("resources.0.type", None, "resources[0]"),
        ("resources.0.count", None, "resources[0]"),
        ("resources.0.count", True, "resources[0].count"),
        ("resources.0.count", -1, "resources[0].count"),
        ("resources.0.count", "many", "resources[0].count"),
        ("resources.0.count", "8-2", "resources[0].count.max"),
        ("resources.0.count.min", None, "resources[0].count"),
        ("resources.0.count.min", 0, "resources[0].count.min"),
        ("resources.0.count.max", None, "resources[0].count"),
        ("resources.0.count.max", 1, "resources[0].count.max"),
        ("resources.0.count.operator", "-", "resources[0].count.operator"),
        ("resources.0.count.operand", 1, "resources[0].count.operand"),
        ("resources.0.count", {"min": 1, "max": 9, "operator": "^", "operand": 2}, "resources[0].count.min"),
        ("resources.0.count.least", 1, "resources[0].count"),
        ("resources.0.exclusive", "perhaps", "resources[0].exclusive"),
        ("resources.0.colour", "red", "resources[0]"),
        ("resources.0.with.0.label", None, "resources[0].with[0]"),
        ("resources.0.with.0.with.1.type", "unicorn", "resources[0].with[0].with[1].type"),
        ("resources.0.with.0.with.0.unit", ["GB"], "resources[0].with[0].with[0].unit"),
        ("tasks", "app", "tasks"),
        ("tasks.0.slot", None, "tasks[0]"),
        ("tasks.0.command", "app", "tasks[0].command"),
        ("tasks.0.command", [["app"]], "tasks[0].command[0]"),
        ("tasks.0.count", {"per_slot": 1, "total": 2}, "tasks[0].count"),
        ("attributes", 7, "attributes"),
        ("attributes.machine", {}, "attributes"),
        ("attributes.system.duration", "soon", "attributes.system.duration"),
        ("attributes.system.duration", -1, "attributes.system.duration"),
        ("attributes.system.constraints", {"maybe": []}, "attributes.system.constraints.maybe"),
        ("attributes.system.constraints.or.0.ranks", ["a"], "attributes.system.constraints.or[0].ranks[0]"),
        (
            "attributes.system.constraints",
            {"properties": ["fa&st"]},
            "attributes.system.constraints.properties[0]",
        ),
    ],
)
def test_an_error_names_its_place(path: str, value: Any, place: str) -> None:
    with pytest.raises(JobspecError) as caught:
        read(with_(path, value), ["node", "core", "memory"])
    assert str(caught.value).startswith(f"{place}: ")
    assert "\n" not in str(caught.value)


SSD = {"type": "ssd", "count": 5, "unit": "GiB", "exclusive": False}
CORE = {"type": "core", "count": 2, "exclusive": False}


@pytest.mark.parametrize(
    ("inside", "place"),
    [
        ([SSD, {"type": "node", "count": 1}, {**SSD, "count": 9}], "with[2].type"),
        ([SSD, {"type": "ssd", "count": 1, "exclusive": True}], "with[1].type"),
        ([{**SSD, "count": {"min": 5}}], "with[0].count"),
        ([{**SSD, "count": {"min": 5, "max": 10, "operator": "+", "operand": 1}}], "with[0].count"),
        ([{**SSD, "count": "2-8:2"}], "with[0].count"),
        ([{"type": "node", "count": 1, "exclusive": True, "with": [CORE]}], "with[0].with[0].exclusive"),
    ],
)
def test_what_no_scheduler_could_tell_apart_is_an_error(inside: list[Any], place: str) -> None:
    slot = {"type": "slot", "count": 1, "label": "task", "with": inside}
    with pytest.raises(JobspecError) as caught:
        read(with_("resources", [slot]))
    assert str(caught.value).startswith(f"resources[0].{place}: ")
    assert "\n" not in str(caught.value)


def test_an_exclusive_slot_of_shared_nodes_is_an_error() -> None:
    node = {"type": "node", "count": 1, "exclusive": False, "with": [{"type": "core", "count": 2}]}
    slot = {"type": "slot", "count": 1, "label": "task", "exclusive": True, "with": [node]}
    with pytest.raises(JobspecError, match=r"^resources\[0\]\.with\[0\]\.exclusive: is false"):
        read(with_("resources", [slot]))


def test_what_looks_like_those_is_read() -> None:
    whole = {"type": "ssd", "count": {"min": 1, "max": 4}, "unit": "GiB", "exclusive": True}
    nested = [{"type": "slot", "count": 1, "label": label, "with": [whole]} for label in "ab"]
    one = {"type": "slot", "count": 1, "label": "task", "with": nested}
    racks = [{"type": "node", "count": 1}, {"type": "node", "count": 2}]
    rack = {"type": "rack", "count": 1, "exclusive": False, "with": racks}
    slot, other = read(with_("resources", [one, rack])).resources
    assert [each.children[0].count for each in slot.children] == [Count(1, 4), Count(1, 4)]
    assert [each.count.max for each in other.children] == [1, 2]


def test_a_type_the_graph_has_not_is_an_error_of_its_own() -> None:
    with pytest.raises(UnknownType):
        read(with_("resources.0.type", "zone"), ["node"])
    assert read(with_("resources.0.type", "zone")).resources[0].type == "zone"


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "\n- a:\n - "])
def test_F28_a_text_nested_too_deeply_is_an_error(opening: str) -> None:
    for times in (201, 100_000):
        with pytest.raises(JobspecError, match=r"jobspec: nests more than 200 lists and mappings|not YAML"):
            read(opening * times)


def test_F28_aliases_that_unfold_without_end_are_an_error() -> None:
    lines = ["version: 1", "tasks: []", "attributes: {}", "resources:", "- &a0 {type: core, count: 1}"]
    for i in range(12):
        below = ", ".join([f"*a{i}"] * 10)
        lines.append(f"- &a{i + 1} {{type: core, count: 1, with: [{below}]}}")
    for text in ("\n".join(lines), "&a [*a]", "&a {b: *a}"):
        with pytest.raises(JobspecError, match="jobspec: unfolds to more than 100,000 values"):
            read(text)


def test_aliases_are_read() -> None:
    text = "{version: 1, resources: [&n {type: node, count: 1}, *n], tasks: [], attributes: {}}"
    assert read(text).resources == (Resource("node", Count(1, 1)), Resource("node", Count(1, 1)))


def test_what_is_no_yaml_is_told_with_its_line() -> None:
    with pytest.raises(JobspecError, match=r"^line 2: not YAML"):
        read("version: 1\nresources: [}")


@pytest.mark.parametrize(
    ("count", "there", "expected"),
    [
        (Count(3, 3), 2, 0),
        (Count(3, 3), 9, 3),
        (Count(2, 9, "+", 3), 9, 8),
        (Count(2, 9, "+", 3), 7, 5),
        (Count(2, 64, "*", 2), 40, 32),
        (Count(2, 300, "^", 2), 255, 16),
        (Count(2, 300, "^", 2), 300, 256),
        (Count(1, 8, "*", 2), 1, 1),
    ],
)
def test_counts_take_as_much_as_they_may(count: Count, there: int, expected: int) -> None:
    assert taken(count, there) == expected
    assert largest(count) == taken(count, 1 << 40)


def test_one_of_sibling_xor_slots_is_taken_and_nodes_are_counted() -> None:
    one = Count(1, 1)

    def slot(kind: str, label: str, *inside: Resource) -> Resource:
        return Resource(kind, one, label=label, children=inside)

    node = Resource("node", Count(2, 2))
    nested = slot(
        "xor_slot", "b", Resource("node", one, children=(slot("xor_slot", "c"), slot("xor_slot", "d")))
    )
    found = [resources[0] for resources in alternatives((slot("xor_slot", "a", node), nested))]
    assert [each.label for each in found] == ["a", "b", "b"]
    assert {each.type for each in found} == {"slot"}
    assert [each.children[0].children[0].label for each in found[1:]] == ["c", "d"]
    assert nodes_asked((slot("slot", "a", node),)) == 2
    assert nodes_asked((slot("slot", "a", node), slot("slot", "b", Resource("node", one)))) == 1


def test_sets_of_numbers_and_lists_of_hosts() -> None:
    assert idset("[0-2,7]") == [0, 1, 2, 7]
    assert idset_text([7, 2, 1, 0]) == "0-2,7"
    assert hostlist("node[1,09-11]x,login") == ["node1x", "node09x", "node10x", "node11x", "login"]
    assert hostlist_text(["node3", "node0", "node1", "node2", "login"]) == "node[3,0-2],login"
    assert hostlist_text(["n08", "n09", "n10", "n1"]) == "n[08-10,1]"
    for text in ("3-1", "x", "1-", "0-99999999999"):
        with pytest.raises(ValueError, match=text[:3]):
            idset(text)


@pytest.mark.parametrize(
    ("unit", "theirs", "count", "expected"),
    [
        ("GB", "MB", Count(2, 2), Count(2048, 2048)),
        ("MB", "GB", Count(1500, 1500), Count(2, 2)),
        ("GiB", "GB", Count(3, 3), Count(3, 3)),
        ("GB", "MB", Count(1, 4, "+", 1), Count(1024, 4096, "+", 1024)),
        ("GB", "MB", Count(1, UNBOUNDED, "*", 2), Count(1024, UNBOUNDED, "*", 2)),
        ("GB", "", Count(2, 2), Count(2, 2)),
    ],
)
def test_F28_amounts_are_in_the_unit_of_the_graph(
    unit: str, theirs: str, count: Count, expected: Count
) -> None:
    memory = Resource("memory", count, unit)
    job = Jobspec((Resource("node", Count(1, 1), children=(memory,)),))
    found = in_graph_units(job, lambda type_: theirs if type_ == "memory" else "")
    assert found.resources[0].children[0].count == expected


@pytest.mark.parametrize(
    ("unit", "theirs", "count", "place"),
    [
        ("GB", "sticks", Count(2, 2), "resources[0].with[0].unit"),
        ("MB", "GB", Count(1, 2), "resources[0].with[0].count"),
    ],
)
def test_F28_units_that_cannot_be_compared_are_named(
    unit: str, theirs: str, count: Count, place: str
) -> None:
    memory = Resource("memory", count, unit)
    job = Jobspec((Resource("node", Count(1, 1), children=(memory,)),))
    with pytest.raises(JobspecError) as caught:
        in_graph_units(job, lambda _: theirs)
    assert str(caught.value).startswith(f"{place}: ")
