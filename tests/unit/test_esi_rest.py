"""REST as ESI has it: paths, codes, shapes, upsert, ETags; debug verbs and health on their old paths."""

import asyncio
from typing import Any

import msgspec
import pytest
from esi_doors import job, served, small
from starlette.routing import Route

from fairlead.api import openapi as base
from fairlead.api.esi import openapi, shapes
from fairlead.api.esi.access import Unguarded
from fairlead.api.esi.doors import Doors
from fairlead.model.esi import Ref
from fairlead.model.scheduling import SchedulingStatus
from fairlead.runtime.errors import ClusterError
from fairlead.sim.esi_cluster import SimulatedCluster


def slots(*jobs: tuple[str, list[int]], mode: str = "STRICT") -> dict[str, Any]:
    return {"mode": mode, "jobs": [{"name": name, "slots": numbers} for name, numbers in jobs]}


# -- reading -----------------------------------------------------------------------------------------


async def test_a_testbed_is_shown_by_node_as_esi_shows_it():
    async with served() as esi:
        found = await esi.get("/external/testbeds")
        assert found == [await esi.get("/external/testbeds/tb")]
    assert {key: found[0][key] for key in list(found[0])[:4]} == {
        "name": "tb", "state": "SUCCESS", "numberOfNodes": 2, "numberOfSlotsPerNode": 2,
    }  # fmt: skip
    assert [slot["position"] for slot in found[0]["slotsByNode"]["n1"]] == [1, 3]
    assert found[0]["slotsByNode"]["n0"][1] == {
        "position": 2, "nodeId": 0, "nodeName": "n0", "slotPositionOnNode": 1, "state": "FREE",
    }  # fmt: skip


async def test_a_testbed_that_has_no_slots_yet_is_shown():
    world = small(nodes=0)
    async with served(world) as esi:
        found = await esi.get("/external/testbeds/tb")
    assert found == {
        "name": "tb", "state": "SUCCESS", "numberOfNodes": 0, "numberOfSlotsPerNode": 2, "slotsByNode": {},
    }  # fmt: skip


async def test_jobs_are_an_object_by_name():
    async with served() as esi:
        found = await esi.get("/external/jobs")
        one = await esi.get("/external/jobs/j1")
    assert list(found) == ["j1", "j2", "j3", "j4"]
    assert one == found["j1"]
    assert one == {"name": "j1", "state": "ReadyState", "externalScheduler": {}, "scheduledEvents": []}


async def test_schedulings_in_both_shapes():
    async with served() as esi:
        await esi.scheduling("queued", queue=["j1", "j2", "j1"])
        await esi.scheduling("placed", slots=slots(("j3", [3, 0]), mode="relaxed"))
        found = {each["name"]: each for each in await esi.get("/external/schedulings")}
        assert found["queued"] == await esi.get("/external/schedulings/queued")
    assert list(found) == ["placed", "queued"]
    assert found["queued"]["testBed"] == "tb"
    assert found["queued"]["queue"] == ["j1", "j2", "j1"] and "slots" not in found["queued"]
    assert found["placed"]["slots"] == slots(("j3", [3, 0]), mode="RELAXED")
    assert "queue" not in found["placed"]


async def test_what_is_unknown_is_a_404_that_says_of_what():
    async with served() as esi:
        for kind, noun in (("testbeds", "Testbed"), ("jobs", "job"), ("schedulings", "Scheduling")):
            answer = await esi.ask("GET", f"/external/{kind}/nobody")
            assert answer.status_code == 404
            assert answer.json() == {"error": f"no {noun} default/nobody is known"}


async def test_namespaces_are_apart():
    world = small()
    job(world, "elsewhere", "team-a")
    world.run(1_000)
    async with served(world) as esi:
        assert list(await esi.get("/external/jobs?namespace=team-a")) == ["elsewhere"]
        assert (await esi.ask("GET", "/external/jobs/elsewhere")).status_code == 404
        wrong = await esi.ask("GET", "/external/jobs?namespace=..%2Fkube-system")
    assert (wrong.status_code, wrong.json()["error"][:10]) == (400, "namespace:")


