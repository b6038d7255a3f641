"""Every placement that Fairlead makes on a real API server is one that kube-scheduler would have allowed.

Each test places pods and gangs with one kind of constraint, some of them around pods that kube-scheduler has
placed; the judge then asks kube-scheduler about each. What cannot be placed waits, and says why;
kube-scheduler has no node for it either.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from drawn import Drawn
from judge import Judge
from testbed import (
    AGE,
    BATCH,
    CORDONED,
    DISK,
    EPHEMERAL,
    FEW_PODS,
    GPU,
    HOST,
    HUGE,
    RACK,
    ZONE,
    apart,
    built,
    claim,
    control_plane,
    gang,
    host_port,
    labelled,
    mounted,
    near,
    of_group,
    on,
    pod,
    resources,
    spread,
    storage_class,
    term,
    to_nodes,
    tolerating,
    volume,
)
from trial import Trial

from fairlead.localcluster import Cluster
from live import Scheduler, data_folder

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
BY_HAND = "by-hand"
DRAWN_PODS = 40
LARGE = ("a0-large", "a1-large", "b0-large", "b1-large", "c0-large", "c1-large")


class Bench(NamedTuple):
    """A cluster, Fairlead on it, and a judge beside it."""

    cluster: Cluster
    scheduler: Scheduler
    judge: Judge


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        folder = Path(tmp_path_factory.mktemp("testbed"))
        cluster = stack.enter_context(built(folder, kube_scheduler=True))
        plane = stack.enter_context(control_plane(nodes=0, kube_scheduler=True))
        judge = stack.enter_context(contextlib.closing(Judge(plane)))
        data = stack.enter_context(data_folder())
        yield Bench(cluster, stack.enter_context(Scheduler(cluster.kubeconfig, data)), judge)


@pytest.fixture
def trial(bench: Bench) -> Iterator[Trial]:
    found = Trial(*bench)
    yield found
    found.clear()


def zones(nodes: list[str]) -> list[int]:
    """How many pods each zone has, fewest first."""
    return sorted(Counter(name[0] for name in nodes).values())


def test_F2_node_selectors_affinity_and_taints(trial: Trial) -> None:
    either = to_nodes((DISK, "In", ["tape"]))
    terms = either["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    terms += [{"matchExpressions": [{"key": AGE, "operator": "Gt", "values": ["3"]},
                                    {"key": DISK, "operator": "In", "values": ["ssd"]}]}]  # fmt: skip
    not_named = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a0-small"]}]}
    elsewhere = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [not_named]}}
    }
    cordon = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    trial.place(
        *gang("large", 5, affinity=to_nodes((HOST, "In", [*LARGE])), requests={"cpu": "17"},
              tolerations=tolerating(BATCH)),
    )  # fmt: skip
    trial.place(
        pod("selector", nodeSelector={DISK: "ssd", ZONE: "b"}),
        pod("in", affinity=to_nodes((ZONE, "In", ["b", "c"]))),
        pod("not-in", affinity=to_nodes((ZONE, "NotIn", ["a"]))),
        pod("not-in-missing", affinity=to_nodes((AGE, "NotIn", ["1", "2", "3", "4", "5", "6"]))),
        pod("exists", affinity=to_nodes((AGE, "Exists", []), (ZONE, "In", ["c"]))),
        pod("lacks", affinity=to_nodes((AGE, "DoesNotExist", []))),
        pod("gt", affinity=to_nodes((AGE, "Gt", ["4"]))),
        pod("lt", affinity=to_nodes((AGE, "Lt", ["4"]), (AGE, "Gt", ["2"]))),
        pod("either", affinity=either),
        pod("named", affinity=on("c1-gpu")),
        pod("not-named", affinity=elsewhere),
        pod("both", nodeSelector={DISK: "hdd"}, affinity=to_nodes((AGE, "Gt", ["5"]))),
        pod("equal", affinity=on("a0-large"), tolerations=tolerating(BATCH)),
        pod("by-key", affinity=on("b0-large"), tolerations=[{"key": "dedicated", "operator": "Exists"}]),
        pod("all", affinity=on("b0-large"), tolerations=[{"operator": "Exists"}]),
        pod("cordoned", affinity=on(CORDONED), tolerations=cordon),
        *gang("ssd", 6, nodeSelector={DISK: "ssd"}, requests={"cpu": "9"}),
    )  # fmt: skip
    trial.judged()
    assert sorted(trial.members("large")) == [name for name in LARGE if name != CORDONED]
    trial.waits(pod("no-label", nodeSelector={DISK: "tape"}), "no node matches", "rejected")
    trial.waits(pod("no-name", affinity=on("a9-large")), "no node matches", "rejected")
    trial.waits(pod("taint", affinity=on("a0-large")), "tolerations", "rejected")
    trial.waits(pod("too-old", affinity=to_nodes((AGE, "Gt", ["6"]))), "no node matches", "rejected")
    trial.waits(pod("cordon", affinity=on(CORDONED)), "no node matches|cordon", "waiting")


def test_F2_requests_of_every_kind(trial: Trial) -> None:
    # Each fills its node to the last unit, or nearly: what is left over is less than what the next one asks.
    first = pod("init", affinity=on("a0-small"))
    first["spec"]["initContainers"] = [
        {"name": "init", "image": "none", "resources": resources({"cpu": "4"})},
    ]
    sidecar = pod("sidecar", requests={"cpu": "1"}, affinity=on("a1-small"))
    sidecar["spec"]["initContainers"] = [
        {"name": "side", "image": "none", "restartPolicy": "Always", "resources": resources({"cpu": "2"})},
        {"name": "late", "image": "none", "resources": resources({"cpu": "1500m"})},
    ]
    runtime = {
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "none",
        "metadata": {"name": "heavy"}, "overhead": {"podFixed": {"cpu": "1", "memory": "1Gi"}},
    }  # fmt: skip
    trial.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    trial.place(
        first,
        sidecar,
        pod("overhead", requests={"cpu": "2500m"}, affinity=on("b0-small"), runtimeClassName="heavy"),
        pod("whole", affinity=on("b1-small"), resources={"requests": {"cpu": "3900m", "memory": "7Gi"}}),
        pod("limits-only", requests={}, affinity=on("c0-small"), resources={"limits": {"cpu": "3900m"}}),
        *gang("few", 3, affinity=on(FEW_PODS)),
        *gang("gpus", 6, requests={GPU: "3", "cpu": "1"}),
        *gang("halves", 6, requests={GPU: "1", "cpu": "1"}),
        *gang("huge", 4, requests={HUGE: "600Mi", "cpu": "1"}),
        *gang("scratch", 4, requests={EPHEMERAL: "60Gi"}, nodeSelector={RACK: "a1"}),
    )
    trial.judged()
    assert len(set(trial.members("gpus"))) == 6
    assert len(set(trial.members("huge"))) == 4
    assert len(set(trial.members("scratch"))) == 4
    for name in ("a0-small", "a1-small", "b0-small", "b1-small", "c0-small"):
        trial.waits(pod("next", requests={"cpu": "600m"}, affinity=on(name)), "short of cpu")
    trial.waits(pod("fourth", affinity=on(FEW_PODS)), "short of pods")
    trial.waits(pod("one-more-gpu", requests={GPU: "1", "cpu": "1"}), f"short of {GPU}")
    fifth = pod("fifth", requests={EPHEMERAL: "60Gi"}, nodeSelector={RACK: "a1"})
    trial.waits(fifth, f"short of {EPHEMERAL}")


def test_F2_host_ports_with_and_without_an_address(trial: Trial) -> None:
    web = [host_port(8080)]
    trial.place(
        *gang("web", 4, ports=web, nodeSelector={RACK: "b0"}, tolerations=tolerating(BATCH)),
        *(pod(f"on-{i}", ports=[host_port(9090, f"10.0.0.{i}")], affinity=on("c0-medium")) for i in (1, 2)),
        pod("udp", ports=[host_port(9090, protocol="UDP")], affinity=on("c0-medium")),
        *gang("many", 5, ports=[host_port(7000), host_port(7001, "10.0.0.1")], nodeSelector={ZONE: "a"}),
    )
    trial.place_theirs(pod("theirs", ports=[host_port(6000)], affinity=on("c1-medium")))
    trial.judged()
    assert len(set(trial.members("web"))) == 4
    assert len(set(trial.members("many"))) == 5
    # A port of a wildcard address is taken on all; all four nodes of the rack have it taken.
    rack = {"nodeSelector": {RACK: "b0"}, "tolerations": tolerating(BATCH)}
    trial.waits(pod("fifth", ports=web, **rack), "hostPort")
    trial.waits(pod("addressed", ports=[host_port(8080, "10.0.0.9")], **rack), "hostPort")
    trial.waits(pod("wildcard", ports=[host_port(9090)], affinity=on("c0-medium")), "hostPort")
    trial.waits(pod("same", ports=[host_port(9090, "10.0.0.1")], affinity=on("c0-medium")), "hostPort")
    trial.waits(
        pod("after-theirs", ports=[host_port(6000, "10.0.0.1")], affinity=on("c1-medium")), "hostPort"
    )


def test_I5_pods_keep_apart(trial: Trial) -> None:
    team = trial.namespace(team="blue")
    host = apart(term(HOST, **labelled(app="alone")))
    zone = apart(term(ZONE, **labelled(app="zonal")))
    trial.place(
        *gang("alone", 6, {"app": "alone"}, affinity={**host, **to_nodes((ZONE, "In", ["a", "b"]))}),
        *gang("zonal", 3, {"app": "zonal"}, affinity=zone),
    )
    # Their pods keep ours off, ours keep off theirs, and across namespaces by name and by selector.
    trial.place_theirs(
        pod(
            "guard",
            {"app": "guard"},
            affinity={**apart(term(RACK, **labelled(app="ours"))), **on("a0-medium")},
        ),
        pod("noisy", {"app": "noisy"}, affinity=on("b0-medium")),
    )
    trial.place(
        *gang("ours", 4, {"app": "ours"}, nodeSelector={ZONE: "a"}),
        *gang("quiet", 4, affinity={**apart(term(ZONE, **labelled(app="noisy"))),
                                    **to_nodes((ZONE, "In", ["b", "c"]))}),
    )  # fmt: skip
    cache = pod("cache", {"app": "cache"}, affinity=on("c0-medium"))
    cache["metadata"]["namespace"] = team
    trial.place(cache)
    trial.place(
        pod("by-name", affinity={**apart(term(HOST, namespaces=[team], **labelled(app="cache"))),
                                 **to_nodes((RACK, "In", ["c0"]))}),
        pod("by-selector", affinity={
            **apart(term(HOST, namespaceSelector={"matchLabels": {"team": "blue"}}, **labelled(app="cache"))),
            **to_nodes((RACK, "In", ["c0"])),
        }),
        pod("not-mine", affinity={**apart(term(HOST, **labelled(app="cache"))), **on("c0-medium")}),
        *of_group("pair", pod("leader", affinity=apart(term(RACK, **labelled(role="worker")))),
                  *(pod(f"worker-{i}", {"role": "worker"}) for i in range(3))),
    )  # fmt: skip
    trial.judged()
    assert len(set(trial.members("alone"))) == 6
    assert zones(trial.members("zonal")) == [1, 1, 1]
    assert {name[:2] for name in trial.members("ours")} == {"a1"}
    assert {name[0] for name in trial.members("quiet")} == {"c"}
    leader, *workers = (trial.node_of(name)[:2] for name in ("leader", "worker-0", "worker-1", "worker-2"))
    assert leader not in workers
    trial.waits(pod("fourth", {"app": "zonal"}, affinity=zone), "anti-affinity")
    trial.waits(pod("kept-off", {"app": "ours"}, nodeSelector={RACK: "a0"}), "anti-affinity")
    trial.waits(
        pod(
            "any",
            affinity={**apart(term(HOST, namespaceSelector={}, **labelled(app="cache"))), **on("c0-medium")},
        ),
        "anti-affinity",
    )


def test_L11_pods_keep_together(trial: Trial) -> None:
    team = trial.namespace(team="red")
    rack = near(term(RACK, **labelled(app="tight")))
    trial.place_theirs(pod("db", {"app": "db"}, affinity=on("b1-medium")))
    remote = pod("store", {"app": "store"}, affinity=on("c1-medium"))
    remote["metadata"]["namespace"] = team
    trial.place(remote)
    together = {**near(term(ZONE, **labelled(app="both"))), **apart(term(HOST, **labelled(app="both")))}
    trial.place(
        # More than a rack's two untainted small nodes hold: it must see beyond the first nodes.
        *gang("tight", 5, {"app": "tight"}, affinity=rack, requests={"cpu": "3"}),
        *gang("both", 5, {"app": "both"}, affinity=together),
        *gang("to-db", 3, affinity=near(term(ZONE, **labelled(app="db")))),
        pod("at-db", affinity=near(term(HOST, **labelled(app="db")))),
        pod("at-store", affinity=near(term(RACK, namespaces=[team], **labelled(app="store")))),
        pod("by-team", affinity=near(term(RACK, namespaceSelector={"matchLabels": {"team": "red"}},
                                          **labelled(app="store")))),
        pod("two", affinity=near(term(ZONE, **labelled(app="db")), term(HOST, **labelled(app="db")))),
        *of_group("chain", *(pod(f"mpi-{i}", affinity=near(term(RACK, **labelled(role="head"))))
                             for i in range(3)),
                  pod("head", {"role": "head"}, requests={GPU: "1", "cpu": "1"})),
    )  # fmt: skip
    trial.judged()
    assert len({name[:2] for name in trial.members("tight")}) == 1
    both = trial.members("both")
    assert len({name[0] for name in both}) == 1 and len(set(both)) == 5
    assert {name[0] for name in trial.members("to-db")} == {"b"}
    assert trial.nodes_of("at-db", "two") == ["b1-medium", "b1-medium"]
    assert {name[:2] for name in trial.nodes_of("at-store", "by-team")} == {"c1"}
    assert len({name[:2] for name in trial.members("chain")}) == 1
    trial.waits(pod("nobody", affinity=near(term(ZONE, **labelled(app="none")))), "affinity")
    trial.waits(pod("not-mine", affinity=near(term(ZONE, **labelled(app="store")))), "affinity")
    trial.waits(
        pod("contrary", nodeSelector={ZONE: "a"}, affinity=near(term(ZONE, **labelled(app="db")))), "affinity"
    )


def test_I8_pods_spread(trial: Trial) -> None:
    def even(key: str, app: str, skew: int = 1, **more: object) -> dict[str, object]:
        return {"topologySpreadConstraints": [spread(key, skew, **labelled(app=app), **more)]}

    trial.place(
        *gang("level", 6, {"app": "level"}, **even(ZONE, "level")),
        *gang("odd", 8, {"app": "odd"}, **even(ZONE, "odd")),
        *gang("loose", 4, {"app": "loose"}, **even(ZONE, "loose", 2), nodeSelector={DISK: "ssd"}),
        *gang("three", 3, {"app": "three"}, **even(ZONE, "three", minDomains=3)),
        *gang("hosts", 7, {"app": "hosts"}, **even(HOST, "hosts"), nodeSelector={RACK: "c0"}),
        *gang("honour", 4, {"app": "honour"}, **even(ZONE, "honour"), nodeSelector={RACK: "a1"}),
        *gang("ignore", 2, {"app": "ignore"}, **even(ZONE, "ignore", nodeAffinityPolicy="Ignore"),
              affinity=to_nodes((ZONE, "In", ["a", "b"]))),
        *gang("taints", 3, {"app": "taints"}, **even(HOST, "taints"), nodeSelector={RACK: "a0"}),
        *gang("untainted", 6, {"app": "untainted"}, **even(HOST, "untainted", nodeTaintsPolicy="Honor"),
              nodeSelector={RACK: "a0"}),
    )  # fmt: skip
    two = [spread(ZONE, **labelled(app="grid")), spread(HOST, **labelled(app="grid"))]
    revision = spread(ZONE, **labelled(app="rolled"), matchLabelKeys=["rev"])
    trial.place(*gang("grid", 9, {"app": "grid"}, topologySpreadConstraints=two))
    trial.place(
        *gang(
            "old",
            3,
            {"app": "rolled", "rev": "1"},
            topologySpreadConstraints=[revision],
            nodeSelector={ZONE: "a"},
        )
    )
    trial.place(*gang("new", 3, {"app": "rolled", "rev": "2"}, topologySpreadConstraints=[revision]))
    # Around pods of theirs, which were there before and are not even.
    trial.place_theirs(*(pod(f"theirs-{i}", {"app": "mixed"}, affinity=on("b0-gpu")) for i in range(2)))
    trial.place(*gang("mixed", 4, {"app": "mixed"}, **even(ZONE, "mixed")))
    trial.judged()
    assert zones(trial.members("level")) == [2, 2, 2]
    assert zones(trial.members("odd")) == [2, 3, 3]
    assert zones(trial.members("three")) == [1, 1, 1]
    assert sorted(Counter(trial.members("hosts")).values()) == [1, 2, 2, 2]
    assert zones(trial.members("new")) == [1, 1, 1]
    assert len(set(trial.members("grid"))) == 9 and zones(trial.members("grid")) == [3, 3, 3]
    assert Counter(name[0] for name in trial.members("mixed")) == {"a": 2, "c": 2}
    trial.waits(
        pod("third", {"app": "ignore"}, **even(ZONE, "ignore", nodeAffinityPolicy="Ignore"),
            affinity=to_nodes((ZONE, "In", ["a", "b"]))),
        "topology spread",
    )  # fmt: skip
    trial.waits(
        pod("fourth", {"app": "taints"}, **even(HOST, "taints"), nodeSelector={RACK: "a0"}), "topology spread"
    )
    trial.waits(pod("few", {"app": "three"}, **even(ZONE, "three", minDomains=4)), "topology spread")


def test_F2_volumes_lead_to_their_nodes(trial: Trial) -> None:
    storage, later, driver = "/apis/storage.k8s.io/v1", "when-needed", "csi.example.com"
    trial.create(f"{storage}/storageclasses", storage_class(BY_HAND), storage_class(later))
    drivers = [{"name": driver, "nodeID": "c1-gpu", "topologyKeys": [], "allocatable": {"count": 1}}]
    csi = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "c1-gpu"}}
    trial.create(f"{storage}/csinodes", {**csi, "spec": {"drivers": drivers}})
    attached = [volume(f"csi-{i}", BY_HAND, host="c1-gpu") for i in range(2)]
    for each in attached:
        del each["spec"]["local"]
        each["spec"]["csi"] = {"driver": driver, "volumeHandle": each["metadata"]["name"]}
    once = "ReadWriteOncePod"
    hosts = ("a1-medium", "b1-gpu", "c0-large")
    trial.create(
        "/api/v1/persistentvolumes",
        volume("zonal", BY_HAND, zone="b"),
        volume("shared", BY_HAND, zone="c"),
        volume("sole", BY_HAND, zone="a", mode=once),
        *attached,
        *(volume(f"local-{host}", later, host=host) for host in hosts),
        volume("big", later, "50Gi", host="b0-medium"),
    )
    bound = ("zonal", "shared", "sole", "csi-0", "csi-1")
    trial.claims(
        *(claim(name, BY_HAND, to=name, mode=once if name == "sole" else "ReadWriteOnce") for name in bound),
        *(claim(f"scratch-{i}", later) for i in range(3)),
        claim("wide", later, "40Gi"),
        claim("too-wide", later, "60Gi"),
    )
    trial.wait_bound(*bound)
    trial.place(
        pod("to-zone", volumes=mounted("zonal")),
        pod("to-disk", volumes=mounted("zonal"), nodeSelector={DISK: "ssd"}),
        pod("alone", volumes=mounted("sole")),
        pod("attached", volumes=mounted("csi-0")),
        pod("plain", volumes=[{"name": "tmp", "emptyDir": {}}]),
        *gang("same", 3, volumes=mounted("shared")),
    )
    # Their claims are bound when their nodes are chosen, each to the volume of its node.
    trial.place(pod("wide", volumes=mounted("wide")))
    scratch = [pod(f"scratch-{i}", volumes=mounted(f"scratch-{i}")) for i in range(3)]
    trial.place(*of_group("scratch", *scratch))
    trial.judged()
    assert trial.node_of("to-zone")[0] == "b"
    assert trial.node_of("wide") == "b0-medium"
    assert sorted(trial.members("scratch")) == sorted(hosts)
    trial.waits(pod("second", volumes=mounted("sole")), once)
    trial.waits(pod("one-too-many", volumes=mounted("csi-1")), "max volume count")
    trial.waits(pod("elsewhere", volumes=mounted("zonal"), nodeSelector={ZONE: "a"}), "node affinity")
    trial.waits(pod("nowhere", volumes=mounted("too-wide")), "persistent volumes to bind")
    trial.waits(pod("missing", volumes=mounted("none")), "persistentvolumeclaim")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_F2_L11_I5_I8_whatever_is_drawn(seed: int, trial: Trial) -> None:
    drawn = Drawn(seed, (trial.space, trial.namespace(team="two")))
    pods = placed = 0
    while pods < DRAWN_PODS:
        groups = [drawn.group() for _ in range(5)]
        placed += trial.offer(*groups)
        pods += sum([len(group) for group in groups])
        trial.offer_theirs(*drawn.group(most=1), *drawn.group(most=1))
        trial.end(drawn.random)
    assert placed > 5, "hardly anything was placed: this says nothing"
    trial.judged()
