"""Racks and whole nodes on a real API server: eight nodes in one rack, alone on them, also after a kill."""

import json

import pytest

from conftest import MakeCluster
from fairlead.localcluster import NodeShape
from live import Kubectl, Scheduler, data_folder, job, pod, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
RACK, ZONE = "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"
WISH = {"fairlead.dev/required-topology": "rack", "fairlead.dev/exclusive": "true"}


def racks_of(kubectl: Kubectl, name: str) -> list[tuple[str, str]]:
    """(rack, node) of each bound pod of the Job."""
    racks = {each["metadata"]["name"]: each["metadata"]["labels"][RACK] for each in kubectl.get("nodes")}
    pods = [p for p in kubectl.get("pods") if p["metadata"].get("labels", {}).get("job-name") == name]
    return [(racks[p["spec"]["nodeName"]], p["spec"]["nodeName"]) for p in pods if p["spec"].get("nodeName")]


def test_I5_I8_I10_D8_eight_nodes_in_one_rack_and_alone_on_them(make_cluster: MakeCluster):
    cluster = make_cluster(nodes=16, shape=NodeShape(cpu="8"))
    kubectl = Kubectl(cluster, "default")
    names = sorted(each["metadata"]["name"] for each in kubectl.get("nodes"))
    kubectl("label", "nodes", "--all", "--overwrite", f"{ZONE}=z")  # a rack is in one zone
    for rack, members in (("a", names[:8]), ("b", names[8:])):
        kubectl("label", "nodes", *members, f"{RACK}={rack}")
    other = pod("other", run="1h", spec={"schedulerName": "nobody", "nodeName": names[3]})
    kubectl.create(other)
    with data_folder() as data, Scheduler(cluster.kubeconfig, data) as scheduler:
        scheduler.wait_ready()
        kubectl.create(job("solver", 8, run="1h", annotations=WISH))
        scheduler.wait_state("default", "solver", "running")
        there = racks_of(kubectl, "solver")
        assert {rack for rack, _ in there} == {"b"} and len({node for _, node in there}) == 8

        kubectl.create(job("second", 8, annotations=WISH), job("beside", 8, run="1h"))
        row = scheduler.wait_state("default", "second", "waiting")
        until(lambda: "on a node of its own" in scheduler.groups("default")["second"]["text"])
        assert row["nodes"] == []
        scheduler.kill()
        scheduler.start()
        scheduler.wait_ready()
        kubectl("delete", "job", "second", "--wait=true")
        scheduler.wait_state("default", "beside", "running")
        assert {rack for rack, _ in racks_of(kubectl, "beside")} == {"a"}, "placed beside an exclusive pod"

        status, page = scheduler.get("/api/v1/groups/default/solver")
        assert status == 200
        assert [e["span"] for e in page["groups"]] == [{"node": 8, "rack": 1, "zone": 1}]
        status, drawn = scheduler.get("/api/v1/graph")
        types = [each["metadata"]["type"] for each in drawn["graph"]["nodes"]]
        assert (status, types.count("rack"), types.count("node")) == (200, 2, 16), json.dumps(drawn)[:500]
