"""The independent checker can fail: it is fed histories that are wrong in one way each, and right ones."""

from fractions import Fraction
from typing import Any

import pytest
from checker import (
    Moment,
    effective,
    excesses,
    half_started,
    halves,
    killed,
    knowingly,
    left_over,
    lost,
    moment,
    moved,
    not_once,
    overcommitted,
    quantity,
    unended,
)
from checker_watch import Follower, Gone

INFINITE = float("inf")


def node(version: int, cpu: int, name: str = "n", at: float = 0.0, gone: bool = False) -> Moment:
    amounts = {"cpu": Fraction(cpu), "pods": Fraction(10)}
    return Moment(at, version, "Node", f"uid-{name}", name=name, gone=gone, amounts=amounts)


def pod(version: int, name: str, on: str = "n", phase: str = "Pending", cpu: int = 2, **more: Any) -> Moment:
    more = {"at": float(version), "group": "ns/g", "scheduler": "fairlead", **more}
    amounts = {"cpu": Fraction(cpu), "pods": Fraction(1)}
    return Moment(version=version, kind="Pod", uid=f"uid-{name}", namespace="ns", name=name, node=on,
                  phase=phase, amounts=amounts, **more)  # fmt: skip


# -- amounts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("100m", Fraction(1, 10)), ("1.5", Fraction(3, 2)), ("2Gi", 2 * 1024**3), ("1e3", 1000),
     ("12E", 12 * 10**18), ("5k", 5000), ("0.5Ki", 512), ("3n", Fraction(3, 10**9)), (7, 7)],
)  # fmt: skip
def test_quantities(text: str | int, value: Fraction) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "cpu", "1x", "1 Gi", "--1"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        quantity(text)


