"""A judge beside the cluster under test: would kube-scheduler have allowed this pod on that node?

The real kube-scheduler runs on a control plane of its own, into which nodes, volumes and pods are copied; the
cluster under test is only read. The pod in question is created there as the user wrote it, without a node. An
extender that sits in this process hears which nodes have passed every filter, and lets none through: so
nothing is ever bound, and one question does not change the next. The pod itself is not touched, since a node
affinity put into it would change what topology spread counts.

One profile has kube-scheduler's default plugins. Of each filter there is another that has only this one: it
tells who refused, and in what words.
"""

import contextlib
import json
import threading
import time
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import yaml

from fairlead.localcluster import Cluster
from live import PATIENCE, until

Object = dict[str, Any]

ALL = "default-scheduler"
PLUGINS = (
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread",
    "InterPodAffinity", "NodeDeclaredFeatures",
)  # fmt: skip
PASSED = "passed every filter"
SERVER_SIDE = (
    "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences",
    "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "selfLink",
)  # fmt: skip
# In this order: what refers to others comes after them.
KINDS = {
    "namespaces": "/api/v1/namespaces",
    "runtimeclasses": "/apis/node.k8s.io/v1/runtimeclasses",
    "nodes": "/api/v1/nodes",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "csidrivers": "/apis/storage.k8s.io/v1/csidrivers",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "volumeattachments": "/apis/storage.k8s.io/v1/volumeattachments",
    "persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "persistentvolumes": "/api/v1/persistentvolumes",
}
PODS = "/api/v1/pods"
WITH_STATUS = ("nodes", "persistentvolumes", "persistentvolumeclaims")
ENDED = ("Succeeded", "Failed")


class Verdict(NamedTuple):
    """What kube-scheduler says of one pod: in `words`, and for a node that it refuses by each plugin."""

    pod: str
    node: str
    allowed: bool
    feasible: frozenset[str]
    words: str
    refused: dict[str, str]


def key_of(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def placed(pods: Iterable[Object]) -> list[Object]:
    """Those that hold a place on a node."""
    return [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ENDED]


def list_of(cluster: Cluster, kind: str) -> list[Object]:
    answer = cluster.client.get(KINDS.get(kind, kind))
    assert answer.ok, f"{kind}: {answer.reason()}"
    return answer.json()["items"] or []


# -- the extender: it hears who passed, and lets none through ------------------------------------------


class Extender:
    """kube-scheduler tells it the nodes that passed all filters; it answers that none will do."""

    def __init__(self) -> None:
        self._heard: dict[str, frozenset[str]] = {}
        self._news = threading.Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each answer waits 40 ms for the other side

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                names = asked.get("NodeNames") or asked.get("nodenames") or []
                pod = asked.get("Pod") or asked["pod"]
                outer._learn(pod["metadata"]["uid"], frozenset(names))
                answer = {"NodeNames": [], "FailedNodes": dict.fromkeys(names, PASSED)}
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="extender", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _learn(self, uid: str, names: frozenset[str]) -> None:
        with self._news:
            self._heard[uid] = names
            self._news.notify_all()

    def wait(self, uid: str, seconds: float) -> frozenset[str] | None:
        """What was heard of the pod, or None if nothing was within that time."""
        with self._news:
            self._news.wait_for(lambda: uid in self._heard, seconds)
            return self._heard.get(uid)


# -- how it is set up ------------------------------------------------------------------------------------


def configuration(kubeconfig: str, extender: str) -> str:
    """kube-scheduler's configuration: the default profile, and one for each filter alone."""
    whole = {"schedulerName": ALL, "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}
    alone = [
        {
            "schedulerName": f"only-{name.lower()}",
            "plugins": {
                "multiPoint": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": each} for each in ("PrioritySort", name, "DefaultBinder")],
                }
            },
        }
        for name in PLUGINS
    ]
    return yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 10000},
            "percentageOfNodesToScore": 100,
            "profiles": [whole, *alone],
            "extenders": [{"urlPrefix": extender, "filterVerb": "filter", "nodeCacheCapable": True}],
        }
    )


# -- copies ------------------------------------------------------------------------------------------------


def bare(thing: Object) -> Object:
    """The object as its user could have written it."""
    copy: Object = json.loads(json.dumps(thing))
    for field in SERVER_SIDE:
        copy["metadata"].pop(field, None)
    return copy


