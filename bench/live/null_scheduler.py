"""The null scheduler: binds every pod that asks for it to the next node, round robin, and thinks nothing.

Run by `bench.live` as a process of its own: what it reaches is what the API server allows. It uses the
same client as Fairlead, 64 requests in flight, and checks nothing.
"""

import asyncio
import itertools
import sys
from collections.abc import Sequence

import msgspec

from fairlead.kube.client import ApiClient
from fairlead.kube.config import load
from fairlead.kube.errors import KubeError
from fairlead.kube.translate import PODS
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.model.event import Event, PodSeen, Synced
from fairlead.model.pod import Pod
from fairlead.runtime import eventloop

NAME = "null"
IN_FLIGHT = 64


class Unbound:
    """An Inbox: every pod of ours, once."""

    def __init__(self) -> None:
        self.pods: asyncio.Queue[Pod] = asyncio.Queue()
        self._seen: set[str] = set()

    def put(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Synced):
                print("ready", flush=True)
            if not isinstance(event, PodSeen) or event.pod.scheduler != NAME or event.pod.node:
                continue
            if event.pod.uid not in self._seen:
                self._seen.add(event.pod.uid)
                self.pods.put_nowait(event.pod)


async def bind(client: ApiClient, pods: "asyncio.Queue[Pod]", nodes: "itertools.cycle[str]") -> None:
    while True:
        pod = await pods.get()
        body = msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod.name, "uid": pod.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": next(nodes)},
            }
        )
        try:
            await client.post(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding", body)
        except KubeError as error:
            print(error, file=sys.stderr)


async def main(kubeconfig: str) -> None:
    client = ApiClient(load(kubeconfig), connections=IN_FLIGHT + 4, user_agent=NAME)
    listed = msgspec.json.decode(await client.get("/api/v1/nodes"))
    nodes = itertools.cycle([item["metadata"]["name"] for item in listed["items"]])
    unbound = Unbound()
    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(bind(client, unbound.pods, nodes))
        group.create_task(Reflector(client, PODS, unbound, SyncGate((PODS,)), {}).run())


if __name__ == "__main__":
    eventloop.run(main(sys.argv[1]))