def box(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


def test_effective_requests() -> None:
    sidecar = box("1", restartPolicy="Always")
    assert effective({"containers": [box("1"), box("500m")]})["cpu"] == Fraction(3, 2)
    # The largest of those that run one after the other, beside the sidecars that began before them.
    assert effective({"containers": [box("1")], "initContainers": [box("4")]})["cpu"] == 4
    assert effective({"containers": [box("1")], "initContainers": [sidecar, box("4")]})["cpu"] == 5
    assert effective({"containers": [box("1")], "initContainers": [box("1"), sidecar]})["cpu"] == 2
    assert effective({"containers": [box("1")], "overhead": {"cpu": "250m"}})["cpu"] == Fraction(5, 4)
    whole = {"containers": [box("1")], "resources": {"requests": {"cpu": "3"}}}
    assert effective(whole) == {"cpu": 3, "pods": 1}


def test_a_raw_object_becomes_a_moment() -> None:
    owner = {"kind": "Job", "name": "j", "controller": True}
    meta = {"uid": "u", "resourceVersion": "7", "namespace": "ns", "name": "p", "ownerReferences": [owner]}
    spec = {"containers": [box("1")], "nodeName": "n", "schedulerName": "fairlead"}
    found = moment({"metadata": meta, "spec": spec, "status": {"phase": "Running"}}, 3.0)
    assert (found.version, found.group, found.node, found.holds, found.controlled) == (
        7,
        "ns/j",
        "n",
        True,
        True,
    )
    meta["labels"] = {"fairlead.dev/group": "g"}
    assert moment({"metadata": meta, "spec": spec}, 3.0).group == "ns/g"


# -- room ----------------------------------------------------------------------------------------------


def test_a_node_that_holds_too_much_is_found_at_its_version() -> None:
    right = [node(1, 4), pod(2, "a"), pod(3, "b")]
    assert overcommitted(right) == []
    (fault,) = overcommitted([*right, pod(4, "c")])
    assert fault == "n holds 6 cpu of 4 from version 4 on, with c (3 pods)"


def test_room_of_pods_that_ended_is_free_again() -> None:
    history = [node(1, 4), pod(2, "a"), pod(3, "b"), pod(4, "a", phase="Succeeded"), pod(5, "c"),
               pod(6, "b", gone=True), pod(7, "d")]  # fmt: skip
    assert overcommitted(history) == []
    # In the order of versions, whatever the order in which they were heard.
    assert overcommitted(list(reversed(history))) == []
    assert len(overcommitted([*history[:3], pod(5, "c"), pod(6, "a", phase="Succeeded")])) == 1


def test_a_moment_of_too_much_is_not_forgotten() -> None:
    history = [node(1, 4), pod(2, "a"), pod(3, "b"), pod(4, "c"), pod(5, "c", phase="Succeeded")]
    (excess,) = excesses(history)
    assert (excess.since, excess.until, excess.used) == (4.0, 5.0, 6)
    assert left_over(history, rest=2) == []
    assert len(left_over(history[:-1], rest=2)) == 1
    assert left_over(history[:-1], rest=2, forgiven=["ns/g"]) == []


def test_the_number_of_pods_counts_and_what_a_node_lacks() -> None:
    many = [node(1, 100), *(pod(i, f"p{i}", cpu=1) for i in range(2, 13))]
    assert [e.resource for e in excesses(many)] == ["pods"]
    gpu = pod(2, "a")._replace(amounts={"gpu": Fraction(1)})
    assert overcommitted([node(1, 4), gpu]) == ["n holds 1 gpu of 0 from version 2 on, with a (1 pods)"]


def test_a_node_that_shrinks_or_goes() -> None:
    history = [node(1, 4), pod(2, "a"), pod(3, "b"), node(4, 3)]
    assert [e.first.kind for e in excesses(history)] == ["Node"]
    assert overcommitted([*history[:3], node(4, 4, gone=True)]) == []


def test_a_race_is_told_from_a_bind_into_a_full_node() -> None:
    theirs = pod(10, "t", scheduler="other", group="ns/t", cpu=4)
    history = [node(1, 4), theirs, pod(11, "a")]
    assert knowingly(history, "fairlead", stale=5) == []
    late = [node(1, 4), theirs, pod(16, "a")]
    assert len(knowingly(late, "fairlead", stale=5)) == 1
    # What only we put there needs no news from others.
    own = [node(1, 4), pod(2, "a", cpu=4), pod(3, "b")]
    assert len(knowingly(own, "fairlead", stale=5)) == 1
    # And who comes on top of ours is not our fault.
    assert knowingly([node(1, 4), pod(2, "a"), theirs], "fairlead", stale=5) == []


# -- pods ----------------------------------------------------------------------------------------------


def test_a_pod_bound_twice_is_found() -> None:
    assert moved([pod(1, "a", on=""), pod(2, "a"), pod(3, "a", phase="Running")]) == []
    assert moved([pod(1, "a"), pod(2, "a", on="m")]) == ["ns/a was on n, then on m"]
    assert moved([pod(1, "a"), pod(2, "a", on="")]) == ["ns/a was on n, then on none"]


def test_a_running_pod_that_is_deleted_is_found() -> None:
    one = {"ns/g": 1}
    running = pod(1, "a", phase="Running")
    assert killed([running, pod(2, "a", phase="Running", deleting=True)], one) != []
    assert killed([running, pod(2, "a", phase="Running", gone=True)], one) != []
    assert killed([running, pod(2, "a", phase="Failed", deleting=True)], one) != []
    well = pod(2, "a", phase="Succeeded")
    assert killed([running, well, well._replace(version=3, gone=True)], one) == []
    assert killed([pod(1, "a"), pod(2, "a", gone=True)], one) == []


def test_one_too_many_that_its_controller_takes_away_is_nobodys_fault() -> None:
    sizes = {"ns/g": 1}

    def run(name: str, version: int, *phases: str) -> list[Moment]:
        return [pod(version + i, name, phase=phase, controlled=True) for i, phase in enumerate(phases)]

    taken = pod(20, "b", phase="Running", controlled=True, deleting=True)
    two = [*run("a", 1, "Running", "Succeeded"), *run("b", 10, "Pending", "Running"), taken]
    assert killed(two, sizes) == [] and not_once(two, sizes) == []
    # Not if there was only one at that time, nor if it bears the mark of an eviction.
    later = [*run("b", 10, "Pending", "Running"), taken, *run("a", 30, "Running", "Succeeded")]
    assert len(killed(later, sizes)) == 1 and len(not_once(later, sizes)) == 1
    marked = [*two[:-1], taken._replace(disrupted=True)]
    assert len(killed(marked, sizes)) == 1 and len(not_once(marked, sizes)) == 1


def test_a_group_that_ran_not_at_all_twice_or_badly_is_found() -> None:
    one = [pod(1, "a", phase="Running"), pod(2, "a", phase="Succeeded")]
    two = [pod(3, "b", phase="Running"), pod(4, "b", phase="Succeeded")]
    assert not_once([*one, *two], {"ns/g": 2}) == []
    assert not_once(one, {"ns/g": 2}) == ["ns/g: 1 ran, 1 succeeded, 0 failed, of 2"]
    assert len(not_once([*one, *two], {"ns/g": 1})) == 1
    assert len(not_once([*one, pod(3, "b", phase="Failed")], {"ns/g": 2})) == 1
    assert len(not_once([], {"ns/g": 1})) == 1
    # A controller that made one too many is not the scheduler's fault.
    theirs = [each._replace(controlled=True) for each in (*one, *two)]
    assert not_once(theirs, {"ns/g": 1}) == []
    assert lost(one, {"ns/g": 1}) == [] and lost(one, {"ns/g": 2, "ns/h": 1}) == [
        "ns/g: 1 of 2",
        "ns/h: 0 of 1",
    ]


def test_a_pod_that_is_on_its_way_is_found() -> None:
    sizes = {"ns/g": 2}
    ends = [pod(1, "a", phase="Running"), pod(2, "a", phase="Succeeded")]
    goes = [pod(3, "b", phase="Running"), pod(4, "b", phase="Running", gone=True)]
    assert unended([*ends, *goes], sizes) == []
    assert unended([*ends, goes[0]], sizes) == ["ns/g: b is Running"]
    assert unended([goes[0]._replace(group="ns/h")], sizes) == []


# -- gangs ---------------------------------------------------------------------------------------------


def test_a_gang_half_bound_for_too_long_is_found() -> None:
    sizes, up = {"ns/g": 2}, [(0.0, 1000.0)]
    quick = [pod(1, "a", at=10.0), pod(2, "b", at=11.0)]
    assert half_started(quick, sizes, up, 30) == []
    slow = [pod(1, "a", at=10.0), pod(2, "b", at=45.0)]
    assert half_started(slow, sizes, up, 30) == ["ns/g: half bound for 35.0 s"]
    # Only time in which everything is up counts, and only if it is one piece.
    assert half_started(slow, sizes, [(0.0, 20.0), (20.5, 1000.0)], 30) == []
    assert len(half_started([quick[0]], sizes, up, 30)) == 1


def test_a_member_that_ended_well_is_not_missing_and_one_that_went_is() -> None:
    sizes = {"ns/g": 2}
    both = [pod(1, "a"), pod(2, "b")]
    assert halves([*both, pod(3, "a", phase="Succeeded"), pod(4, "a", gone=True)], sizes) == [
        ("ns/g", 1.0, 2.0)
    ]
    gone = [*both, pod(3, "a", gone=True)]
    assert halves(gone, sizes)[1:] == [("ns/g", 3.0, INFINITE)]
    assert halves([*gone, pod(4, "b", phase="Failed")], sizes)[1:] == [("ns/g", 3.0, 4.0)]


# -- gaps ----------------------------------------------------------------------------------------------


class Past:
    """An API server's lists by version, from a script of (version, name, phase or None for gone)."""

    def __init__(self, *script: tuple[int, str, str | None], forgotten: int = 0) -> None:
        self.script, self.forgotten = script, forgotten

    def list(self, path: str, version: int = 0) -> tuple[int, list[dict[str, Any]]]:
        del path
        if version and version <= self.forgotten:
            raise Gone
        version = version or self.script[-1][0]
        present: dict[str, dict[str, Any]] = {}
        for at, name, phase in self.script:
            if at <= version:
                meta = {"uid": name, "name": name, "namespace": "ns", "resourceVersion": str(at)}
                present[name] = {"metadata": meta, "spec": {"containers": []}, "status": {"phase": phase}}
                if phase is None:
                    del present[name]
        return version, list(present.values())


def follow(past: Past, upto: int) -> Follower:
    """A follower that knows the world up to a version and then has to close the gap."""
    begin = Past(*(each for each in past.script if each[0] <= upto))
    follower = Follower(begin, "pods")  # type: ignore[arg-type]
    follower._api = past  # type: ignore[assignment]
    follower._close_gap()
    return follower


def test_what_happened_in_a_gap_is_found_out() -> None:
    script = ((1, "a", "Pending"), (5, "a", "Running"), (6, "b", "Pending"), (9, "b", None))
    follower = follow(Past(*script, (12, "a", "Succeeded")), 1)
    assert [(m.version, m.uid, m.phase, m.gone) for m in follower.moments] == [
        (1, "a", "Pending", False),
        (5, "a", "Running", False),
        (6, "b", "Pending", False),
        (9, "b", "Pending", True),
        (12, "a", "Succeeded", False),
    ]
    assert follower.version == 12 and follower.unseen == 0


def test_a_gap_too_old_to_look_into_is_counted() -> None:
    past = Past((1, "a", "Pending"), (5, "a", "Running"), (12, "a", "Succeeded"), forgotten=11)
    follower = follow(past, 1)
    assert follower.unseen > 0
    assert [m.version for m in follower.moments] == [1, 12]
