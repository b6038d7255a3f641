"""External schedulers on a real API server: custom resources in ESI's shape, and what becomes of them.

The scheduler runs with the account of deploy/rbac.yaml and deploy/esi.yaml. BatchJobs become Jobs, so that no
operator is needed; KWOK lets their pods run for as long as they say.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from esi_live import slots_of

from fairlead.localcluster import Cluster
from fairlead.runtime import address
from live import DIRECT, Kubectl, Scheduler, data_folder, finish, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

Object = dict[str, Any]
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PREFIX = "batchjob.tuberlin.de/"
API = "esi.tu-berlin.de/v1alpha1"


@pytest.fixture(scope="module")
def served(small_cluster: Cluster) -> Iterator[tuple[Cluster, Scheduler]]:
    """CRDs, rights and a scheduler that has no more than those."""
    kubectl = Kubectl(small_cluster, "fairlead")
    kubectl("create", "namespace", "fairlead")
    kubectl("apply", "-f", str(DEPLOY / "rbac.yaml"), "-f", str(DEPLOY / "crds"))
    kubectl("apply", "-f", str(DEPLOY / "esi.yaml"))
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    token = until(lambda: kubectl("create", "token", "fairlead").strip(), "a token")
    config = yaml.safe_load(small_cluster.kubeconfig.read_text(encoding="utf-8"))
    for user in config["users"]:
        user["user"] = {"token": token}
    with data_folder() as data:
        kubeconfig = data.with_name("kubeconfig")
        kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        with Scheduler(kubeconfig, data, "--esi") as scheduler:
            yield small_cluster, scheduler


class Lab:
    """A namespace, with a Testbed on nodes that carry a label of its own."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        Kubectl(cluster, "default")("create", "namespace", name)
        self.kubectl = Kubectl(cluster, name)
        self.name = name
        self.label = f"{name}.example/slots"

    def ref(self, name: str) -> Object:
        return {"namespace": self.name, "name": name}

    def members(self, *numbers: int, on: bool = True) -> None:
        """Label (or no longer) the nodes with these numbers."""
        for number in numbers:
            value = f"={number}" if on else "-"
            self.kubectl("label", "node", f"node-{number:04}", f"{self.label}{value}")

    def bed(self, per_node: int = 2, cpu: str = "200m", **fairlead: Any) -> Object:
        slot = {"cpu": cpu, "memory": "256Mi"}
        spec = {"nodeLabel": self.label, "slotsPerNode": per_node, "resourcesPerSlot": slot}
        return made("Testbed", "slots", {**spec, "fairlead": fairlead} if fairlead else spec)

    def job(self, name: str, run: str = "1s") -> Object:
        """`run`: "1h" for one that is ended by `finish`."""
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
        template = {"metadata": {"annotations": {"fairlead.dev/run-time": run}}, "spec": pod}
        return made("BatchJob", name, {"fairlead": {"jobSpec": {"template": template}}})

    def queue(self, name: str, *jobs: str, key: str = "testbed", **fairlead: Any) -> Object:
        spec: Object = {key: self.ref("slots"), "queueBased": [self.ref(job) for job in jobs]}
        return made("Scheduling", name, {**spec, "fairlead": fairlead} if fairlead else spec)

    def slots(self, name: str, mode: str, **jobs: list[int]) -> Object:
        listed = [{"name": self.ref(job), "slotIds": ids} for job, ids in jobs.items()]
        spec = {"testbed": self.ref("slots"), "slotBased": {"mode": mode, "jobs": listed}}
        return made("Scheduling", name, spec)

    def apply(self, *objects: Object) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "-f", "-", text=text)

    def wait(self, kind: str, name: str, state: str) -> Object:
        """Its status once it is in this state."""
        there = f"--for=jsonpath={{.status.state}}={state}"
        try:
            self.kubectl("wait", there, f"{kind}/{name}", "--timeout=100s")
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {json.dumps(self.status(kind, name))}") from None
        return self.status(kind, name)

    def status(self, kind: str, name: str) -> Object:
        return self.kubectl.get(kind, name)[0].get("status", {})

    def settled(self, state: str, slots: int) -> Object:
        """The Testbed's status once it has that state and so many slots."""

        def there() -> Object | None:
            status = self.status("tb", "slots")
            fits = status.get("state") == state and len(status.get("slots", [])) == slots
            return status if fits else None

        return until(there, f"{self.name}: {slots} slots and {state}", pause=0.2)

    def events(self, *names: str) -> list[tuple[str, str]]:
        """Start and stop of the last execution of each."""
        found = [self.status("bj", name)["scheduledEvents"][-1] for name in names]
        return [(event["start"], event["stop"]) for event in found]

    def finish(self, job: str) -> None:
        finish(self.kubectl, f"-ljob-name={job}")

    def pods(self, *jobs: str) -> list[Object]:
        return [pod for pod in self.kubectl.get("pods") if pod["metadata"]["labels"].get("job-name") in jobs]


