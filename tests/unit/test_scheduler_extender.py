"""The extender for a stock kube-scheduler tells the slots that the engine has assigned, and nothing else."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
import yaml
from msgspec import structs
from starlette.applications import Starlette

from fairlead.api.extender import door, messages
from fairlead.api.extender.door import Extender
from fairlead.api.extender.messages import NotUnderstood
from fairlead.api.extender.news import News
from fairlead.control.esi.noting import AGAIN, note
from fairlead.core.engine import Engine
from fairlead.core.state import State
from fairlead.model import event as ev
from fairlead.model.command import Bind, Command, DeleteObject, ObjectRef, PatchObject
from fairlead.model.esi import GHOST_LABEL, ID_LABEL, NODE_LABEL, SCHEDULER, SLOT, SLOTS, TESTBED_LABEL
from fairlead.model.esi import Testbed as Bed
from fairlead.model.esi import TestbedSpec as BedSpec
from fairlead.model.node import Node
from fairlead.model.pod import Pod, PodPhase, Shape
from fairlead.model.settings import Settings

SIZE = (("cpu", 600), ("memory", 1 << 30), ("pods", 1))
CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy" / "kube-scheduler-esi-config.yaml"


def member(name: str, number: int) -> ev.NodeSeen:
    amounts = (("cpu", 2_000), ("memory", 20 << 30), ("pods", 110))
    return ev.NodeSeen(Node(f"uid-{name}", name, 1, amounts, labels={"slots": str(number)}))


def executor(name: str, *slots: str, version: int = 10, **fields: Any) -> Pod:
    """An application pod that may use these slots."""
    labels = {TESTBED_LABEL: "bed", GHOST_LABEL: "false"}
    made = Pod(
        f"uid-{name}", "default", name, version, Shape(SIZE), SCHEDULER,
        labels=labels, annotations={SLOTS: ",".join(slots)}, priority=1000,
    )  # fmt: skip
    return structs.replace(made, **fields)


def noted(pod: Pod, slot: str) -> Pod:
    """The same once its slot is written down on it."""
    return structs.replace(pod, version=pod.version + 1, annotations={**pod.annotations, SLOT: slot})


def ghost(slot: str) -> Pod:
    node, _, index = slot.partition("/")
    labels = {TESTBED_LABEL: "bed", GHOST_LABEL: "true", ID_LABEL: index, NODE_LABEL: node}
    return Pod(
        f"ghost-{node}-{index}", "default", f"ghostpod-bed-on-{node}-{index}", 5, Shape(SIZE),
        node=node, phase=PodPhase.RUNNING, labels=labels, annotations={SLOT: slot},
    )  # fmt: skip


class Cluster:
    """An engine that knows a Testbed of two slots on each of three nodes, and what binds it was asked for."""

    def __init__(self, patience: float = 0.05, ready: bool = True, settings: Settings | None = None) -> None:
        self.engine = Engine(settings or Settings(pace=0), (note,))
        self.commands: list[Command] = []
        self.news = News()
        self.binds: list[Bind] = []
        self.answers: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self.extender = Extender(lambda: self.state, self.news, self, patience)
        spec = BedSpec("slots", 2, {"cpu": "600m", "memory": "1Gi"})
        self.learn(
            ev.Tick(1_000), *(member(f"n{i}", i) for i in range(3)),
            ev.EsiSeen(Bed("bed", 1, "default", "bed", spec)),
        )  # fmt: skip
        if ready:
            self.begin()

    def begin(self) -> None:
        self.learn(ev.StoreReady(1), *(ev.Synced(each) for each in self.state.settings.sources))

    @property
    def state(self) -> State:
        return self.engine.state

    def learn(self, *events: ev.Event) -> None:
        self.commands = self.engine.learn(events)
        self.news.batch(events, self.commands, 0.0)

    def see(self, *pods: Pod) -> None:
        self.learn(*(ev.PodSeen(each) for each in pods))

    async def bind(self, bind: Bind) -> str:
        self.binds.append(bind)
        await self.open.wait()
        return self.answers.pop(0) if self.answers else ""

    async def filter(self, pod: Pod, *names: str, whole: bool = False) -> dict[str, Any]:
        return json.loads(await self.extender.filter(args(pod, names, whole)))

    async def preempt(self, pod: Pod, victims: dict[str, list[str]], **form: Any) -> dict[str, Any]:
        answer = await self.extender.preempt(preemption(pod, victims, **form))
        return json.loads(answer)["NodeNameToMetaVictims"]

    async def bound(self, pod: Pod, node: str) -> str:
        return json.loads(await self.extender.bind(binding(pod, node)))["Error"]


@pytest.fixture
async def cluster() -> Cluster:
    return Cluster()


def told(pod: Pod) -> dict[str, Any]:
    """As Go writes a pod, with much that nobody reads here."""
    meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid, "labels": pod.labels or None}
    return {"metadata": {**meta, "creationTimestamp": None}, "spec": {"containers": []}, "status": {}}


def whole_nodes(names: tuple[str, ...]) -> dict[str, Any]:
    items = [{"metadata": {"name": name, "labels": {"a": "ä"}}, "status": {}} for name in names]
    return {"metadata": {}, "items": items}


def args(pod: Pod, names: tuple[str, ...], whole: bool = False) -> bytes:
    form = {"Nodes": whole_nodes(names)} if whole else {"NodeNames": list(names)}
    return json.dumps({"Pod": told(pod), "Nodes": None, "NodeNames": None, **form}).encode()


def preemption(pod: Pod, victims: dict[str, list[str]], whole: bool = False, violations: int = 0) -> bytes:
    def of_node(uids: list[str]) -> dict[str, Any]:
        pods = [{"metadata": {"name": "x", "uid": uid}} if whole else {"UID": uid} for uid in uids]
        return {"Pods": pods, "NumPDBViolations": violations}

    field = "NodeNameToVictims" if whole else "NodeNameToMetaVictims"
    return json.dumps({"Pod": told(pod), field: {n: of_node(uids) for n, uids in victims.items()}}).encode()


def binding(pod: Pod, node: str) -> bytes:
    names = {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUID": pod.uid}
    return json.dumps({**names, "Node": node}).encode()


# -- filter and prioritize -----------------------------------------------------------------------------


async def test_only_the_slots_node_stays_and_the_others_get_a_reason(cluster: Cluster):
    pod = noted(executor("e", "n1/0", "n2/0"), "n1/0")
    cluster.see(pod)
    answer = await cluster.filter(pod, "n0", "n1", "n2")
    assert (answer["NodeNames"], answer["Nodes"], answer["Error"]) == (["n1"], None, "")
    assert answer["FailedNodes"] == {}
    reason = "the pod has slot n1/0 of testbed default/bed"
    assert answer["FailedAndUnresolvableNodes"] == {"n0": reason, "n2": reason}


async def test_whole_nodes_come_back_whole(cluster: Cluster):
    pod = noted(executor("e", "n1/0"), "n1/0")
    cluster.see(pod)
    answer = await cluster.filter(pod, "n0", "n1", whole=True)
    assert answer["Nodes"]["items"] == [whole_nodes(("n1",))["items"][0]]
    assert (answer["NodeNames"], list(answer["FailedAndUnresolvableNodes"])) == (None, ["n0"])


async def test_a_node_that_was_not_offered_is_not_answered(cluster: Cluster):
    pod = noted(executor("e", "n1/0"), "n1/0")
    cluster.see(pod)
    for whole in (False, True):
        answer = await cluster.filter(pod, "n0", "n2", whole=whole)
        assert answer["Nodes"]["items"] == [] if whole else answer["NodeNames"] == []
        assert list(answer["FailedAndUnresolvableNodes"]) == ["n0", "n2"]


async def test_a_pod_of_no_testbed_passes_untouched(cluster: Cluster):
    stranger = Pod("s", "default", "s", 1, Shape(SIZE))
    cluster.see(stranger)
    names = await cluster.filter(stranger, "n2", "n0")
    assert names == {
        "Nodes": None, "NodeNames": ["n2", "n0"], "FailedNodes": {}, "FailedAndUnresolvableNodes": {},
        "Error": "",
    }  # fmt: skip
    whole = await cluster.filter(stranger, "n2", "n0", whole=True)
    assert whole["Nodes"] == whole_nodes(("n2", "n0"))
    assert await cluster.preempt(stranger, {"n0": ["v"]}, violations=2) == {
        "n0": {"Pods": [{"UID": "v"}], "NumPDBViolations": 2}
    }
    assert await cluster.extender.prioritize(args(stranger, ("n0",))) == messages.NO_SCORES


async def test_no_slot_is_free_and_nobody_is_evicted_for_it(cluster: Cluster):
    cluster.see(noted(executor("first", "n1/0"), "n1/0"))
    second = executor("second", "n1/0")
    cluster.see(second)
    answer = await cluster.filter(second, "n0", "n1")
    assert answer["NodeNames"] == [] and answer["Error"] == ""
    assert set(answer["FailedAndUnresolvableNodes"]) == {"n0", "n1"}
    assert answer["FailedAndUnresolvableNodes"]["n1"] == "no slot it may use is free: n1/0 of testbed bed"
    assert await cluster.preempt(second, {"n1": ["uid-first"]}) == {}


async def test_the_slots_node_has_the_top_score(cluster: Cluster):
    pod = noted(executor("e", "n1/0"), "n1/0")
    cluster.see(pod)
    for whole in (False, True):
        assert json.loads(await cluster.extender.prioritize(args(pod, ("n0", "n1"), whole))) == [
            {"Host": "n1", "Score": 10}
        ]
        assert await cluster.extender.prioritize(args(pod, ("n0",), whole)) == b"[]\n"


# -- what has to be there first ------------------------------------------------------------------------


async def test_a_pod_that_is_not_seen_yet_is_waited_for():
    cluster = Cluster(patience=30)
    pod = executor("e", "n2/1")
    asked = asyncio.create_task(cluster.filter(pod, "n1", "n2"))
    await asyncio.sleep(0)
    cluster.see(executor("other", "n0/0"))
    cluster.see(pod)
    await asyncio.sleep(0)
    assert not asked.done(), "its slot is not written down on it"
    cluster.see(noted(pod, "n2/1"))
    assert (await asked)["NodeNames"] == ["n2"]


async def test_what_is_waited_for_in_vain_is_said(cluster: Cluster):
    pod = executor("e", "n2/1")
    answer = await cluster.filter(pod, "n2")
    assert "has not seen pod default/e (uid-e) yet" in answer["Error"]
    assert (answer["NodeNames"], answer["Nodes"]) == (None, None)
    cluster.see(pod)
    assert "slot n2/1 is not written down on pod default/e yet" in (await cluster.filter(pod, "n2"))["Error"]


async def test_nothing_is_said_before_everything_is_known():
    cluster = Cluster(ready=False)
    pod = noted(executor("e", "n2/1"), "n2/1")
    cluster.see(pod)
    assert "has not seen the whole cluster yet" in (await cluster.filter(pod, "n2"))["Error"]
    assert "has not seen the whole cluster yet" in await cluster.bound(pod, "n2")
    cluster.begin()
    assert (await cluster.filter(pod, "n2"))["NodeNames"] == ["n2"]


async def test_RA11_the_watch_counts_and_not_what_is_asked(cluster: Cluster):
    """Labels of the question are believed only of a pod that nobody has seen, and then it is waited for."""
    pod = noted(executor("e", "n1/0"), "n1/0")
    cluster.see(pod)
    assert (await cluster.filter(structs.replace(pod, labels={}), "n0", "n1"))["NodeNames"] == ["n1"]
    stranger = Pod("s", "default", "s", 1, Shape(SIZE))
    cluster.see(stranger)
    liar = structs.replace(stranger, labels=pod.labels, annotations=pod.annotations)
    assert (await cluster.filter(liar, "n0", "n1"))["NodeNames"] == ["n0", "n1"]
    again = structs.replace(pod, uid="another uid")
    assert "has not seen pod default/e (another uid)" in (await cluster.filter(again, "n1"))["Error"]


async def test_RA8_slots_written_down_are_kept_over_a_restart():
    """The engine would have given the first who came n0/0, the other n1/0."""
    cluster = Cluster(ready=False)
    slots = ("n0/0", "n1/0", "n2/1")
    first, second = noted(executor("a", *slots), "n2/1"), noted(executor("b", *slots), "n0/0")
    third = executor("0", *slots)
    cluster.see(third, first, second)
    cluster.begin()
    assert (await cluster.filter(first, "n0", "n1", "n2"))["NodeNames"] == ["n2"]
    assert (await cluster.filter(second, "n0", "n1", "n2"))["NodeNames"] == ["n0"]
    assert cluster.state.esi.places[third.uid].slot == "n1/0"


async def test_RA8_a_slot_that_the_pod_may_not_use_is_not_kept(cluster: Cluster):
    """Whoever may write pods may write that, too."""
    cluster.see(noted(executor("e", "n0/0", "n1/0"), "n2/1"))
    assert cluster.state.esi.places["uid-e"].slot == "n0/0"


# -- writing slots down --------------------------------------------------------------------------------


def patches(cluster: Cluster) -> list[PatchObject]:
    return [each for each in cluster.commands if isinstance(each, PatchObject)]


def test_RA8_a_slot_is_written_down_on_a_pod_that_others_bind():
    cluster = Cluster()
    pod = executor("e", "n2/1")
    cluster.see(pod)
    (patch,) = patches(cluster)
    assert (patch.ref, patch.sub) == (ObjectRef("Pod", "default", "e", "uid-e"), "")
    labels = {ID_LABEL: "1", NODE_LABEL: "n2"}
    assert json.loads(patch.body) == {"metadata": {"labels": labels, "annotations": {SLOT: "n2/1"}}}
    cluster.see(structs.replace(pod, version=11, condition="False/Unschedulable"))
    assert patches(cluster) == [], "it is on its way"
    cluster.learn(ev.Tick(1_000 + AGAIN))
    assert patches(cluster) == [patch]
    cluster.see(structs.replace(noted(pod, "n2/1"), version=12))
    cluster.learn(ev.Tick(1_000 + 3 * AGAIN))
    assert patches(cluster) == []


def test_RA8_nothing_is_written_down_of_a_pod_that_is_ours_to_bind_or_bound():
    cluster = Cluster(settings=Settings(pace=0, aliases=(SCHEDULER,)))
    cluster.see(executor("ours", "n2/1"), executor("bound", "n1/0", node="n1"))
    assert len(cluster.state.esi.places) == 2
    assert patches(cluster) == []


def test_a_pod_that_gets_its_slot_late_is_roused_by_the_end_of_its_ghost():
    """kube-scheduler has found no room for it before, and sleeps over it until some pod on a node goes."""
    cluster = Cluster()
    first, late = executor("first", "n2/1"), executor("late", "n2/1")
    cluster.see(ghost("n2/1"), first, late)
    assert [each.ref.name for each in patches(cluster)] == ["first"]
    late = structs.replace(late, version=11, condition="False/Unschedulable")
    cluster.see(late)
    cluster.learn(ev.PodGone(first.uid, 20))
    patch, end = cluster.commands[:2]
    assert isinstance(patch, PatchObject) and patch.ref.name == "late"
    assert end == DeleteObject(ObjectRef("Pod", "default", "ghostpod-bed-on-n2-1", "ghost-n2-1"), 0)


def test_what_kubelets_write_of_a_pod_in_a_slot_is_nothing_to_look_at():
    cluster = Cluster()
    pod = executor("e", "n2/1", node="n2")
    cluster.see(pod)
    esi = cluster.state.esi
    for changes, matters in (({}, False), ({"phase": PodPhase.RUNNING}, True), ({"started": True}, False)):
        esi.dirty = False
        pod = structs.replace(pod, version=pod.version + 1, **changes)
        cluster.see(pod)
        assert esi.dirty is matters, changes


def test_RA8_a_slot_lost_and_another_found_is_written_down_anew():
    cluster = Cluster()
    pod = noted(executor("e", "n2/1", "n1/0"), "n2/1")
    cluster.see(pod)
    assert patches(cluster) == []
    gone = structs.replace(pod, version=20, annotations={**pod.annotations, SLOTS: "n1/0"})
    cluster.see(gone)
    (patch,) = patches(cluster)
    assert json.loads(patch.body)["metadata"]["annotations"] == {SLOT: "n1/0"}


# -- preemption ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [False, True])
async def test_RA10_exactly_the_ghost_in_the_slot_goes(cluster: Cluster, whole: bool):
    cluster.see(ghost("n1/0"), ghost("n1/1"), ghost("n0/0"))
    pod = noted(executor("e", "n1/1"), "n1/1")
    cluster.see(pod)
    proposed = {"n0": ["ghost-n0-0"], "n1": ["ghost-n1-0", "uid-app"]}
    chosen = {"n1": {"Pods": [{"UID": "ghost-n1-1"}], "NumPDBViolations": 0}}
    assert await cluster.preempt(pod, proposed, whole=whole, violations=2) == chosen
    proposed = {"n1": ["ghost-n1-0", "ghost-n1-1"]}
    violating = {"n1": {"Pods": [{"UID": "ghost-n1-1"}], "NumPDBViolations": 1}}
    assert await cluster.preempt(pod, proposed, whole=whole, violations=2) == violating


async def test_RA10_nobody_goes_where_no_ghost_is_in_the_slot(cluster: Cluster):
    cluster.see(ghost("n1/0"))
    pod = noted(executor("e", "n1/1"), "n1/1")
    cluster.see(pod)
    assert await cluster.preempt(pod, {"n1": ["ghost-n1-0"]}) == {}
    assert await cluster.preempt(pod, {"n0": ["x"]}) == {}
    assert await cluster.preempt(pod, {}) == {}


async def test_a_ghost_that_kube_scheduler_finds_room_beside_keeps_nobody_out(cluster: Cluster):
    cluster.see(ghost("n1/1"))
    pod = noted(executor("e", "n1/1"), "n1/1")
    cluster.see(pod)
    assert (await cluster.filter(pod, "n1"))["NodeNames"] == ["n1"]


# -- bind ----------------------------------------------------------------------------------------------


async def test_bind_carries_the_slot_and_what_the_pod_was(cluster: Cluster):
    pod = noted(executor("e", "n1/1"), "n1/1")
    cluster.see(pod)
    assert await cluster.bound(pod, "n1") == ""
    (bind,) = cluster.binds
    assert (bind.pod, bind.namespace, bind.name, bind.node) == ("uid-e", "default", "e", "n1")
    assert (bind.version, bind.scheduler) == (11, SCHEDULER)
    assert dict(bind.labels) == {ID_LABEL: "1", NODE_LABEL: "n1"}
    assert dict(bind.annotations) == {SLOT: "n1/1"}


async def test_bind_asked_twice_binds_once(cluster: Cluster):
    pod = noted(executor("e", "n1/1"), "n1/1")
    cluster.see(pod)
    cluster.open.clear()
    asked = [asyncio.create_task(cluster.bound(pod, "n1")) for _ in range(3)]
    await asyncio.sleep(0)
    assert await cluster.bound(pod, "n2") == "the pod is being bound to n1"
    cluster.open.set()
    assert [await each for each in asked] == ["", "", ""]
    cluster.see(structs.replace(pod, version=12, node="n1"))
    assert await cluster.bound(pod, "n1") == ""
    assert await cluster.bound(pod, "n2") == "the pod is bound to n1"
    assert len(cluster.binds) == 1


async def test_a_bind_that_failed_is_told_and_may_be_asked_for_again(cluster: Cluster):
    pod = noted(executor("e", "n1/1"), "n1/1")
    cluster.see(pod)
    cluster.answers = ["refused: no such node"]
    assert await cluster.bound(pod, "n1") == "refused: no such node"
    assert await cluster.bound(pod, "n1") == ""


async def test_bind_to_where_the_slot_is_not_is_refused(cluster: Cluster):
    pod = noted(executor("e", "n1/1"), "n1/1")
    waiting = executor("waiting", "n1/1")
    cluster.see(pod, waiting)
    assert await cluster.bound(pod, "n0") == (
        "the pod has slot n1/1 of testbed default/bed, so it cannot be bound to n0"
    )
    assert "no slot it may use is free" in await cluster.bound(waiting, "n1")
    assert await cluster.bound(structs.replace(pod, name="f"), "n1") == "pod uid-e is default/e here"
    assert await cluster.bound(structs.replace(pod, uid="?"), "n1") == "Fairlead knows no pod of uid ?"
    assert cluster.binds == []


async def test_pods_of_no_testbed_are_bound_only_for_esis_own_scheduler(cluster: Cluster):
    ours, other = (Pod(s, "default", s, 1, Shape(SIZE), s) for s in (SCHEDULER, "default-scheduler"))
    cluster.see(ours, other)
    assert await cluster.bound(ours, "n2") == ""
    assert (await cluster.bound(other, "n2")).startswith("the pod is default-scheduler's")
    (bind,) = cluster.binds
    assert (bind.pod, bind.labels, bind.annotations) == (ours.uid, (), ())


# -- bodies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "body", "complaint"),
    [
        ("filter", b"", "not the ExtenderArgs"),
        ("filter", b"\xff", "not the ExtenderArgs"),
        ("filter", b'{"Nodes": null}', "missing required field `Pod`"),
        ("filter", b'{"Pod": {"metadata": {"uid": "u"}}}', "neither NodeNames nor Nodes"),
        ("filter", b'{"Pod": {"metadata": {}}, "NodeNames": []}', "no metadata.uid"),
        ("filter", b'{"Pod": {"metadata": {"uid": "u"}}, "NodeNames": [1]}', "Expected `str`"),
        ("prioritize", b"[]", "not the ExtenderArgs"),
        ("preemption", b"{}", "not the ExtenderPreemptionArgs"),
        (
            "preemption",
            b'{"Pod": {"metadata": {"uid": "u"}}, "NodeNameToVictims": []}',
            "not the ExtenderPreemptionArgs",
        ),
        ("bind", b'{"PodName": 1}', "not the ExtenderBindingArgs"),
        ("bind", b'{"PodName": "", "PodNamespace": "a", "PodUID": "u", "Node": "n"}', "needs PodName"),
    ],
)
async def test_what_is_no_question_is_refused_with_a_sentence(
    cluster: Cluster, verb: str, body: bytes, complaint: str
):
    async with client(cluster) as http:
        answer = await http.post(f"/extender/{verb}", content=body)
    assert answer.status_code == 400
    assert complaint in answer.json()["error"]


def test_lists_that_go_leaves_out_are_empty():
    asked = messages.preempting(b'{"Pod": {"metadata": {"uid": "u"}}, "NodeNameToVictims": {"n": null}}')
    assert asked.victims == {"n": messages.Victims((), 0)}
    asked = messages.preempting(
        b'{"Pod": {"metadata": {"uid": "u", "labels": null}}, "NodeNameToMetaVictims": {"n": {"Pods": null}}}'
    )
    assert asked.victims == {"n": messages.Victims((), 0)}
    found = messages.question(b'{"Pod": {"metadata": {"uid": "u"}}, "Nodes": {"items": null}}')
    assert (found.names, json.loads(messages.kept(found, "n", {}))["Nodes"]) == ([], {"items": []})


def test_a_body_that_is_wrong_says_so_as_a_value_error():
    with pytest.raises(NotUnderstood, match="ExtenderBindingArgs"):
        messages.binding(b"null")


# -- over HTTP -----------------------------------------------------------------------------------------


def client(cluster: Cluster) -> httpx.AsyncClient:
    app = Starlette(routes=door.routes(cluster.extender))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")


async def test_the_ready_configuration_asks_for_these_routes(cluster: Cluster):
    pod = noted(executor("e", "n1/0"), "n1/0")
    cluster.see(pod, ghost("n1/0"))
    (extender,) = yaml.safe_load(CONFIGURATION.read_text(encoding="utf-8"))["extenders"]
    base = urlsplit(extender["urlPrefix"]).path
    bodies = {
        "filterVerb": (args(pod, ("n0", "n1")), "NodeNames"),
        "prioritizeVerb": (args(pod, ("n0", "n1")), ""),
        "preemptVerb": (preemption(pod, {"n1": ["ghost-n1-0"]}), "NodeNameToMetaVictims"),
        "bindVerb": (binding(pod, "n1"), "Error"),
    }
    assert {key for key in extender if key.endswith("Verb")} == set(bodies)
    async with client(cluster) as http:
        for verb, (body, field) in bodies.items():
            answer = await http.post(f"{base}/{extender[verb]}", content=body)
            assert answer.status_code == 200, verb
            assert not field or field in answer.json()
            assert (await http.get(f"{base}/{extender[verb]}")).status_code == 405
    assert not extender["ignorable"]
    assert float(extender["httpTimeout"].removesuffix("s")) > 2 * door.PATIENCE


async def test_a_preemption_that_cannot_be_answered_yet_is_503(cluster: Cluster):
    async with client(cluster) as http:
        body = preemption(executor("e", "n1/0"), {"n1": ["x"]})
        answer = await http.post("/extender/preemption", content=body)
    assert answer.status_code == 503
    assert "has not seen pod default/e" in answer.json()["error"]


async def test_too_large_a_body_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(door, "LARGEST", 100)
    async with client(cluster) as http:
        answer = await http.post("/extender/filter", content=b" " * 101)
    assert answer.status_code == 400
    assert "too large" in answer.json()["error"]
