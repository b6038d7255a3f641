"""ESI's REST on a real API server: tokens of real accounts, RBAC per namespace, and a Scheduling's way."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import free_port, unique_name
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up
from fairlead.runtime import address
from live import DIRECT, Kubectl, Scheduler, data_folder, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(600)]

CRDS = Path(__file__).resolve().parents[2] / "deploy" / "crds"
API = "esi.tu-berlin.de/v1alpha1"
LABEL = "example.com/slots"
ALL = ["get", "list", "watch", "create", "update", "delete"]


class Answer(NamedTuple):
    status: int
    body: Any
    tag: str


class Rest:
    """A client with the token of one account."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            named["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, named, method=method)
        try:
            with DIRECT.open(request, timeout=60) as answer:
                return Answer(answer.status, _json(answer.read()), answer.headers.get("ETag", ""))
        except urllib.error.HTTPError as error:
            return Answer(error.code, _json(error.read()), "")

    def until(self, path: str, key: str, *wanted: object) -> Any:
        def look() -> Any:
            found = self("GET", path)
            return found.body if found.status == 200 and found.body[key] in wanted else None

        return until(look, f"{path} to have {key} {wanted}")


def _json(body: bytes) -> Any:
    return json.loads(body) if body else None


class Esi(NamedTuple):
    cluster: Cluster
    kubectl: Kubectl
    url: str
    also: str
    brain: Rest
    """May do everything with ESI's objects in `default`, and label nodes."""
    reader: Rest
    """May read there."""
    stranger: Rest
    """May do everything in `team-a`, and nothing in `default`."""


def _account(kubectl: Kubectl, name: str, namespace: str, verbs: list[str]) -> str:
    """A ServiceAccount with these verbs on ESI's resources in a namespace; its token."""
    kubectl("create", "serviceaccount", name)
    resources = ",".join(f"{each}.esi.tu-berlin.de" for each in ("batchjobs", "schedulings", "testbeds"))
    role = ["create", "role", name, "--verb", ",".join(verbs), "--resource", resources, "-n", namespace]
    kubectl(*role)
    who = f"--serviceaccount=default:{name}"
    kubectl("create", "rolebinding", name, "--role", name, who, "-n", namespace)
    return kubectl("create", "token", name).strip()


@pytest.fixture(scope="module")
def esi() -> Iterator[Esi]:
    name = unique_name()
    try:
        cluster = bring_up(UpOptions(name=name, nodes=3))
        kubectl = Kubectl(cluster, "default")
        kubectl("apply", "-f", str(CRDS))
        kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        kubectl("create", "namespace", "team-a")
        tokens = [
            _account(kubectl, "brain", "default", ALL),
            _account(kubectl, "reader", "default", ["get", "list", "watch"]),
            _account(kubectl, "stranger", "team-a", ALL),
        ]
        kubectl("create", "clusterrole", "label-nodes", "--verb=patch", "--resource=nodes")
        bound = ["--clusterrole=label-nodes", "--serviceaccount=default:brain"]
        kubectl("create", "clusterrolebinding", "label-nodes", *bound)
        kubectl("create", "priorityclass", "high-priority", "--value=1000")
        _objects(kubectl)
        also = free_port()
        options = ("--esi", "--also-listen", str(also))
        with data_folder() as data, Scheduler(cluster.kubeconfig, data, *options):
            found = address.read(data)
            assert found is not None
            clients = [Rest(found.url, token) for token in tokens]
            yield Esi(cluster, kubectl, found.url, f"http://127.0.0.1:{also}", *clients)
    finally:
        bring_down(name)


