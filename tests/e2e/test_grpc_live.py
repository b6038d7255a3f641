"""Groups and nodes of a running scheduler over gRPC, as a kubectl plugin asks for them."""

import re
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from fairlead.api.rpc.pb import service_pb2 as service
from fairlead.core.tree.columns import Tree
from fairlead.localcluster import Cluster
from fairlead.wire import jgf
from live import Kubectl, Scheduler, job, until

pytestmark = pytest.mark.e2e
T = TypeVar("T", bound=Message)


def address(scheduler: Scheduler) -> str:
    """Where the scheduler says that its gRPC server listens."""

    def look() -> re.Match[str] | None:
        return re.search(r"gRPC server started\s+address=(127\.0\.0\.1:\d+)", scheduler.log)

    return until(look, "the address in the log")[1]


def ask(channel: grpc.Channel, method: str, request: Message, answer: type[T]) -> T:
    call = channel.unary_unary(
        f"/service.ExternalPluginService/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString,
    )
    return call(request, timeout=60)


def test_F29_I10_groups_and_nodes_of_a_live_scheduler(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    options = ("--grpc", "127.0.0.1:0")
    with Scheduler(small_cluster.kubeconfig, data, *options) as scheduler:
        kubectl.create(job("runs", pods=4, cpu="5", run="10m"))
        scheduler.wait_state(kubectl.namespace, "runs", "running")
        kubectl.create(job("waits", pods=2, cpu="5", run="10m"))
        scheduler.wait_state(kubectl.namespace, "waits", "waiting")
        bound = {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in kubectl.get("pods")}
        with grpc.insecure_channel(address(scheduler), [("grpc.enable_http_proxy", 0)]) as channel:
            wanted = service.GroupRequest(namespace=kubectl.namespace)
            page = ask(channel, "ListGroups", wanted, service.GroupResponse)
            assert {each.name: (each.size, each.state) for each in page.groups} == {
                "waits": (2, "waiting"),
                "runs": (4, "running"),
            }
            members = {each.name: each.node for group in page.groups for each in group.members}
            assert members == bound
            wanted = service.GroupRequest(group=f"{kubectl.namespace}/runs")
            runs = ask(channel, "GetGroup", wanted, service.GroupResponse)
            assert sorted(runs.nodes) == sorted(node for node in bound.values() if node)
            graph = ask(channel, "GetResources", service.ResourceRequest(), service.ResourceResponse).graph
            tree = Tree(jgf.read(graph))
            assert (len(tree.of_type("node")), len(tree.of_type("core"))) == (4, 32)
            assert jgf.whole(tree) == graph
            with pytest.raises(grpc.RpcError) as refused:
                ask(channel, "GetGroup", service.GroupRequest(group="nobody"), service.GroupResponse)
            assert refused.value.details() == "no group 'nobody' is known"
