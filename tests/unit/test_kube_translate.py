"""Wire objects to model objects: amounts, shapes, lives, owners, nodes, and what cannot be read."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from fairlead.kube import translate
from fairlead.model.event import NodeSeen, OwnerSeen, PodSeen
from fairlead.model.pod import OwnerRef, Pod, PodPhase, Shape, Toleration
from fairlead.model.rules import EVERY_ADDRESS
from fairlead.model.selector import Expression, Operator
from fairlead.wire.pod import millis

Json = dict[str, Any]


def read(thing: Json, count: Callable[[str], None] = lambda _: None) -> Pod:
    event = translate.pod_seen(json.dumps(thing).encode(), count)
    assert isinstance(event, PodSeen)
    return event.pod


def wire(spec: Json | None = None, status: Json | None = None, **meta: Any) -> Json:
    metadata = {"name": "p", "namespace": "ns", "uid": "u1", "resourceVersion": "7", **meta}
    return {"metadata": metadata, "spec": {"containers": [], **(spec or {})}, "status": status or {}}


def container(name: str = "c", **requests: Any) -> Json:
    return {
        "name": name,
        "resources": {"requests": {key.replace("_", "-"): text for key, text in requests.items()}},
    }


def sidecar(name: str = "s", **requests: Any) -> Json:
    return {**container(name, **requests), "restartPolicy": "Always"}


def requests(spec: Json, status: Json | None = None) -> dict[str, int]:
    return dict(read(wire(spec, status)).shape.requests)


def shape(spec: Json) -> Shape:
    return read(wire(spec)).shape


# -- amounts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "milli"),
    [
        ("100m", 100),
        ("0.1", 100),
        ("1e3", 1_000_000),
        ("2", 2000),
        (2, 2000),
        ("1.5", 1500),
        ("100u", 1),
        ("1n", 1),
    ],
)
def test_cpu_in_milli_cores_rounded_up(cpu: Any, milli: int) -> None:
    assert requests({"containers": [container(cpu=cpu)]}) == {"cpu": milli, "pods": 1}


@pytest.mark.parametrize(
    ("memory", "size"),
    [
        ("1.5Gi", 3 << 29),
        ("100m", 1),
        ("1e3", 1000),
        ("128974848", 128974848),
        ("129M", 129_000_000),
        ("1Ki", 1024),
    ],
)
def test_memory_in_bytes_rounded_up(memory: str, size: int) -> None:
    assert requests({"containers": [container(memory=memory)]}) == {"memory": size, "pods": 1}


def test_a_sum_is_rounded_once() -> None:
    assert requests({"containers": [container("a", cpu="500u"), container("b", cpu="500u")]})["cpu"] == 1


def test_zero_amounts_are_left_out() -> None:
    assert requests({"containers": [container(cpu="0", memory="0Gi")]}) == {"pods": 1}


def test_extended_resources_and_their_order() -> None:
    pod = read(wire({"containers": [{"resources": {"requests": {"nvidia.com/gpu": "4", "cpu": "1"}}}]}))
    assert pod.shape.requests == (("cpu", 1000), ("nvidia.com/gpu", 4), ("pods", 1))


@pytest.mark.parametrize(
    ("inits", "containers", "cpu"),
    [
        ([], [1, 2], 3000),
        ([("i", 5)], [1, 2], 5000),
        ([("i", 2)], [1, 2], 3000),
        ([("s", 1)], [1, 2], 4000),
        # An init container runs beside the sidecars started before it, not beside later ones.
        ([("s", 3), ("i", 4)], [1], 7000),
        ([("i", 4), ("s", 3)], [1], 4000),
        ([("i", 4), ("s", 3)], [2], 5000),
        ([("s", 1), ("i", 4), ("s", 2)], [1], 5000),
        ([("s", 1), ("s", 2), ("i", 4)], [1], 7000),
        ([("s", 10)], [], 10000),
    ],
)
def test_init_containers_and_sidecars(inits: list[tuple[str, int]], containers: list[int], cpu: int) -> None:
    spec = {
        "initContainers": [
            (sidecar if kind == "s" else container)(f"{kind}{index}", cpu=str(amount))
            for index, (kind, amount) in enumerate(inits)
        ],
        "containers": [container(f"c{index}", cpu=str(amount)) for index, amount in enumerate(containers)],
    }
    assert requests(spec)["cpu"] == cpu


def test_the_larger_side_is_taken_per_resource() -> None:
    spec = {
        "initContainers": [container("i", cpu="4", memory="1Gi")],
        "containers": [container(cpu="1", memory="2Gi")],
    }
    assert requests(spec) == {"cpu": 4000, "memory": 2 << 30, "pods": 1}


def test_overhead_comes_on_top() -> None:
    spec = {
        "containers": [container(cpu="1")],
        "initContainers": [container("i", cpu="3")],
        "overhead": {"cpu": "250m", "memory": "64Mi"},
    }
    assert requests(spec) == {"cpu": 3250, "memory": 64 << 20, "pods": 1}


def test_pod_level_requests_replace_the_sum_where_they_may() -> None:
    spec = {
        "containers": [container(cpu="1", memory="1Gi", ephemeral_storage="1Gi")],
        "resources": {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi", "ephemeral-storage": "9Gi"}},
        "overhead": {"cpu": "1"},
    }
    assert requests(spec) == {
        "cpu": 4000,
        "memory": 1 << 30,
        "hugepages-2Mi": 4 << 20,
        "ephemeral-storage": 1 << 30,
        "pods": 1,
    }


def statuses(actuated: Any, allocated: Any, infeasible: bool = False, name: str = "c") -> Json:
    entry = {
        "name": name,
        "resources": {"requests": actuated} if actuated else {},
        "allocatedResources": allocated,
    }
    conditions = (
        [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}] if infeasible else []
    )
    return {"containerStatuses": [entry], "conditions": conditions}


@pytest.mark.parametrize(
    ("actuated", "allocated", "infeasible", "cpu"),
    [
        ({"cpu": "1"}, {"cpu": "1"}, False, 2000),
        ({"cpu": "3"}, {"cpu": "1"}, False, 3000),
        ({"cpu": "1"}, {"cpu": "4"}, False, 4000),
        ({"cpu": "1"}, {"cpu": "1"}, True, 1000),
        ({"cpu": "1"}, {"cpu": "4"}, True, 4000),
    ],
)
def test_resize_in_place(actuated: Json, allocated: Json, infeasible: bool, cpu: int) -> None:
    spec = {"containers": [container(cpu="2")]}
    assert requests(spec, statuses(actuated, allocated, infeasible))["cpu"] == cpu


def test_allocated_resources_alone_do_not_count() -> None:
    status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}]}
    assert requests({"containers": [container(cpu="2")]}, status)["cpu"] == 2000


def test_resize_of_a_sidecar_counts_and_of_an_init_container_does_not() -> None:
    spec = {"containers": [container(cpu="1")], "initContainers": [sidecar(cpu="1"), container("i", cpu="1")]}
    status = {
        "initContainerStatuses": [
            {"name": "s", "resources": {"requests": {"cpu": "2"}}},
            {"name": "i", "resources": {"requests": {"cpu": "50"}}},
        ]
    }
    assert requests(spec, status)["cpu"] == 3000


def test_resize_of_the_pod_as_a_whole() -> None:
    spec = {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "2"}}}
    status = {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "1"}}
    assert requests(spec, status)["cpu"] == 3000


def test_host_ports() -> None:
    ports = [{"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.1"}, {"containerPort": 9}]
    spec = {
        "containers": [{"name": "c", "ports": ports}],
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 53, "protocol": "UDP"}]},
            {"name": "i", "ports": [{"hostPort": 99, "protocol": "TCP"}]},
        ],
    }
    own = {"port:TCP/80": 1, "port:TCP/80@10.0.0.1": 1}
    assert requests(spec) == {"pods": 1, **own, "port:UDP/53": EVERY_ADDRESS}


# -- where it may go ---------------------------------------------------------------------------------


def affinity(*terms: Json) -> Json:
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"affinity": {"nodeAffinity": {key: {"nodeSelectorTerms": list(terms)}}}}


def test_selector_is_sorted_expressions() -> None:
    assert shape({"nodeSelector": {"b": "2", "a": "1"}}).selector == (
        Expression("a", Operator.IN, ("1",)),
        Expression("b", Operator.IN, ("2",)),
    )


def test_affinity_terms_are_a_disjunction_of_conjunctions() -> None:
    terms = affinity(
        {
            "matchExpressions": [
                {"key": "z", "operator": "NotIn", "values": ["b", "a"]},
                {"key": "y", "operator": "Exists"},
            ]
        },
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    )
    assert shape(terms).affinity == (
        (Expression("metadata.name", Operator.IN, ("n1",), field=True),),
        (Expression("y", Operator.EXISTS), Expression("z", Operator.NOT_IN, ("a", "b"))),
    )


def test_an_empty_term_matches_nothing_and_does_not_spoil_the_others() -> None:
    assert shape(affinity({}, {"matchExpressions": [{"key": "a", "operator": "Exists"}]})).affinity == (
        (),
        (Expression("a", Operator.EXISTS),),
    )
    assert shape(affinity({})).affinity == ((),)
    assert shape(affinity()).affinity == ((),)


def test_no_affinity_is_none_and_preferred_is_ignored() -> None:
    assert shape({}).affinity == ()
    preferred = {
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    }
    assert shape(preferred) == shape({})


def test_an_unknown_operator_makes_the_pod_unsupported() -> None:
    pod = shape(affinity({"matchExpressions": [{"key": "a", "operator": "Near", "values": ["1"]}]}))
    assert pod.unsupported and "Near" in pod.unsupported[0]


def test_tolerations_are_sorted_and_lose_their_seconds() -> None:
    wire_tolerations = [
        {"key": "b", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "a", "value": "1"},
    ]
    assert shape({"tolerations": wire_tolerations}).tolerations == (
        Toleration("a", "Equal", "1", ""),
        Toleration("b", "Exists", "", "NoExecute"),
    )


RULE = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "resourceClaims"),
        ({"schedulingGroup": {"podGroupName": "g"}}, "schedulingGroup"),
        ({"workloadRef": {"name": "g"}}, "workloadRef"),
    ],
)
def test_what_is_not_honoured_is_named(spec: Json, field: str) -> None:
    (text,) = shape(spec).unsupported
    assert text.startswith("spec.") and field in text


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]},
        {
            "volumes": [
                {"name": "v", "emptyDir": {}},
                {"name": "t", "projected": {}},
                {"name": "s", "configMap": {}},
            ]
        },
        {"hostNetwork": True},
        {"affinity": {"podAffinity": {RULE: [{"topologyKey": "x"}]}}},
        {"affinity": {"podAntiAffinity": {RULE: [{"topologyKey": "x"}]}}},
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]},
        {"hostNetwork": True, "hostUsers": False},
        {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
    ],
)
def test_what_the_filters_look_at_is_supported(spec: Json) -> None:
    assert shape(spec).unsupported == ()


def test_a_thousand_alike_share_one_shape() -> None:
    spec = {"containers": [container(cpu="1")], "nodeSelector": {"a": "b"}}
    shapes = {
        id(read(wire({**spec, "nodeName": f"n{index}"}, uid=f"u{index}")).shape) for index in range(1000)
    }
    assert len(shapes) == 1
    renamed = read(wire({**spec, "containers": [container("other", cpu="1000m")]}))
    assert {id(renamed.shape)} == shapes


# -- the rest of a pod -------------------------------------------------------------------------------


def test_B13_bare_pod_without_labels() -> None:
    pod = read({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": []}})
    assert (pod.labels, pod.annotations, pod.owner, pod.version) == ({}, {}, None, 0)
    assert pod.shape == Shape(requests=(("pods", 1),))


def test_F23_quotes_in_pod_names_and_commands_are_data() -> None:
    name = 'it\'s; DROP TABLE "pods" -- \\ \u2028 ä'
    spec = {"containers": [{"name": name, "command": ["sh", "-c", "echo 'it''s' \"x\" \\\n"]}]}
    pod = read(wire(spec, name=name, labels={"fairlead.dev/group": name}))
    assert (pod.name, pod.labels["fairlead.dev/group"]) == (name, name)


def test_all_fields_of_a_pod() -> None:
    owners = [
        {"kind": "Job", "name": "other", "uid": "o0"},
        {"kind": "Job", "name": "j", "uid": "o1", "controller": True},
    ]
    pod = read(
        wire(
            {"schedulerName": "fairlead", "nodeName": "n1", "priority": -5, "activeDeadlineSeconds": 60},
            {
                "phase": "Running",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Queued"}],
            },
            labels={"a": "b"},
            annotations={"fairlead.dev/duration": "1h", "kubectl.kubernetes.io/x": "{}"},
            creationTimestamp="2026-11-21T09:59:17Z",
            deletionTimestamp="2026-11-21T10:00:00Z",
            ownerReferences=owners,
        )
    )
    assert pod == Pod(
        uid="u1",
        namespace="ns",
        name="p",
        version=7,
        shape=Shape(requests=(("pods", 1),)),
        scheduler="fairlead",
        node="n1",
        phase=PodPhase.RUNNING,
        created=1795255157000,
        deleting=True,
        priority=-5,
        labels={"a": "b"},
        annotations={"fairlead.dev/duration": "1h"},
        owner=OwnerRef("Job", "j", "o1"),
        condition="False/Queued",
        started=True,
        walltime=60_000,
    )


def test_gates_and_times() -> None:
    assert read(wire({"schedulingGates": [{"name": "g"}]})).gated
    assert millis("2026-11-21T09:59:17.25Z") == 1795255157250
    assert millis(None) == 0


@pytest.mark.parametrize(
    ("status", "started"),
    [
        ({"phase": "Pending"}, False),
        ({"phase": "Running"}, True),
        ({"phase": "Succeeded"}, True),
        ({"phase": "Failed", "reason": "OutOfcpu"}, False),
        ({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}, True),
        ({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {}}}]}, False),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {"running": {}}}]}, True),
        ({"phase": "Pending", "containerStatuses": [{"lastState": {"terminated": {}}}]}, True),
        ({"phase": "Pending", "containerStatuses": [{"restartCount": 1}]}, True),
    ],
)
def test_started_means_a_container_ran(status: Json, started: bool) -> None:
    assert read(wire(None, status)).started is started


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [container(cpu="ten")], "nodeName": "n1"},
        {"containers": [container(cpu=True)], "nodeName": "n1"},
        {"containers": "none", "nodeName": "n1"},
        {"containers": [container(cpu="1")], "priority": "high", "nodeName": "n1"},
    ],
)
def test_an_unreadable_pod_is_still_there(spec: Json) -> None:
    counted: list[str] = []
    pod = read(wire(spec, {"phase": "Running"}), counted.append)
    assert (pod.uid, pod.node, pod.version, pod.phase) == ("u1", "n1", 7, PodPhase.RUNNING)
    assert pod.shape.unsupported[0].startswith("unreadable: ")
    assert dict(pod.shape.requests)["pods"] == 1
    assert len(counted) == 1


def test_an_unreadable_pod_holds_what_can_be_read_of_it() -> None:
    spec = {
        "nodeName": "n1",
        "schedulerName": "fairlead",
        "priority": "high",
        "containers": [container(cpu="ten", memory="1Gi"), container(cpu="500m"), "odd", {"resources": 5}],
        "initContainers": [{"resources": {"requests": {"memory": "3Gi"}}}],
        "overhead": {"cpu": "100m", "memory": None},
    }
    thing = wire(spec, {"phase": "Running"})
    thing["metadata"] |= {"labels": {"a": "b", "c": 5}, "creationTimestamp": "yesterday"}
    pod = read(thing)
    assert (pod.uid, pod.node, pod.scheduler, pod.phase) == ("u1", "n1", "fairlead", PodPhase.RUNNING)
    assert (pod.labels, pod.created) == ({"a": "b"}, 0)
    assert dict(pod.shape.requests) == {"cpu": 600, "memory": 3 << 30, "pods": 1}


def test_one_unreadable_amount_does_not_free_the_others() -> None:
    pod = read(wire({"containers": [container(cpu="ten", memory="1Gi")], "nodeName": "n1"}))
    assert dict(pod.shape.requests) == {"memory": 1 << 30, "pods": 1}


def test_what_cannot_be_read_is_said_once_and_counted_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    counted: list[str] = []
    odd = wire({"containers": "none", "nodeName": "n1"})
    odd["metadata"]["name"] = "said-once"
    for version in ("7", "8", "9"):
        odd["metadata"]["resourceVersion"] = version
        read(odd, counted.append)
    assert counted == ["unreadable"] * 3
    assert capsys.readouterr().err.count("said-once") == 1


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b'{"metadata":{"name":1}}', b'{"spec":{}}', b"\xff"])
def test_what_is_no_object_is_nothing(raw: bytes) -> None:
    counted: list[str] = []
    for kind in translate.KINDS:
        assert kind.seen(raw, counted.append) is None
    assert len(counted) == len(translate.KINDS)


# -- nodes and owners --------------------------------------------------------------------------------


def node(thing: Json) -> Any:
    event = translate.node_seen(json.dumps(thing).encode(), lambda _: None)
    assert isinstance(event, NodeSeen)
    return event.node


def test_a_node() -> None:
    seen = node(
        {
            "metadata": {"name": "n1", "uid": "u", "resourceVersion": "3", "labels": {"a": "b"}},
            "spec": {
                "unschedulable": True,
                "taints": [
                    {"key": "z", "effect": "NoExecute"},
                    {"key": "a", "value": "1", "effect": "NoSchedule"},
                    {"key": "p", "effect": "PreferNoSchedule"},
                ],
            },
            "status": {
                "allocatable": {"cpu": "7910m", "memory": "1.5Gi", "pods": "110", "example.com/none": "0"},
                "conditions": [
                    {"type": "Ready", "status": "True"},
                    {"type": "DiskPressure", "status": "False"},
                ],
            },
        }
    )
    assert seen.allocatable == (("cpu", 7910), ("memory", 3 << 29), ("pods", 110))
    assert [(taint.key, taint.value, taint.effect) for taint in seen.taints] == [
        ("a", "1", "NoSchedule"),
        ("p", "", "PreferNoSchedule"),
        ("z", "", "NoExecute"),
    ]
    assert (seen.unschedulable, seen.ready, seen.deleting) == (True, True, False)


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_ready(status: str, ready: bool) -> None:
    conditions = [{"type": "Ready", "status": status}]
    assert node({"metadata": {"name": "n"}, "status": {"conditions": conditions}}).ready is ready


def test_an_unreadable_node_offers_nothing() -> None:
    seen = node({"metadata": {"name": "n", "uid": "u"}, "status": {"allocatable": {"cpu": "many"}}})
    assert (seen.uid, seen.allocatable, seen.ready) == ("u", (), False)


def owner(kind: translate.Kind, spec: Json, status: Json | None = None, **meta: Any) -> Any:
    thing = {
        "metadata": {"name": "o", "namespace": "ns", "uid": "u", **meta},
        "spec": spec,
        "status": status or {},
    }
    event = kind.seen(json.dumps(thing).encode(), lambda _: None)
    assert isinstance(event, OwnerSeen)
    return event.owner


@pytest.mark.parametrize(
    ("spec", "succeeded", "size"),
    [
        ({"parallelism": 4}, 0, 4),
        ({"parallelism": 4, "completions": 10}, 0, 4),
        ({"parallelism": 4, "completions": 10}, 8, 2),
        ({"parallelism": 4, "completions": 4}, 4, 0),
        ({"parallelism": 4, "completions": 4}, 5, 0),
        ({"parallelism": 0, "completions": 4}, 0, 0),
        ({}, 0, 1),
    ],
)
def test_the_size_of_a_job(spec: Json, succeeded: int, size: int) -> None:
    assert owner(translate.JOBS, spec, {"succeeded": succeeded}).size == size


def test_a_job() -> None:
    seen = owner(
        translate.JOBS,
        {"suspend": True, "activeDeadlineSeconds": 30, "parallelism": 1},
        {"conditions": [{"type": "Failed", "status": "True"}]},
        annotations={"fairlead.dev/duration": "5m", "x": "y"},
        ownerReferences=[{"kind": "CronJob", "name": "c", "uid": "cu", "controller": True}],
    )
    assert (seen.kind, seen.suspended, seen.deadline, seen.ended) == ("Job", True, 30_000, "failed")
    assert seen.annotations == {"fairlead.dev/duration": "5m"}
    assert seen.owner == OwnerRef("CronJob", "c", "cu")


@pytest.mark.parametrize(
    ("condition", "ended"),
    [
        ({"type": "Complete", "status": "True"}, "completed"),
        ({"type": "Failed", "status": "False"}, ""),
        ({"type": "Suspended", "status": "True"}, ""),
    ],
)
def test_the_end_of_a_job(condition: Json, ended: str) -> None:
    assert owner(translate.JOBS, {}, {"conditions": [condition]}).ended == ended


def test_sets() -> None:
    assert owner(translate.REPLICA_SETS, {"replicas": 3}).size == 3
    assert owner(translate.REPLICA_SETS, {"replicas": 0}).size == 0
    ordered = owner(translate.STATEFUL_SETS, {"replicas": 3, "podManagementPolicy": "OrderedReady"})
    assert (ordered.kind, ordered.size, ordered.ordered) == ("StatefulSet", 3, True)
    assert not owner(translate.STATEFUL_SETS, {"podManagementPolicy": "Parallel"}).ordered