def _objects(kubectl: Kubectl) -> None:
    """A Testbed of two slots per node, on no node yet, and jobs that run for a moment."""
    spec = {"nodeLabel": LABEL, "slotsPerNode": 2, "resourcesPerSlot": {"cpu": "600m", "memory": "1Gi"}}
    objects: list[dict[str, Any]] = [
        {"apiVersion": API, "kind": "Testbed", "metadata": {"name": "tb"}, "spec": spec}
    ]
    notes = {"annotations": {"fairlead.dev/run-time": "1s"}}
    container = {"name": "main", "image": "none"}
    for name in ("j1", "j2", "j3"):
        template = {"metadata": notes, "spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {"fairlead": {"jobSpec": {"template": template}}}
        objects.append({"apiVersion": API, "kind": "BatchJob", "metadata": {"name": name}, "spec": spec})
    kubectl.create(*objects)


def scheduling(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "testBed": "tb", **fields}


def test_RA4_tokens_of_accounts_and_their_rights_in_each_namespace(esi: Esi):
    nobody, forged = Rest(esi.url, ""), Rest(esi.url, "forged")
    for client in (nobody, forged):
        assert client("GET", "/external/testbeds").status == 401
    assert esi.brain("GET", "/external/testbeds").status == 200
    assert esi.reader("GET", "/external/testbeds/tb").status == 200
    refused = esi.reader("POST", "/external/schedulings", scheduling("mine", queue=["j1"]))
    assert refused.status == 403
    assert refused.body["error"] == (
        "system:serviceaccount:default:reader may not create schedulings.esi.tu-berlin.de in the namespace"
        " default: grant the verb by RBAC"
    )
    assert esi.stranger("GET", "/external/jobs").status == 403
    assert esi.stranger("GET", "/external/jobs?namespace=team-a")[:2] == (200, {})
    assert esi.brain("GET", "/external/jobs?namespace=team-a").status == 403
    assert esi.stranger("POST", "/debug/node-set-up?name=tb&count=1").status == 403
    assert esi.reader("DELETE", "/external/schedulings/mine").status == 403
    assert not esi.kubectl.get("schedulings.esi.tu-berlin.de")


def enrolled(esi: Esi) -> None:
    """Twice costs nothing."""
    esi.brain("POST", "/debug/node-set-up?name=tb&count=2")
    esi.brain.until("/external/testbeds/tb", "numberOfNodes", 2)


def test_nodes_are_enrolled_over_http_and_slots_appear(esi: Esi):
    answer = esi.brain("POST", "/debug/node-set-up?name=tb&count=2")
    assert answer.status == 200, answer
    assert [line["change"] for line in answer.body["nodes"]] == ["labelled"] * 2
    assert esi.brain.until("/external/testbeds/tb", "numberOfNodes", 2)["state"] == "SUCCESS"
    labelled = [node for node in esi.kubectl.get("nodes") if LABEL in node["metadata"]["labels"]]
    assert sorted(node["metadata"]["labels"][LABEL] for node in labelled) == ["0", "1"]


def test_a_scheduling_is_posted_runs_and_is_deleted(esi: Esi):
    enrolled(esi)
    posted = esi.brain("POST", "/external/schedulings", scheduling("first", queue=["j1", "j2", "j1"]))
    assert posted.status == 200, posted
    assert posted.body["queue"] == ["j1", "j2", "j1"]
    (made,) = esi.kubectl.get("schedulings.esi.tu-berlin.de")
    assert [each["name"] for each in made["spec"]["queueBased"]] == ["j1", "j2", "j1"]
    done = esi.brain.until("/external/schedulings/first", "state", "CompletedState")
    assert {each["name"]: each["state"] for each in done["jobStatus"]} == {
        "j1": "Completed",
        "j2": "Completed",
    }
    job = esi.reader.until("/external/jobs/j1", "state", "CompletedState")
    assert job["scheduledEvents"][0]["successful"]
    assert job["scheduledEvents"][0]["scheduling"] == {"namespace": "default", "name": "first"}
    again = esi.brain("POST", "/external/schedulings", scheduling("first", queue=["j1", "j2", "j1"]))
    assert again.status == 200
    deleted = esi.brain("DELETE", "/external/schedulings/first")
    assert (deleted.status, deleted.body["name"]) == (200, "first")
    assert esi.brain("DELETE", "/external/schedulings/first").status == 304
    assert esi.brain("GET", "/external/schedulings/first").status == 404
    esi.brain.until("/external/jobs/j1", "state", "ReadyState")


def test_what_the_api_server_refuses_is_a_400_with_its_words(esi: Esi):
    body = scheduling("late", queue=["j3"], fairlead={"maxWait": "soon"})
    answer = esi.brain("POST", "/external/schedulings", body)
    assert answer.status == 400
    assert "maxWait" in answer.body["error"]
    assert esi.brain("GET", "/external/schedulings/late").status == 404


def test_notes_are_stored_as_they_are_and_only_over_what_was_seen(esi: Esi):
    path = "/external/jobs/"
    blob = {"profiler": [{"j1": "12.5 (2)", "j2": "9.0 (1)"}]}
    stored = esi.brain("PUT", path, {"name": "j3", "externalScheduler": blob, "state": "RunningState"})
    assert (stored.status, stored.body["externalScheduler"]) == (200, blob)
    assert stored.body["state"] == "ReadyState"
    (raw,) = esi.kubectl.get("batchjobs.esi.tu-berlin.de", "j3")
    assert raw["spec"]["externalScheduler"] == blob
    assert "jobSpec" in raw["spec"]["fairlead"]
    fresh = esi.brain("GET", "/external/jobs/j3")

    def nothing_new() -> bool:  # once Fairlead has written its status, which makes another version, too
        nonlocal fresh
        again = esi.brain("GET", "/external/jobs/j3", if_none_match=fresh.tag)
        fresh = fresh if again.status == 304 else again
        return again.status == 304

    until(nothing_new, "two looks at the same")
    esi.brain("PUT", path, {"name": "j3", "externalScheduler": {}})
    stale = esi.brain("PUT", path, {"name": "j3", "externalScheduler": blob}, if_match=fresh.tag)
    assert stale.status == 412

    def over_what_was_seen() -> bool:
        tag = esi.brain("GET", "/external/jobs/j3").tag
        put = esi.brain("PUT", path, {"name": "j3", "externalScheduler": blob}, if_match=tag)
        assert put.status in (200, 412)
        return put.status == 200

    until(over_what_was_seen, "a version that Fairlead itself has not written over")


def test_changes_are_pushed_and_resumed(esi: Esi):
    seen = _changes(esi, "", lambda each: each.get("event") == "present")
    last = seen[-1]["id"]
    esi.brain("PUT", "/external/jobs/", {"name": "j2", "externalScheduler": {"n": [{"x": "1"}]}})
    esi.brain("PUT", "/external/jobs/", {"name": "j2", "externalScheduler": {}})

    def emptied(each: dict[str, str]) -> bool:
        found = json.loads(each["data"])
        return found["name"] == "j2" and found["resource"]["externalScheduler"] == {}

    resumed = _changes(esi, last, emptied)
    assert [int(each["id"]) for each in resumed] == sorted(int(each["id"]) for each in resumed)
    assert all(int(each["id"]) > int(last) and "event" not in each for each in resumed)


def _changes(esi: Esi, after: str, end: Any) -> list[dict[str, str]]:
    """Events of jobs up to the one for which `end` is true."""
    url = urllib.parse.urlsplit(esi.url)
    assert url.hostname
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
    headers = {"Authorization": f"Bearer {esi.reader.token}"}
    if after:
        headers["Last-Event-ID"] = after
    connection.request("GET", "/external/events?kind=jobs", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    found: list[dict[str, str]] = []
    event: dict[str, str] = {}
    for line in answer:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            event[name] = value
        elif "data" in event:
            found.append(event)
            if end(event):
                break
            event = {}
    connection.close()
    return found


def test_the_old_ports_answer_the_same(esi: Esi):
    health = Rest(esi.also, "")("GET", "/actuator/health/readiness")
    assert health[:2] == (200, {"status": "UP"})
    assert Rest(esi.also, "")("GET", "/external/jobs").status == 401
    document = Rest(esi.also, "")("GET", "/openapi.json").body
    assert "/external/schedulings" in document["paths"]