def as_written(pod: Object, scheduler: str, node: str | None) -> Object:
    """The pod as it was before it was placed (or placed, on `node`).

    Priority is left out: no filter looks at it, and its class would have to be copied too. What the API
    server merged from `matchLabelKeys` into selectors is taken out again, for it refuses to read it twice.
    """
    copy = bare(pod)
    spec, labels = copy["spec"], copy["metadata"].get("labels") or {}
    for field in ("nodeName", "priority", "priorityClassName", "preemptionPolicy"):
        spec.pop(field, None)
    copy.pop("status", None)
    spec["schedulerName"] = scheduler
    if node is not None:
        spec["nodeName"] = node
    for rule in _selecting(spec):
        keys = {*(rule.get("matchLabelKeys") or []), *(rule.get("mismatchLabelKeys") or [])} & set(labels)
        wanted = (rule.get("labelSelector") or {}).get("matchExpressions")
        if keys and wanted:
            rule["labelSelector"]["matchExpressions"] = [each for each in wanted if each["key"] not in keys]
    return copy


def _selecting(spec: Object) -> Iterator[Object]:
    """Every part of the spec that selects pods by labels."""
    yield from spec.get("topologySpreadConstraints") or []
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = (spec.get("affinity") or {}).get(kind) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        for each in rules.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            yield each["podAffinityTerm"]


# -- the judge -----------------------------------------------------------------------------------------------