def made(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def lab(served: tuple[Cluster, Scheduler], request: pytest.FixtureRequest) -> Lab:
    name = request.node.name.removeprefix("test_").lower().replace("_", "-")[:40].strip("-")
    return Lab(served[0], name)


# -- what is accepted --------------------------------------------------------------------------------

ESI_SHAPE = """
apiVersion: esi.tu-berlin.de/v1alpha1
kind: Testbed
metadata: {name: batchjob-slots}
spec: {nodeLabel: nobody.example/slots, slotsPerNode: 4, resourcesPerSlot: {cpu: 200m, memory: 896Mi}}
---
apiVersion: esi.tu-berlin.de/v1alpha1
kind: BatchJob
metadata: {name: spark-pi}
spec:
  sparkSpec:
    type: Scala
    mode: cluster
    image: example/spark:v3
    mainClass: org.apache.spark.examples.SparkPi
    mainApplicationFile: local:///opt/spark/examples.jar
    arguments: ["4000"]
    sparkVersion: "3.1.1"
    restartPolicy: {type: Never}
    driver: {cores: 1, coreRequest: 100m, memory: 512m, serviceAccount: esi-spark-operator}
    executor: {cores: 1, labels: {version: "3.1.1"}}
  externalScheduler: {profiler: [{flink-wc: "444.5 (3)", spark-crawler: "493 (12)"}]}
---
apiVersion: esi.tu-berlin.de/v1alpha1
kind: BatchJob
metadata: {name: flink-wc}
spec:
  flinkSpec: {jarFile: ./examples/streaming/WordCount.jar, className: example.WordCount, args: ["--input", x]}
---
apiVersion: esi.tu-berlin.de/v1alpha1
kind: Scheduling
metadata: {name: example-queue}
spec:
  slots: {namespace: NAMESPACE, name: batchjob-slots}
  queueBased: [{namespace: NAMESPACE, name: spark-pi}, {namespace: NAMESPACE, name: flink-wc}]
---
apiVersion: esi.tu-berlin.de/v1alpha1
kind: Scheduling
metadata: {name: example-slots}
spec:
  testbed: {namespace: NAMESPACE, name: batchjob-slots}
  slotBased:
    mode: STRICT
    jobs:
    - {name: {namespace: NAMESPACE, name: spark-pi}, slotIds: [0, 2]}
    - {name: {namespace: NAMESPACE, name: flink-wc}, slotIds: [1]}
"""


def test_RA14_manifests_in_ESIs_shape_are_accepted_and_come_back(lab: Lab) -> None:
    """The old key of the Testbed, too; what a Scheduling of none of our nodes waits for is told."""
    text = ESI_SHAPE.replace("NAMESPACE", lab.name)
    lab.kubectl("apply", "-f", "-", text=text)
    found = {
        (each["kind"], each["metadata"]["name"]): each["spec"] for each in lab.kubectl.get("bj,sched,tb")
    }
    for sent in yaml.safe_load_all(text):
        spec = found[sent["kind"], sent["metadata"]["name"]]
        assert {key: spec.get(key) for key in sent["spec"]} == sent["spec"]
    lab.wait("tb", "batchjob-slots", "SUCCESS")
    names = (
        "example-queue",
        "example-slots",
    )  # made within a second: either may be seen, or count, as the first

    def waits() -> tuple[str, Object] | None:
        found = {name: lab.status("sched", name) for name in names}
        states = {name: status.get("state") for name, status in found.items()}
        for first, second in (names, names[::-1]):
            if (states[first], states[second]) == ("SubmissionState", "AcquireState") and found[first][
                "reason"
            ]:
                return first, found[second]
        return None

    first, waiting = until(waits, "one of the two to have the jobs", pause=0.2)
    assert waiting["position"] == 1 and first in waiting["reason"]


OF: Object = {"testbed": {"namespace": "x", "name": "t"}}
TWICE = [{"name": {"namespace": "x", "name": "a"}, "slotIds": [number]} for number in (0, 1)]
BED: Object = {"nodeLabel": "l", "slotsPerNode": 1, "resourcesPerSlot": {"cpu": 1, "memory": "1Gi"}}
BAD: list[tuple[str, Object, str]] = [
    ("Scheduling", OF, "write exactly one of queueBased and slotBased"),
    ("Scheduling", {**OF, "queueBased": [], "slotBased": {"jobs": []}}, "write exactly one of queueBased"),
    ("Scheduling", {"queueBased": []}, "write testbed: {namespace: NAMESPACE, name: NAME}"),
    ("Scheduling", {**OF, "slotBased": {"jobs": TWICE}}, "write each job once in slotBased.jobs"),
    ("Scheduling", {**OF, "slotBased": {"mode": "loose", "jobs": []}}, 'Unsupported value: "loose"'),
    ("Scheduling", {**OF, "queueBased": [], "fairlead": {"maxWait": "soon"}}, "write a duration such as 90s"),
    ("BatchJob", {}, "write exactly one of sparkSpec, flinkSpec"),
    ("BatchJob", {"sparkSpec": {}, "flinkSpec": {}}, "write exactly one of sparkSpec, flinkSpec"),
    ("Testbed", {**BED, "slotsPerNode": 0}, "write slotsPerNode: 1, or more"),
    ("Testbed", {**BED, "nodeLabel": ""}, "write nodeLabel: KEY"),
    ("Testbed", {**BED, "resourcesPerSlot": {"cpu": 1}}, "write both cpu and memory in resourcesPerSlot"),
]


def test_bad_manifests_are_refused_with_what_to_write(lab: Lab) -> None:
    objects = [made(kind, f"bad-{number}", spec) for number, (kind, spec, _) in enumerate(BAD)]
    with pytest.raises(AssertionError) as refused:
        lab.apply(*objects)
    words = str(refused.value)
    for number, (_, _, text) in enumerate(BAD):
        assert text in words.partition(f'"bad-{number}" is invalid')[2].partition("is invalid")[0], words
    assert lab.kubectl.get("bj,sched,tb") == []


# -- slots -------------------------------------------------------------------------------------------


def test_slots_follow_the_labels_of_nodes_and_are_numbered_round_robin(lab: Lab) -> None:
    lab.apply(lab.bed())
    lab.settled("SUCCESS", 0)
    lab.members(0)
    lab.settled("SUCCESS", 2)
    lab.members(1, 2, 3)
    slots = lab.settled("SUCCESS", 8)["slots"]
    order = [(each["position"], each["nodeName"], each["slotPositionOnNode"]) for each in slots]
    assert sorted(order) == [(number, f"node-{number % 4:04}", number // 4) for number in range(8)]
    assert {each["state"] for each in slots} == {"FREE"}
    lab.members(1, 3, on=False)
    slots = lab.settled("SUCCESS", 4)["slots"]
    order = [(each["position"], each["nodeName"]) for each in slots]
    assert sorted(order) == [(0, "node-0000"), (1, "node-0002"), (2, "node-0000"), (3, "node-0002")]


def test_the_queue_example_of_ESI(lab: Lab) -> None:
    """[j2, j1, j2, j1] on four slots: j2 gets 0_2 and j1 1_3; deletion gives everything back."""
    lab.members(0, 1)
    lab.apply(lab.bed(), lab.job("j1"), lab.job("j2"), lab.queue("s", "j2", "j1", "j2", "j1", key="slots"))
    done = lab.wait("sched", "s", "CompletedState")
    assert {each["name"]["name"]: each["state"] for each in done["jobStates"]} == {
        "j1": "Completed",
        "j2": "Completed",
    }
    for name, ids, node in (("j2", "0_2", "node-0000"), ("j1", "1_3", "node-0001")):
        pods = lab.pods(name)
        assert slots_of(pods) == [f"{node}/0", f"{node}/1"]
        for pod in pods:
            labels = pod["metadata"]["labels"]
            assert labels[f"{PREFIX}slots-ids"] == ids
            assert labels[f"{PREFIX}slots-target-node"] == node == pod["spec"]["nodeName"]
            assert labels[f"{PREFIX}slots-is-ghost-pod"] == "false"
            assert pod["spec"]["schedulerName"] == "external-scheduler"
            assert pod["spec"]["priority"] == 1000
        (event,) = lab.status("bj", name)["scheduledEvents"]
        assert event["successful"] and event["scheduling"] == lab.ref("s")
    (bed,) = lab.kubectl.get("tb", "slots")
    assert bed["metadata"]["labels"][f"{PREFIX}active-scheduling-name"] == "s"
    until(lambda: "State Change" in {e["action"] for e in lab.kubectl.events("Scheduling", "s")}, "an Event")

    lab.kubectl("delete", "sched", "s")
    for name in ("j1", "j2"):
        assert "activeScheduling" not in lab.wait("bj", name, "ReadyState")
        assert "activeScheduling" not in lab.kubectl.get("bj", name)[0]["spec"]
    assert lab.kubectl.get("jobs") == []

    def given_back() -> bool:
        return "labels" not in lab.kubectl.get("tb", "slots")[0]["metadata"]

    until(given_back, "the Testbed to be given back")


def test_RA5_strict_keeps_the_order_and_relaxed_overtakes_in_two_namespaces(
    served: tuple[Cluster, Scheduler],
) -> None:
    """The same names in both, at the same time, on slots of the same nodes: two worlds."""
    labs = {mode: Lab(served[0], f"mode-{mode.lower()}") for mode in ("strict", "RELAXED")}
    for mode, lab in labs.items():
        lab.members(0, 1)
        jobs = [lab.job("first", "1h"), lab.job("second"), lab.job("third")]
        lab.apply(lab.bed(), *jobs, lab.slots("s", mode, first=[0], second=[0, 1], third=[2]))
    labs["RELAXED"].wait("bj", "third", "CompletedState")
    for mode, lab in labs.items():
        lab.wait("bj", "first", "RunningState")
        lab.finish("first")
        lab.wait("sched", "s", "CompletedState")
        (_, stop), (second, _), (third, _) = lab.events("first", "second", "third")
        assert stop <= second
        assert third >= second if mode == "strict" else third < stop
        assert slots_of(lab.pods("third")) == ["node-0000/1"]
        assert lab.status("bj", "third")["slots"] == lab.ref("slots")


# -- claims ------------------------------------------------------------------------------------------


def test_two_schedulings_that_share_a_job(lab: Lab) -> None:
    """The second waits, claims nothing of its own meanwhile, and starts when the first is deleted, although
    that one's application still runs."""
    lab.members(0, 1)
    jobs = [lab.job("mine"), lab.job("shared", "600s"), lab.job("other"), lab.job("free")]
    lab.apply(lab.bed(), *jobs, lab.queue("a-first", "mine", "shared"))
    lab.wait("bj", "shared", "RunningState")
    lab.apply(lab.queue("b-second", "shared", "other"), lab.queue("c-third", "free", autoRelease=True))
    waiting = lab.wait("sched", "b-second", "AcquireState")
    assert waiting["position"] == 1 and "a-first" in waiting["reason"]
    # One that shares nothing goes ahead, and gives everything back by itself.
    lab.wait("sched", "c-third", "FinishedState")
    assert "activeScheduling" not in lab.wait("bj", "free", "ReadyState")
    assert "activeScheduling" not in lab.status("bj", "other")
    assert lab.status("sched", "b-second")["state"] == "AcquireState"
    assert lab.status("bj", "shared")["activeScheduling"] == lab.ref("a-first")
    (first,) = lab.pods("shared")

    lab.kubectl("delete", "sched", "a-first")
    lab.wait("bj", "other", "CompletedState")
    lab.wait("bj", "shared", "RunningState")
    (again,) = lab.pods("shared")
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    for name in ("other", "shared"):
        assert lab.status("bj", name)["activeScheduling"] == lab.ref("b-second")
    ended, running = lab.status("bj", "shared")["scheduledEvents"]
    assert ended["stop"] and not ended.get("successful") and "stop" not in running
    lab.wait("bj", "mine", "ReadyState")


# -- what goes wrong ---------------------------------------------------------------------------------


SPARK = {
    "type": "Scala",
    "mode": "cluster",
    "image": "none",
    "sparkVersion": "3.5.0",
    "mainApplicationFile": "local:///x.jar",
    "driver": {},
    "executor": {},
}


def test_an_operator_that_is_not_there_is_named(lab: Lab) -> None:
    """And the way out: the claims are released at once, another Scheduling can have the slots."""
    lab.members(0)
    spark = made("BatchJob", "spark", {"sparkSpec": SPARK})
    lab.apply(lab.bed(), spark, lab.queue("s", "spark"))
    lab.wait("sched", "s", "FailedState")
    problems = " ".join(lab.status("bj", "spark").get("problems", [])) + lab.status("sched", "s")["reason"]
    assert "SparkApplication" in problems
    lab.apply(lab.job("plain"), lab.queue("again", "plain"))
    lab.wait("sched", "again", "CompletedState")


def test_a_job_of_somebody_else_is_left_alone_and_named(lab: Lab) -> None:
    lab.members(1)
    template = lab.job("taken")["spec"]["fairlead"]["jobSpec"]["template"]
    theirs = {"suspend": True, "template": template}
    lab.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "taken"}, "spec": theirs})
    lab.apply(lab.bed(), lab.job("taken"), lab.queue("s", "taken"))
    assert "there is a Job" in lab.wait("sched", "s", "FailedState")["reason"]
    assert "ownerReferences" not in lab.kubectl.get("job", "taken")[0]["metadata"]


