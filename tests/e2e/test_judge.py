"""The judge of test_matching_live.py: it allows what is right, and it sees every kind of wrong placement.

All pods here are bound by hand, so that nobody but the judge has an opinion. They are judged in one go; no
case shares a namespace or a contended node with another.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from judge import PODS, Judge, Object, Verdict, key_of, list_of, placed
from testbed import (
    BATCH,
    CORDONED,
    DISK,
    FEW_PODS,
    GPU,
    HOST,
    HUGE,
    ZONE,
    apart,
    built,
    claim,
    control_plane,
    host_port,
    labelled,
    mounted,
    near,
    on,
    pod,
    spread,
    storage_class,
    term,
    to_nodes,
    tolerating,
    volume,
)

from fairlead.localcluster import Cluster
from live import until

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]
SLOW, DRIVER = "by-hand", "csi.example.com"


class Case(NamedTuple):
    """Pods on nodes, and who refuses the last of them with which words ("" and "": it is allowed)."""

    pods: tuple[tuple[str, Object], ...]
    plugin: str = ""
    words: str = ""
    objects: tuple[Object, ...] = ()


def csi_volume(name: str) -> Object:
    found = volume(name, SLOW, host="c1-large")
    found["spec"]["csi"] = {"driver": DRIVER, "volumeHandle": name}
    del found["spec"]["local"]
    return found


DB = {"app": "db"}
LIKE_DB = labelled(**DB)
LEVEL = spread(ZONE, **LIKE_DB)
PORT = [host_port(8080)]
CASES = {
    "nothing-asked": Case((("a0-medium", pod("p")),)),
    "taint": Case((("a0-large", pod("p")),), "TaintToleration", "had untolerated taint"),
    "tolerated": Case((("a0-large", pod("p", tolerations=tolerating(BATCH))),)),
    "cordoned": Case(((CORDONED, pod("p")),), "NodeUnschedulable", "were unschedulable"),
    "selector": Case((("a0-medium", pod("p", nodeSelector={DISK: "ssd"})),), "NodeAffinity", "node affinity"),
    "affinity": Case(
        (("a0-medium", pod("p", affinity=to_nodes((DISK, "NotIn", ["hdd"])))),),
        "NodeAffinity",
        "node affinity",
    ),
    "field": Case((("a0-medium", pod("p", affinity=on("a1-medium"))),), "NodeAffinity", "didn't satisfy"),
    "field-right": Case((("a1-medium", pod("p", affinity=on("a1-medium"))),)),
    "port": Case(
        (("b0-medium", pod("q", ports=PORT)), ("b0-medium", pod("p", ports=PORT))), "NodePorts", "free ports"
    ),
    "port-of-all": Case(
        (("b1-medium", pod("q", ports=PORT)), ("b1-medium", pod("p", ports=[host_port(8080, "10.0.0.1")]))),
        "NodePorts",
        "free ports",
    ),
    "port-elsewhere": Case(
        tuple(("c0-medium", pod(f"p{i}", ports=[host_port(8080, f"10.0.0.{i}")])) for i in (1, 2))
    ),
    "cpu": Case((("a0-small", pod("p", requests={"cpu": "4001m"})),), "NodeResourcesFit", "Insufficient cpu"),
    "cpu-full": Case((("a1-small", pod("p", requests={"cpu": "4"})),)),
    "gpu": Case(
        (("a0-gpu", pod("q", requests={GPU: "3"})), ("a0-gpu", pod("p", requests={GPU: "2"}))),
        "NodeResourcesFit",
        f"Insufficient {GPU}",
    ),
    "hugepages": Case(
        (("a1-gpu", pod("p", requests={HUGE: "1026Mi", "cpu": "1"})),),
        "NodeResourcesFit",
        f"Insufficient {HUGE}",
    ),
    "pods": Case(tuple((FEW_PODS, pod(f"p{i}")) for i in range(4)), "NodeResourcesFit", "Too many pods"),
    "apart": Case(
        (("a0-gpu", pod("q", DB)), ("a1-gpu", pod("p", affinity=apart(term(ZONE, **LIKE_DB))))),
        "InterPodAffinity",
        "didn't match pod anti-affinity rules",
    ),
    "kept-off": Case(
        (("a0-gpu", pod("q", affinity=apart(term(ZONE, **LIKE_DB)))), ("a1-gpu", pod("p", DB))),
        "InterPodAffinity",
        "didn't satisfy existing pods anti-affinity rules",
    ),
    "apart-right": Case(
        (("a0-gpu", pod("q", DB)), ("b1-gpu", pod("p", DB, affinity=apart(term(ZONE, **LIKE_DB)))))
    ),
    "near": Case(
        (("a0-gpu", pod("q", DB)), ("b1-gpu", pod("p", affinity=near(term(ZONE, **LIKE_DB))))),
        "InterPodAffinity",
        "didn't match pod affinity rules",
    ),
    "near-right": Case(
        (("a0-gpu", pod("q", DB)), ("a1-gpu", pod("p", affinity=near(term(ZONE, **LIKE_DB)))))
    ),
    "near-nobody": Case(
        (("a0-gpu", pod("p", affinity=near(term(ZONE, **LIKE_DB)))),),
        "InterPodAffinity",
        "pod affinity rules",
    ),
    "near-itself": Case((("a0-gpu", pod("p", DB, affinity=near(term(ZONE, **LIKE_DB)))),)),
    "other-namespace": Case(
        (
            (
                "c0-gpu",
                pod("p", affinity=apart(term(HOST, namespaces=["neighbour"], **labelled(app="cache")))),
            ),
            (
                "c0-gpu",
                pod(
                    "q",
                    affinity=apart(
                        term(HOST, namespaceSelector={"matchLabels": {"team": "n"}}, **labelled(app="cache"))
                    ),
                ),
            ),
        ),
        "InterPodAffinity",
        "didn't match pod anti-affinity rules",
    ),
    "neighbour": Case(
        (("c0-gpu", pod("p", {"app": "cache"})),), "InterPodAffinity", "existing pods anti-affinity"
    ),
    "spread": Case(
        (("a0-gpu", pod("q", DB)), ("a1-gpu", pod("p", DB, topologySpreadConstraints=[LEVEL]))),
        "PodTopologySpread",
        "didn't match pod topology spread constraints",
    ),
    "spread-right": Case(
        (("a0-gpu", pod("q", DB)), ("b1-gpu", pod("p", DB, topologySpreadConstraints=[LEVEL])))
    ),
    "spread-revision": Case(
        tuple(
            (
                "a0-gpu",
                pod(
                    f"p{i}",
                    {**DB, "rev": str(i)},
                    topologySpreadConstraints=[{**LEVEL, "matchLabelKeys": ["rev"]}],
                ),
            )
            for i in range(2)
        )
    ),
    "spread-domains": Case(
        (
            ("a0-gpu", pod("q", DB)),
            ("a1-gpu", pod("p", DB, topologySpreadConstraints=[{**LEVEL, "minDomains": 4}])),
        ),
        "PodTopologySpread",
        "topology spread",
    ),
    "one-pod-claim": Case(
        (("a0-gpu", pod("q", volumes=mounted("own"))), ("a0-gpu", pod("p", volumes=mounted("own")))),
        "VolumeRestrictions",
        "ReadWriteOncePod",
        (
            volume("own", SLOW, host="a0-gpu", mode="ReadWriteOncePod"),
            claim("own", SLOW, to="own", mode="ReadWriteOncePod"),
        ),
    ),
    "volume-zone": Case(
        (("a1-gpu", pod("p", volumes=mounted("zonal"))),),
        "VolumeZone",
        "no available volume zone",
        (volume("zonal", SLOW, zone="b"), claim("zonal", SLOW, to="zonal")),
    ),
    "volume-host": Case(
        (("a1-gpu", pod("p", volumes=mounted("local"))),),
        "VolumeBinding",
        "",
        (volume("local", SLOW, host="a0-gpu"), claim("local", SLOW, to="local")),
    ),
    "volume-right": Case(
        (("a1-gpu", pod("p", volumes=mounted("here"))),),
        objects=(volume("here", SLOW, host="a1-gpu"), claim("here", SLOW, to="here")),
    ),
    "volume-limit": Case(
        (("c1-large", pod("q", volumes=mounted("csi-0"))), ("c1-large", pod("p", volumes=mounted("csi-1")))),
        "NodeVolumeLimits",
        "exceed max volume count",
        (
            csi_volume("csi-0"),
            csi_volume("csi-1"),
            claim("csi-0", SLOW, to="csi-0"),
            claim("csi-1", SLOW, to="csi-1"),
        ),
    ),
}
CSI_NODE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSINode",
    "metadata": {"name": "c1-large"},
    "spec": {
        "drivers": [{"name": DRIVER, "nodeID": "c1-large", "topologyKeys": [], "allocatable": {"count": 1}}]
    },
}


def make(cluster: Cluster, path: str, thing: Object) -> None:
    answer = cluster.client.post(path, thing)
    assert answer.ok, f"{path} {thing['metadata']['name']}: {answer.reason()}"


def bind_by_hand(cluster: Cluster, namespace: str, node: str, thing: Object) -> None:
    path, name = f"/api/v1/namespaces/{namespace}/pods", thing["metadata"]["name"]
    make(cluster, path, {**thing, "spec": {**thing["spec"], "schedulerName": "by-hand"}})
    make(
        cluster,
        f"{path}/{name}/binding",
        {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}},
    )


def fill(cluster: Cluster) -> None:
    """All cases, each in its namespace."""
    storage = "/apis/storage.k8s.io/v1"
    make(cluster, f"{storage}/storageclasses", storage_class(SLOW))
    make(cluster, f"{storage}/csinodes", CSI_NODE)
    for name, case in CASES.items():
        labels = {"team": "n"} if name == "neighbour" else {}
        make(cluster, "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        until(lambda path=account: cluster.client.get(path).ok, "the namespace's account", pause=0.01)
        for thing in case.objects:
            own = thing["kind"] == "PersistentVolume"
            path = "/api/v1/persistentvolumes" if own else f"/api/v1/namespaces/{name}/persistentvolumeclaims"
            make(cluster, path, thing)
    until(
        lambda: all(each["status"]["phase"] == "Bound" for each in list_of(cluster, "persistentvolumeclaims"))
    )
    for name, case in CASES.items():
        for node, thing in case.pods:
            bind_by_hand(cluster, name, node, thing)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Verdict]]:
    """All that the judge says, by namespace/pod; and the cluster that is judged is as it was."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(built(Path(tmp_path_factory.mktemp("testbed"))))
        judge = stack.enter_context(
            contextlib.closing(Judge(stack.enter_context(control_plane(nodes=0, kube_scheduler=True))))
        )
        fill(cluster)
        judge.copy(cluster)
        before = placed(list_of(cluster, PODS))
        assert len(before) == sum(len(case.pods) for case in CASES.values())
        judge.place(before)
        found = {key_of(pod): judge.verdict(pod) for pod in before}
        after = placed(list_of(cluster, PODS))
        assert {(key_of(p), p["metadata"]["uid"], p["spec"]["nodeName"]) for p in after} == {
            (key_of(p), p["metadata"]["uid"], p["spec"]["nodeName"]) for p in before
        }
        yield found


@pytest.mark.parametrize("name", CASES)
def test_the_judge_sees_what_is_wrong_and_allows_what_is_right(
    name: str, verdicts: dict[str, Verdict]
) -> None:
    case = CASES[name]
    verdict = verdicts[f"{name}/{case.pods[-1][1]['metadata']['name']}"]
    assert verdict.allowed == (not case.plugin), verdict
    assert verdict.allowed == (verdict.node in verdict.feasible)
    if case.plugin:
        assert case.words in verdict.refused.get(case.plugin, "nothing from this plugin"), verdict.refused
    else:
        assert verdict.refused == {}