class Judge:
    """kube-scheduler on a plane of its own, which holds a copy of the cluster that is judged."""

    def __init__(self, plane: Cluster) -> None:
        self.plane = plane
        self._extender = Extender()
        self._here: dict[str, Object] = {}
        # They would act on what is copied: bind claims anew, end pods of finished Jobs, make nodes ready.
        for component in ("kwok", "kube-controller-manager", "kube-scheduler"):
            plane.stop(component)
        file = plane.files.conf / "scheduler.yaml"
        own = plane.files.conf / "scheduler.kubeconfig"
        file.write_text(configuration(str(own), self._extender.url))

    def close(self) -> None:
        self._extender.close()

    def copy(self, cluster: Cluster) -> None:
        """Take over all of the cluster but its pods. kube-scheduler starts anew: so it has seen all of it."""
        self.plane.stop("kube-scheduler")
        self._clear()
        self._here.clear()
        uids: dict[str, str] = {}
        for kind in KINDS:
            for thing in list_of(cluster, kind):
                if kind == "namespaces":
                    self._namespace(thing)
                else:
                    self._create(kind, thing, uids)
        self.plane.start("kube-scheduler")

    def place(self, pods: Iterable[Object]) -> None:
        """Put copies of pods on the nodes they are on."""
        for pod in pods:
            self._post(self._path(pod), as_written(pod, ALL, pod["spec"]["nodeName"]))
            self._here[key_of(pod)] = pod

    def remove(self, pod: Object) -> None:
        """Take the copy of a pod away."""
        self._delete(pod)
        del self._here[key_of(pod)]
        # kube-scheduler keeps the ports of a node as a set: one pod less, and those it shared count no more.
        others = [each for each in self._here.values() if _shares_ports(each, pod)]
        for each in others:
            self._delete(each)
        self.place(others)

    def _delete(self, pod: Object) -> None:
        answer = self.plane.client.request(
            "DELETE", f"{self._path(pod)}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0}
        )
        assert answer.ok, f"{key_of(pod)}: {answer.reason()}"

    def verdict(self, pod: Object) -> Verdict:
        """Of a pod that is placed here: with all else as it is, might it go to its node?"""
        self.remove(pod)
        try:
            return self.ask(pod, pod["spec"]["nodeName"])
        finally:
            self.place([pod])

    def ask(self, pod: Object, node: str = "") -> Verdict:
        """Of a pod that is not here: which nodes may it go to, and if not to `node`, who says so?"""
        feasible, words = self._question(pod, ALL)
        refused: dict[str, str] = {}
        if node and node not in feasible:
            for name in PLUGINS:
                passed, own = self._question(pod, f"only-{name.lower()}")
                if node not in passed:
                    refused[name] = own
        return Verdict(key_of(pod), node, node in feasible, feasible, words, refused)

    def verdicts(self, *groups: Iterable[Object]) -> list[Verdict]:
        """Groups in the order in which they were placed: each is judged with the groups before it in place.

        A group is in order if each member might go to its node with all the others where they are, or if
        kube-scheduler would have let them go there one by one in some order.
        """
        found: list[Verdict] = []
        for group in groups:
            members = list(group)
            self.place(members)
            told = [self.verdict(pod) for pod in members]
            if not all(each.allowed for each in told):
                for pod in members:
                    self.remove(pod)
                turns = self._in_turn(members, set())
                if turns is None:
                    self.place(members)
                else:
                    told = turns
            found += told
        return found

    def _in_turn(self, left: list[Object], hopeless: set[frozenset[str]]) -> list[Verdict] | None:
        """Place these in an order in which each is allowed; None, and nothing placed, if there is none.

        `hopeless`: sets of pods that are known to have none, whoever came before them.
        """
        if not left:
            return []
        names = frozenset(key_of(pod) for pod in left)
        if names in hopeless:
            return None
        for pod in left:
            verdict = self.ask(pod, pod["spec"]["nodeName"])
            if not verdict.allowed:
                continue
            self.place([pod])
            rest = self._in_turn([each for each in left if each is not pod], hopeless)
            if rest is not None:
                return [verdict, *rest]
            self.remove(pod)
        hopeless.add(names)
        return None

    # -- one question ------------------------------------------------------------------------------------

    def _question(self, pod: Object, scheduler: str) -> tuple[frozenset[str], str]:
        """The nodes that passed, and what was said of the others."""
        asked = self._post(self._path(pod), as_written(pod, scheduler, None))
        path = f"{self._path(pod)}/{pod['metadata']['name']}"
        uid = asked["metadata"]["uid"]
        deadline = time.monotonic() + PATIENCE
        try:
            # All that is said comes as a condition of the pod; who passed was heard before that.
            while not (words := _unschedulable(self.plane.client.get(path).json())):
                assert time.monotonic() < deadline, f"no answer about {key_of(pod)} from {scheduler}"
                self._extender.wait(uid, 0.005)
            return self._extender.wait(uid, 0) or frozenset(), words
        finally:
            self._delete(asked)

    # -- copying -----------------------------------------------------------------------------------------

    def _clear(self) -> None:
        force = {"gracePeriodSeconds": 0}
        for kind in (PODS, *reversed(KINDS)):
            if kind == "namespaces":
                continue
            for thing in list_of(self.plane, kind):
                path = self._path_of(thing, kind)
                if thing["metadata"].get("finalizers"):
                    self._send("PATCH", path, {"metadata": {"finalizers": None}})
                self._send("DELETE", path, force)
            until(lambda kind=kind: not list_of(self.plane, kind), f"{kind} to be gone", pause=0.01)

    def _namespace(self, thing: Object) -> None:
        """Namespaces stay (nobody is there to remove them); those of the next cluster take their place."""
        copy = bare(thing)
        path = KINDS["namespaces"]
        with contextlib.suppress(KeyError):
            del copy["spec"], copy["status"]
        if self.plane.client.post(path, copy).status == 409:
            self._send("PUT", f"{path}/{copy['metadata']['name']}", copy)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        self.plane.client.post(f"{path}/{copy['metadata']['name']}/serviceaccounts", account)

    def _create(self, kind: str, thing: Object, uids: dict[str, str]) -> None:
        copy = bare(thing)
        claim = copy["spec"].get("claimRef") if kind == "persistentvolumes" else None
        if claim:  # the claim has a new uid here, as it is a new object
            claim["uid"] = uids[f"{claim['namespace']}/{claim['name']}"]
            claim.pop("resourceVersion", None)
        base = KINDS[kind]
        if space := copy["metadata"].get("namespace"):
            base = base.replace("/v1/", f"/v1/namespaces/{space}/")
        made = self._post(base, copy)
        if kind == "persistentvolumeclaims":
            uids[key_of(made)] = made["metadata"]["uid"]
        if kind in WITH_STATUS and thing.get("status"):
            made["status"] = thing["status"]
            self._send("PUT", f"{base}/{made['metadata']['name']}/status", made)

    def _path(self, pod: Object) -> str:
        return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"

    def _path_of(self, thing: Object, kind: str) -> str:
        base, meta = KINDS.get(kind, kind), thing["metadata"]
        if "namespace" in meta:
            base = base.replace("/v1/", f"/v1/namespaces/{meta['namespace']}/")
        return f"{base}/{meta['name']}"

    def _post(self, path: str, body: Object) -> Object:
        answer = self.plane.client.post(path, body)
        assert answer.ok, f"{path} {body['metadata']['name']}: {answer.reason()}"
        return answer.json()

    def _send(self, method: str, path: str, body: Object) -> None:
        content = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self.plane.client.request(method, path, body, content)
        assert answer.ok or answer.status == 404, f"{method} {path}: {answer.reason()}"


def _ports(pod: Object) -> set[int]:
    containers = (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or []))
    return {port["hostPort"] for each in containers for port in each.get("ports") or [] if "hostPort" in port}


def _shares_ports(one: Object, other: Object) -> bool:
    return one["spec"]["nodeName"] == other["spec"]["nodeName"] and bool(_ports(one) & _ports(other))


def _unschedulable(pod: Object) -> str:
    for each in pod["status"].get("conditions") or []:
        if each["type"] == "PodScheduled" and each["status"] == "False":
            assert each["reason"] == "Unschedulable", f"{key_of(pod)}: {each}"
            return str(each["message"])
    return ""