async def test_another_default_namespace():
    world = small()
    job(world, "elsewhere", "team-a")
    world.run(1_000)
    async with served(world, namespace="team-a") as esi:
        assert list(await esi.get("/external/jobs")) == ["elsewhere"]


async def test_nothing_is_answered_before_the_first_lists_are_in():
    async with served() as esi:
        esi.paused = True
        esi.world.engine.state.missing["surroundings"] = None
        for path in ("/external/jobs", "/external/testbeds/tb", "/external/events"):
            answer = await esi.ask("GET", path)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert (await esi.ask("GET", "/actuator/health")).json() == {"status": "OUT_OF_SERVICE"}
        assert (await esi.ask("GET", "/actuator/health/readiness")).status_code == 503
        assert (await esi.ask("GET", "/actuator/health/liveness")).json() == {"status": "UP"}


async def test_a_standby_answers_from_the_cluster_and_says_that_it_stands_by():
    async with served(standby=lambda: "standby: b leads") as esi:
        answer = await esi.ask("GET", "/external/testbeds/tb")
        made = await esi.ask("POST", "/external/schedulings", {"name": "s", "testBed": "tb", "queue": ["j1"]})
        noted = await esi.ask("PUT", "/external/jobs", {"name": "j1", "externalScheduler": {}})
        ended = await esi.ask("DELETE", "/external/schedulings/s")
        again = await esi.ask("DELETE", "/external/schedulings/s")
    assert answer.json()["state"] == "SUCCESS"
    answers = (answer, made, noted, ended, again)
    assert [each.status_code for each in answers] == [200, 200, 200, 200, 304]
    assert {each.headers["fairlead-standby"] for each in answers} == {"standby: b leads"}


async def test_who_has_just_been_elected_shows_what_the_cluster_has_until_it_has_taken_over():
    """What it would make of the objects is as old as its first sight of them."""
    async with served() as esi:
        await esi.scheduling("s", queue=["j1"])
        await esi.reaches("s", "AwaitingCompletionState")
        state = esi.world.engine.state
        uid = esi.world.uid("Scheduling", "s")
        state.esi.status[uid] = SchedulingStatus()
        state.esi.epoch -= 1
        assert (await esi.get("/external/schedulings/s"))["state"] == "AwaitingCompletionState"


# -- ETags -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/external/jobs", "/external/jobs/j1", "/external/testbeds"])
async def test_an_etag_saves_reading_the_same_again(path: str):
    async with served() as esi:
        first = await esi.ask("GET", path)
        tag = first.headers["etag"]
        again = await esi.ask("GET", path, if_none_match=tag)
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert (await esi.ask("GET", path, if_none_match=f'"other", W/{tag}')).status_code == 304
        assert (await esi.ask("GET", path, if_none_match='"other"')).status_code == 200


async def test_an_etag_changes_with_the_status_though_the_cluster_has_not_seen_it_yet():
    async with served() as esi:
        before = await esi.ask("GET", "/external/jobs/j1")
        await esi.scheduling("s", queue=["j1"])
        await esi.reaches("s", "AwaitingCompletionState")
        after = await esi.ask("GET", "/external/jobs/j1", if_none_match=before.headers["etag"])
    assert after.status_code == 200


# -- jobs: the algorithm's own notes -----------------------------------------------------------------