def test_a_running_pod_outlives_every_edit_of_its_testbed(lab: Lab) -> None:
    lab.members(0)
    lab.apply(lab.bed(), lab.job("j", "600s"), lab.queue("s", "j"))
    lab.wait("bj", "j", "RunningState")
    lab.settled("RUNNING", 2)
    (before,) = lab.pods("j")
    lab.apply(lab.bed(cpu="30"))  # no node has that much
    until(lambda: lab.status("tb", "slots").get("nodeProblems"), "the node's problem")
    lab.members(0, on=False)
    slots = lab.settled("RUNNING", 1)["slots"]
    assert [(each["position"], each["state"]) for each in slots] == [(-1, "OCCUPIED")]
    (after,) = lab.pods("j")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert "deletionTimestamp" not in after["metadata"] and after["status"]["phase"] == "Running"
    lab.kubectl("delete", "sched", "s")
    lab.wait("bj", "j", "ReadyState")
    lab.settled("SUCCESS", 0)


def test_ghost_pods_hold_free_slots_and_make_way(lab: Lab) -> None:
    lab.members(1, 2)
    lab.apply(lab.bed(holdCapacity="pods"), lab.job("j", "1h"))

    def ghosts() -> list[Object]:
        return [
            pod
            for pod in lab.kubectl.get("pods", f"-l{PREFIX}slots-is-ghost-pod=true")
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    until(lambda: len(ghosts()) == 4, "four ghosts")
    places = {(pod["spec"]["nodeName"], pod["metadata"]["labels"][f"{PREFIX}slots-id"]) for pod in ghosts()}
    assert places == {(f"node-000{node}", index) for node in (1, 2) for index in "01"}
    assert {pod["spec"]["priority"] for pod in ghosts()} == {100}
    lab.apply(lab.queue("s", "j"))
    lab.wait("bj", "j", "RunningState")
    assert slots_of(lab.pods("j")) == ["node-0001/0"]
    until(lambda: len(ghosts()) == 3, "the ghost of that slot to be gone")
    lab.finish("j")
    lab.wait("sched", "s", "CompletedState")
    until(lambda: len(ghosts()) == 4, "the slot to be held again")


def test_a_queue_runs_in_turn_though_the_scheduler_is_killed(
    lab: Lab, served: tuple[Cluster, Scheduler]
) -> None:
    """[j1 x 3, j2 x 3] on four slots: j2 waits until those of j1 are free. Nothing runs twice, no claim is
    lost, and the next Scheduling still waits for j2."""
    scheduler = served[1]
    lab.members(0, 1)
    lab.apply(lab.bed(), lab.job("j1", "1h"), lab.job("j2"), lab.queue("s", *["j1"] * 3, *["j2"] * 3))
    lab.wait("bj", "j1", "RunningState")
    until(lambda: [pod["status"]["phase"] for pod in lab.pods("j1")] == ["Running"] * 3, "all pods to run")
    lab.apply(lab.queue("t", "j2"))
    before = {pod["metadata"]["uid"] for pod in lab.pods("j1")}
    scheduler.kill()
    lab.finish("j1")
    scheduler.start()
    scheduler.wait_ready()
    lab.wait("sched", "s", "CompletedState")
    assert {pod["metadata"]["uid"] for pod in lab.pods("j1")} == before and len(before) == 3
    assert len(lab.pods("j2")) == 3
    for name in ("j1", "j2"):
        (event,) = lab.status("bj", name)["scheduledEvents"]
        assert event["successful"]
    (_, stop), (start, _) = lab.events("j1", "j2")
    assert stop <= start
    assert lab.status("bj", "j2")["slotIds"] == [0, 1, 2]
    assert slots_of(lab.pods("j2")) == slots_of(lab.pods("j1"))
    assert lab.status("sched", "t")["state"] == "AcquireState"
    lab.kubectl("delete", "sched", "s")
    lab.wait("sched", "t", "CompletedState")


def test_RA4_whoever_may_edit_a_namespace_may_use_the_interface_there(
    lab: Lab, served: tuple[Cluster, Scheduler]
) -> None:
    """By the roles of deploy/esi.yaml; Fairlead's own account may ask the cluster who it is, and no more."""
    kubectl = lab.kubectl
    kubectl("create", "serviceaccount", "brain")
    kubectl("create", "rolebinding", "brain", "--clusterrole=edit", f"--serviceaccount={lab.name}:brain")
    token = kubectl("create", "token", "brain").strip()
    found = address.read(served[1].data)
    assert found is not None

    def answer(namespace: str, token: str) -> int:
        url = f"{found.url}/external/jobs?namespace={namespace}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        try:
            with DIRECT.open(request, timeout=30) as opened:
                return opened.status
        except urllib.error.HTTPError as error:
            return error.code

    until(lambda: answer(lab.name, token) == 200, "the right to be known", pause=0.5)
    assert answer("default", token) == 403
    assert answer(lab.name, "wrong") == 401
    who = f"--as=system:serviceaccount:{lab.name}:brain"
    assert kubectl("auth", "can-i", "create", "schedulings", who).strip() == "yes"


def test_RA4_nothing_was_forbidden_to_the_account_of_deploy(served: tuple[Cluster, Scheduler]) -> None:
    """All of the above was done with deploy/rbac.yaml and deploy/esi.yaml."""
    assert "forbidden: " not in served[1].log
    refused = [line for line in served[1].log.splitlines() if "a write was refused" in line]
    known = ("the cluster does not know SparkApplication", "there is a Job")
    assert len(refused) == 2 and all(any(words in line for words in known) for line in refused)


# -- what the cluster lacks, and names that are long ---------------------------------------------------


def test_a_missing_priority_class_is_named_and_waited_for(lab: Lab) -> None:
    lab.kubectl("delete", "priorityclass", "high-priority")
    try:
        lab.members(0)
        lab.apply(lab.bed(), lab.job("j1"), lab.queue("s", "j1"))
        lab.wait("bj", "j1", "SubmittedState")
        (problem,) = until(lambda: lab.status("bj", "j1").get("problems"), "a word about the class")
        assert problem.startswith("priority class high-priority does not exist")
        errors = [each.get("error") for each in lab.status("bj", "j1")["conditions"]]
        assert problem in errors and lab.pods("j1") == []
    finally:
        Kubectl(lab.kubectl.cluster, "fairlead")("apply", "-f", str(DEPLOY / "esi.yaml"))
    lab.wait("sched", "s", "CompletedState")


def test_RA8_a_node_with_a_long_name_and_no_number_has_slots(lab: Lab) -> None:
    """The API server takes what is written for it: ghosts, and an affinity that names the node."""
    name = "n" * 230
    amounts = {"cpu": "2", "memory": "8Gi", "pods": "20"}
    meta = {"name": name, "labels": {lab.label: "rack-a"}, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    status = {"capacity": amounts, "allocatable": amounts}
    lab.kubectl.create({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": status})
    try:
        lab.apply(lab.bed(holdCapacity="pods"), lab.job("j1"), lab.queue("s", "j1", "j1", autoRelease=True))
        lab.wait("sched", "s", "FinishedState")
        ended = lab.settled("SUCCESS", 2)
        assert {each["nodeName"] for each in ended["slots"]} == {name}

        def ghosts() -> bool:
            held = [pod for pod in lab.kubectl.get("pods") if pod["metadata"]["name"].startswith("ghostpod-")]
            return len(held) == 2 and {pod["spec"]["nodeName"] for pod in held} == {name}

        until(ghosts, "a ghost in each of its slots")
    finally:
        lab.kubectl("delete", "tb", "slots", "--wait=false", "--ignore-not-found")
        lab.kubectl("delete", "node", name)