@pytest.mark.parametrize("path", ["/external/jobs/", "/external/jobs"])
async def test_put_stores_the_blob_and_nothing_else(path: str):
    blob = {"profiler": [{"j2": "44.5 (3)"}, {}], "more": []}
    async with served() as esi:
        body = {"name": "j1", "state": "RunningState", "externalScheduler": blob, "scheduledEvents": [1]}
        answer = await esi.ask("PUT", path, body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == await esi.get("/external/jobs/j1")
        assert answer.json()["externalScheduler"] == blob
        assert answer.json()["state"] == "ReadyState"
        raw = await esi.cluster.get("BatchJob", Ref("default", "j1"))
        assert "jobSpec" in raw["spec"]["fairlead"]


async def test_put_replaces_the_blob_and_null_empties_it():
    async with served() as esi:
        for blob, kept in (({"a": [{"x": "1"}]},) * 2, ({"b": []},) * 2, (None, {})):
            answer = await esi.ask("PUT", "/external/jobs/", {"name": "j1", "externalScheduler": blob})
            assert answer.json()["externalScheduler"] == kept


async def test_put_of_a_job_that_is_not_there_is_a_404():
    async with served() as esi:
        answer = await esi.ask("PUT", "/external/jobs/", {"name": "nobody", "externalScheduler": {}})
    assert (answer.status_code, answer.json()["error"]) == (404, "no job default/nobody is known")


@pytest.mark.parametrize(
    "body, text",
    [
        ({"name": "j1"}, "the body: object missing required field `externalScheduler`"),
        ({"name": "j1", "externalScheduler": {"a": [{"x": 1}]}}, "externalScheduler[...][0][...]: expected"),
        ({"name": " ", "externalScheduler": {}}, "name: must not be blank"),
        ([], "the body: expected `object`, got `array`"),
    ],
)
async def test_a_wrong_job_is_refused_with_the_place(body: Any, text: str):
    async with served() as esi:
        answer = await esi.ask("PUT", "/external/jobs/", body)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(text)


async def test_put_that_others_overtake_is_tried_again_and_with_if_match_refused():
    async with served() as esi:
        replace = esi.cluster.replace
        busy = [True, True]

        async def overtaken(kind: str, ref: Ref, manifest: dict[str, Any]) -> dict[str, Any]:
            if busy and busy.pop():
                raise ClusterError("the object has been modified", 409)
            return await replace(kind, ref, manifest)

        esi.cluster.replace = overtaken  # type: ignore[method-assign]
        body = {"name": "j1", "externalScheduler": {"a": []}}
        assert (await esi.ask("PUT", "/external/jobs/", body)).status_code == 200
        tag = (await esi.ask("GET", "/external/jobs/j1")).headers["etag"]
        busy.append(True)
        assert (await esi.ask("PUT", "/external/jobs/", body, if_match=tag)).status_code == 409
        assert (await esi.ask("PUT", "/external/jobs/", body, if_match='"1.0"')).status_code == 412
        tag = (await esi.ask("GET", "/external/jobs/j1")).headers["etag"]
        assert (await esi.ask("PUT", "/external/jobs/", body, if_match=tag)).status_code == 200


# -- Schedulings -------------------------------------------------------------------------------------


async def test_post_is_answered_with_what_get_shows_afterwards():
    async with served() as esi:
        esi.world.run(1_000)
        answer = await esi.scheduling("s", queue=["j1"])
        assert answer.status_code == 200
        assert (answer.json()["name"], answer.json()["queue"]) == ("s", ["j1"])
        assert "fairlead" not in answer.json()
        assert "s" in [each["name"] for each in await esi.get("/external/schedulings")]


async def test_a_double_post_is_an_upsert():
    async with served() as esi:
        first = await esi.scheduling("s", queue=["j1", "j2"])
        again = await esi.scheduling("s", queue=["j1", "j2"])
        assert (first.status_code, again.status_code) == (200, 200)
        other = await esi.scheduling("s", queue=["j3"])
        assert other.json()["queue"] == ["j3"]
        assert len(await esi.get("/external/schedulings")) == 1


async def test_post_with_if_match_replaces_only_what_was_seen():
    async with served() as esi:
        nothing = await esi.ask("POST", "/external/schedulings", BODY, if_match='"1.0"')
        assert nothing.status_code == 412 and "does not exist" in nothing.json()["error"]
        tag = (await esi.ask("POST", "/external/schedulings", BODY)).headers["etag"]
        await esi.scheduling("s", queue=["j4"])
        late = await esi.ask("POST", "/external/schedulings", BODY, if_match=tag)
        assert late.status_code == 412 and "has changed since it was read" in late.json()["error"]
        assert (await esi.get("/external/schedulings/s"))["queue"] == ["j4"]
        assert (await esi.ask("POST", "/external/schedulings", BODY, if_match="*")).status_code == 200


async def test_post_with_if_none_match_only_makes():
    async with served() as esi:
        assert (await esi.ask("POST", "/external/schedulings", BODY, if_none_match="*")).status_code == 200
        again = await esi.ask("POST", "/external/schedulings", BODY, if_none_match="*")
    assert again.status_code == 412 and "exists already" in again.json()["error"]


async def test_the_mode_is_taken_in_either_case():
    async with served() as esi:
        for mode in ("strict", "STRICT", "Relaxed"):
            answer = await esi.scheduling("s", slots=slots(("j1", [0]), mode=mode))
            assert answer.json()["slots"]["mode"] == mode.upper()
        raw = await esi.cluster.get("Scheduling", Ref("default", "s"))
    assert raw["spec"]["slotBased"]["mode"] == "relaxed"


BODY = {"name": "s", "testBed": "tb", "queue": ["j1"]}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({**BODY, "name": ""}, "name: must not be blank"),
    ({"queue": ["j1"]}, "name: must not be blank"),
    ({**BODY, "testBed": " "}, "testBed: must not be blank"),
    ({**BODY, "slots": slots(("j1", [0]))}, "either SlotBased OR QueueBased: slots or queue, not both"),
    ({"name": "s", "testBed": "tb"}, "either SlotBased OR QueueBased: slots or queue, not neither"),
    ({**BODY, "queue": []}, "queue: no job is named"),
    ({**BODY, "queue": ["j1", ""]}, "queue[1]: must not be blank"),
    ({**BODY, "queue": ["j1", "other/j2"]}, "queue[1]: 'other/j2' is no name"),
    ({**BODY, "queue": ["j1", 2]}, "queue[1]: expected `str`, got `int`"),
]
WRONG_SLOTS: list[tuple[dict[str, Any], str]] = [
    (slots(), "slots.jobs: no job is named"),
    (slots(("j1", [])), "slots.jobs[0].slots: j1 is given no slot"),
    (slots(("j1", [0]), ("", [1])), "slots.jobs[1].name: must not be blank"),
    (slots(("j1", [0]), ("j1", [1])), "slots.jobs[1].name: j1 is named in slots.jobs[0], too"),
    (slots(("j1", [0, -1])), "slots.jobs[0].slots[1]: -1 is no slot number"),
    (slots(("j1", [1, 1])), "slots.jobs[0].slots[1]: slot 1 is given to j1 twice"),
    (slots(("j1", ["0"])), "slots.jobs[0].slots[0]: expected `int`, got `str`"),  # type: ignore[list-item]
    (slots(("j1", [0]), mode="eager"), "slots.mode: 'eager' is neither STRICT nor RELAXED"),
    ({"mode": "STRICT"}, "slots: object missing required field `jobs`"),
]


@pytest.mark.parametrize(
    "body, text", [*WRONG, *(({"name": "s", "testBed": "tb", "slots": s}, text) for s, text in WRONG_SLOTS)]
)
async def test_a_wrong_scheduling_is_refused_with_the_place(body: dict[str, Any], text: str):
    async with served() as esi:
        answer = await esi.ask("POST", "/external/schedulings", body)
        assert answer.status_code == 400
        assert text in answer.json()["error"]
        assert await esi.get("/external/schedulings") == []


async def test_what_is_no_json_and_what_is_too_large():
    async with served() as esi:
        broken = await esi.http.post("/external/schedulings", content=b'{"name": ')
        assert (broken.status_code, broken.json()["error"][:19]) == (400, "the body is no JSON")
        large = await esi.http.post("/external/schedulings", content=b" " * (5 << 20))
        assert large.status_code == 413


async def test_what_the_cluster_says_is_passed_on_with_400():
    async with served() as esi:

        async def create(*_: object) -> dict[str, Any]:
            raise ClusterError("admission webhook says no", 422)

        esi.cluster.create = create  # type: ignore[method-assign]
        answer = await esi.scheduling("s", queue=["j1"])
    assert (answer.status_code, answer.json()["error"]) == (400, "admission webhook says no")


async def test_a_cluster_that_does_not_answer_is_a_503():
    async with served() as esi:

        async def get(*_: object) -> dict[str, Any]:
            raise ClusterError("no answer within 10 s", 503)

        esi.cluster.get = get  # type: ignore[method-assign]
        for method, path, body in (
            ("POST", "/external/schedulings", BODY),
            ("DELETE", "/external/schedulings/s", None),
            ("PUT", "/external/jobs/", {"name": "j1", "externalScheduler": {}}),
        ):
            answer = await esi.ask(method, path, body)
            assert (answer.status_code, answer.json()["error"]) == (503, "no answer within 10 s")


async def test_delete_answers_the_last_one_known_and_then_304():
    async with served() as esi:
        await esi.scheduling("s", queue=["j1"])
        answer = await esi.ask("DELETE", "/external/schedulings/s")
        assert (answer.status_code, answer.json()["name"], answer.json()["queue"]) == (200, "s", ["j1"])
        assert await esi.get("/external/schedulings") == []
        again = await esi.ask("DELETE", "/external/schedulings/s")
        assert (again.status_code, again.content) == (304, b"")


async def test_delete_with_if_match():
    async with served() as esi:
        tag = (await esi.scheduling("s", queue=["j1"])).headers["etag"]
        await esi.scheduling("s", queue=["j2"])
        assert (await esi.ask("DELETE", "/external/schedulings/s", if_match=tag)).status_code == 412
        assert (await esi.ask("DELETE", "/external/schedulings/gone", if_match=tag)).status_code == 412
        assert (await esi.ask("DELETE", "/external/schedulings/s", if_match="*")).status_code == 200


async def test_delete_that_does_not_happen_is_a_500_that_says_why(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("fairlead.api.esi.rest.GONE_WITHIN", 0.01)
    async with served() as esi:
        await esi.scheduling("s", queue=["j1"])

        async def delete(kind: str, ref: Ref, version: str = "") -> None:
            """Asked for, and held up by a finalizer."""

        esi.cluster.delete = delete  # type: ignore[method-assign]
        answer = await esi.ask("DELETE", "/external/schedulings/s")
    assert answer.status_code == 500
    assert "it is still there" in answer.json()["error"]


async def test_methods_that_there_are_not():
    async with served() as esi:
        for method, path in (
            ("POST", "/external/jobs"),
            ("DELETE", "/external/jobs/j1"),
            ("PUT", "/external/schedulings"),
            ("POST", "/external/testbeds"),
        ):
            assert (await esi.ask(method, path, {})).status_code == 405, (method, path)


# -- options beyond ESI's ----------------------------------------------------------------------------


async def test_options_are_taken_and_shown_and_a_release_by_itself_ends_in_finished():
    async with served() as esi:
        answer = await esi.scheduling("s", queue=["j1"], fairlead={"autoRelease": True})
        assert answer.json()["fairlead"] == {"autoRelease": True}
        found = await esi.reaches("s", "FinishedState")
    assert found["jobStatus"] == [{"name": "j1", "state": "Completed"}]


def test_reading_again_what_is_shown_gives_the_same():
    body = {"name": "s", "testBed": "tb", "slots": slots(("j1", [2, 0])), "state": None, "jobStatus": None}
    found = shapes.checked(msgspec.json.encode(body))
    spec = shapes.spec_of(found, "ns")
    assert (spec.testbed, spec.slot_based and spec.slot_based.jobs[0].slot_ids) == (Ref("ns", "tb"), [2, 0])


# -- an outside scheduler that is careless -----------------------------------------------------------


async def test_unknown_slots_are_refused_with_the_numbers_that_there_are():
    async with served() as esi:
        answer = await esi.scheduling("s", slots=slots(("j1", [0]), ("j2", [3, 4, 9])))
        assert answer.status_code == 400
        assert answer.json()["error"] == (
            "slots.jobs[1].slots: the Testbed tb has no slot 4, 9; its slots are 0 to 3"
        )
        assert await esi.get("/external/schedulings") == []


async def test_a_testbed_without_nodes_has_no_slots_to_give():
    async with served(small(nodes=0)) as esi:
        answer = await esi.scheduling("s", slots=slots(("j1", [0])))
    assert answer.json()["error"].endswith("its slots are none: no node has its label")


async def test_taken_slots_are_waited_for_visibly_and_change_nobodys_claims():
    world = small()
    async with served(world) as esi:
        await esi.scheduling("first", slots=slots(("j1", [0, 1])))
        await esi.reaches("first", "AwaitingCompletionState")
        before = await esi.get("/external/jobs/j1")
        await esi.scheduling("second", slots=slots(("j2", [1, 2])))
        await esi.until(lambda: world.scheduling("second").reason, "a reason")
        waiting = await esi.get("/external/schedulings/second")
        first = await esi.get("/external/schedulings/first")
        assert waiting["state"] != "FailedState" and waiting["reason"]
        assert first["state"] in ("AwaitingCompletionState", "CompletedState")
        assert (await esi.get("/external/jobs/j1"))["state"] in (before["state"], "CompletedState")


# -- debug and operations ----------------------------------------------------------------------------


async def test_node_set_up_labels_nodes_that_have_room_for_all_slots():
    world = small(nodes=0)
    for name, cpu, memory in (("a", "2", "20Gi"), ("b", "1", "20Gi"), ("c", "2", "1Gi"), ("d", "2", "20Gi")):
        world.node(name, {}, cpu, memory)
    world.run(100)
    async with served(world) as esi:
        dry = await esi.ask("POST", "/debug/node-set-up?name=tb&count=2&dryRun=true")
        assert (dry.status_code, dry.json()["dryRun"]) == (200, True)
        assert "slots" not in world.nodes["a"].labels
        answer = (await esi.ask("POST", "/debug/node-set-up?name=tb&count=2")).json()
        assert answer["nodes"] == [{**line, "change": "labelled"} for line in dry.json()["nodes"]]
        assert [(line["name"], line["number"]) for line in answer["nodes"]] == [("a", "0"), ("d", "1")]
        await esi.until(lambda: len(world.testbed("tb").slots) == 4, "four slots")
        again = (await esi.ask("POST", "/debug/node-set-up?name=tb&count=2")).json()
        assert {line["change"] for line in again["nodes"]} == {"kept"}


async def test_node_set_up_tells_what_is_free_where_there_is_not_enough():
    async with served(small(nodes=2)) as esi:
        answer = await esi.ask("POST", "/debug/node-set-up?name=tb&count=3")
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error.startswith("Not enough resources: 3 nodes are asked for, 2 have room for 2 slots")
        assert "cpu 1.2" in error and "n0: cpu 2, memory 20Gi" in error
        assert (await esi.ask("POST", "/debug/node-set-up?name=tb&count=x")).status_code == 400
        assert (await esi.ask("POST", "/debug/node-set-up?name=tb")).status_code == 400
        assert (await esi.ask("POST", "/debug/node-set-up?name=nobody&count=1")).status_code == 404


async def test_node_set_up_takes_labels_away_only_when_asked_and_never_from_nodes_in_use():
    world = small(nodes=3)
    async with served(world) as esi:
        await esi.scheduling("s", slots=slots(("j1", [1])))
        await esi.reaches("s", "AwaitingCompletionState")
        esi.paused = True
        lines = (await esi.ask("POST", "/debug/node-set-up?name=tb&count=1")).json()["nodes"]
        assert [(line["name"], line["change"], line["inUse"]) for line in lines] == [
            ("n1", "kept", True), ("n0", "not asked for, and kept", False),
            ("n2", "not asked for, and kept", False),
        ]  # fmt: skip
        lines = (await esi.ask("POST", "/debug/node-set-up?name=tb&count=1&remove=true")).json()["nodes"]
        assert [(line["name"], line["number"], line["change"]) for line in lines] == [
            ("n1", "1", "kept"), ("n0", "0", "removed"), ("n2", "2", "removed"),
        ]  # fmt: skip
        assert [name for name, node in world.nodes.items() if "slots" in node.labels] == ["n1"]


async def test_reset_all_jobs_begins_failed_ones_anew_and_keeps_their_notes():
    world = small()
    async with served(world) as esi:
        world.fail("j1", 100)
        keep = {"failurePolicy": {"onFailure": "Continue"}}  # else it is released at once
        await esi.scheduling("s", queue=["j1", "j2"], fairlead=keep)
        await esi.until(lambda: world.job("j1").state == "FailedSubmissionState", "j1 to fail")
        uid = world.uid("BatchJob", "j1")
        before = dict(world.objects.get("BatchJob", Ref("default", "j1"))["spec"])
        esi.paused = True
        dry = await esi.ask("POST", "/debug/reset-all-jobs?dryRun=true")
        assert "fairlead.dev/reset" not in world.thing("BatchJob", "j1").annotations
        all_of_them = await esi.ask("POST", "/debug/reset-all-jobs?allNamespaces=true&dryRun=true")
        assert all_of_them.json() == ["default/j1"]
        answer = await esi.ask("POST", "/debug/reset-all-jobs")
        assert answer.json() == dry.json() == ["j1"]
        assert world.thing("BatchJob", "j1").annotations["fairlead.dev/reset"]
        assert world.uid("BatchJob", "j1") == uid
        assert world.objects.get("BatchJob", Ref("default", "j1"))["spec"] == before
        esi.paused = False
        await esi.until(lambda: world.job("j1").state != "FailedSubmissionState", "j1 to begin anew")


async def test_debug_verbs_by_get_only_where_that_was_asked_for():
    path = "/debug/reset-all-jobs"
    async with served() as esi:
        answer = await esi.ask("GET", path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert "--esi-old-gets" in answer.json()["error"]
        assert (await esi.ask("GET", "/debug/node-set-up?name=tb&count=1")).status_code == 405
    async with served(gets=True) as esi:
        assert (await esi.ask("GET", path)).json() == []
        assert (await esi.ask("GET", "/debug/node-set-up?name=tb&count=1")).status_code == 200


async def test_health_on_the_old_paths():
    async with served() as esi:
        for path in ("", "/liveness", "/readiness"):
            answer = await esi.ask("GET", f"/actuator/health{path}")
            assert (answer.status_code, answer.json()) == (200, {"status": "UP"})


async def test_a_list_of_many_is_answered_without_work_per_object():
    world = small(nodes=0)
    for i in range(500):
        job(world, f"job-{i:03}")
    world.run(2_000)
    async with served(world) as esi:
        esi.paused = True
        await esi.get("/external/jobs")
        picture = esi.doors.feed.picture
        before = {ref: shown.body for ref, shown in picture._by_name["jobs"].items()}
        assert len(await esi.get("/external/jobs")) == 504
        assert all(picture._by_name["jobs"][ref].body is body for ref, body in before.items())
        await asyncio.sleep(0)


# -- the document ------------------------------------------------------------------------------------


def test_the_openapi_document_tells_of_every_route_and_its_methods():
    document = openapi.extend(base.document())
    world = small()
    doors = Doors(SimulatedCluster(world), Unguarded())
    told = {(path, verb.upper()) for path, verbs in document["paths"].items() for verb in verbs}
    served = {
        (route.path.rstrip("/"), method)
        for route in doors.routes()
        if isinstance(route, Route)
        for method in (route.methods or ())
        if method != "HEAD" and not (method == "GET" and route.path.startswith("/debug/"))
    }
    hidden = {("/actuator/health" + rest, "GET") for rest in ("", "/liveness", "/readiness")}
    assert served - told == hidden
    assert ("/api/v1/queue", "GET") in told
    shapes_told = document["components"]["schemas"]
    assert {"TestbedShape", "JobShape", "SchedulingShape", "QueuePage"} <= set(shapes_told)
    assert "slotPositionOnNode" in shapes_told["SlotStatus"]["properties"]
