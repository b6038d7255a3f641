"""Ten thousand groups through one scheduler process: does it grow?

Run: python -m bench.soak [--groups 10000] [--first 2000]. Single pods and small gangs that run for a second
or less are created as earlier ones end, and deleted when they have ended. The scheduler's resident memory
after all of them must be within 10 % of what it was after the first. With a short `retention` the database
holds only what ended lately.
"""

import argparse
import asyncio
import pathlib
import random
import tempfile
import time
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg

from bench.live import load, processes
from bench.report import report
from fairlead.kube.client import IDLE_CONNECTION, ApiClient
from fairlead.kube.config import load as load_kubeconfig
from fairlead.kube.errors import ApiError
from fairlead.kube.translate import PODS
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_down, bring_up
from fairlead.model.event import Event, PodSeen
from fairlead.model.pod import PodPhase
from fairlead.runtime import eventloop
from fairlead.runtime.memory import QUIET
from fairlead.store.embedded import EmbeddedServer

NODES, SHAPE = 10, NodeShape(cpu="32")
RETENTION = 10
"""Seconds that ended groups are remembered for."""
OPEN = 150
"""Groups under way at any time: more than a moment's work, fewer than what would only wait."""
GROWTH = 0.10
REST = 2 * IDLE_CONNECTION + 1.5 * QUIET
"""Seconds without work before memory is read: by then idle connections are closed, however many a burst has
opened, and what they took has been given back."""
PATIENCE = 300.0
GROUP = "fairlead.dev/group"
_NOW = msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})


class Result(NamedTuple):
    """Resident bytes at the first mark and at the end; rows in the database when all had been forgotten."""

    groups: int
    completed: int
    failed: int
    pods: int
    seconds: float
    first: int
    last: int
    rows: int

    @property
    def growth(self) -> float:
        return self.last / self.first - 1


def group(run: str, number: int, draw: random.Random) -> list[dict[str, Any]]:
    """A single pod, or a gang of two or three; none runs for more than a second."""
    name, size = f"{run}-{number:05d}", draw.choice((1, 1, 1, 2, 3))
    labels = {GROUP: name, "fairlead.dev/group-size": str(size)}
    notes = {"fairlead.dev/run-time": f"{draw.randint(1, 10) * 100}ms"}
    pods = [load.pod(f"{name}-{i}", "fairlead", run, labels) for i in range(size)]
    for pod in pods:
        pod["metadata"]["annotations"] = notes
        pod["spec"]["restartPolicy"] = "Never"
    return pods


class Progress:
    """Which pods have ended and whose groups are over: an Inbox for a reflector."""

    def __init__(self) -> None:
        self.completed = self.failed = 0
        self.over: asyncio.Queue[str] = asyncio.Queue()
        self.room = asyncio.Semaphore(OPEN)
        self.sizes: dict[str, int] = {}
        self._ended: dict[str, dict[str, PodPhase]] = {}

    def put(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, PodSeen) and event.pod.ended:
                self._count(event.pod.labels.get(GROUP, ""), event.pod.name, event.pod.phase)

    def _count(self, name: str, pod: str, phase: PodPhase) -> None:
        if name not in self.sizes:
            return
        ended = self._ended.setdefault(name, {})
        ended[pod] = phase
        if len(ended) < self.sizes[name]:
            return
        good = all(each is PodPhase.SUCCEEDED for each in ended.values())
        self.completed += good
        self.failed += not good
        del self.sizes[name], self._ended[name]
        for each in ended:
            self.over.put_nowait(each)
        self.room.release()


async def _create(client: ApiClient, progress: Progress, run: str, numbers: range) -> int:
    """The groups in their order, OPEN of them under way; how many pods."""
    draw, count = random.Random(run), 0
    for number in numbers:
        await progress.room.acquire()
        pods = group(run, number, draw)
        progress.sizes[pods[0]["metadata"]["labels"][GROUP]] = len(pods)
        path = f"/api/v1/namespaces/{load.NAMESPACE}/pods"
        await asyncio.gather(*(client.post(path, msgspec.json.encode(pod), timeout=60) for pod in pods))
        count += len(pods)
    return count


async def _delete(client: ApiClient, progress: Progress) -> None:
    """What has ended goes, as a cluster's clean-up would see to."""
    while True:
        name = await progress.over.get()
        try:
            await client.delete(f"/api/v1/namespaces/{load.NAMESPACE}/pods/{name}", _NOW, timeout=60)
        except ApiError as error:
            if error.status != 404:
                raise


async def _reach(progress: Progress, count: int) -> None:
    """Until so many groups are over."""
    seen, since = -1, time.monotonic()
    while progress.completed + progress.failed < count:
        now = progress.completed + progress.failed
        if now != seen:
            seen, since = now, time.monotonic()
        if time.monotonic() - since > PATIENCE:
            raise SystemExit(f"nothing has ended for {PATIENCE:.0f} s: {now} of {count} groups are over")
        await asyncio.sleep(0.1)


async def _rows(
    client: ApiClient, progress: Progress, run: str, groups: int, running: processes.Running
) -> int:
    """Rows of groups, plans and grants once old ones are forgotten; a group now and then makes it look."""
    question = " + ".join(
        f"(SELECT count(*) FROM {table})" for table in ("group_record", "plan_record", "grant_record")
    )
    assert running.data is not None
    url = EmbeddedServer(running.data).url
    deadline, rows = time.monotonic() + PATIENCE, groups
    for number in range(groups, groups + 10_000):
        await _create(client, progress, run, range(number, number + 1))
        await _reach(progress, number + 1)
        async with await psycopg.AsyncConnection.connect(url) as connection:
            cursor = await connection.execute(f"SELECT {question}")  # pyright: ignore[reportArgumentType]
            rows = int((await cursor.fetchone() or (0,))[0])
        if rows <= groups // 10 or time.monotonic() > deadline:
            break
        await asyncio.sleep(1)
    return rows


async def soak(cluster: Cluster, running: processes.Running, groups: int, first: int) -> Result:
    """All groups through the scheduler that runs; its memory after the `first` of them and after all."""
    run = f"k{uuid.uuid4().hex[:6]}"
    client = ApiClient(load_kubeconfig(cluster.kubeconfig), connections=96, request_timeout=60)
    progress = Progress()
    helpers = [
        asyncio.create_task(Reflector(client, PODS, progress, SyncGate((PODS,)), {}).run()),
        *(asyncio.create_task(_delete(client, progress)) for _ in range(8)),
    ]
    marks: list[int] = []
    pods, seconds = 0, 0.0
    try:
        for part in (range(first), range(first, groups)):
            begun = time.perf_counter()
            pods += await _create(client, progress, run, part)
            await _reach(progress, part.stop)
            seconds += time.perf_counter() - begun
            await asyncio.sleep(REST)
            marks.append(running.usage().rss)
        done = (progress.completed, progress.failed)
        rows = await _rows(client, progress, run, groups, running)
    finally:
        for each in helpers:
            each.cancel()
        await client.close()
    return Result(groups, *done, pods, seconds, marks[0], marks[1], rows)


def measure(cluster: Cluster, groups: int, first: int) -> Result:
    """A scheduler of its own on this cluster, with a short retention."""
    cluster.stop("kube-controller-manager")  # it has nothing to do here, and takes a tenth of the work
    with tempfile.TemporaryDirectory() as name:
        config = pathlib.Path(name) / "fairlead.yaml"
        config.write_text(f"retention: {RETENTION}s\n")
        options = ("--config", str(config), "--pod-events", "off")
        with processes.fairlead(cluster, options) as running:
            return eventloop.run(soak(cluster, running, groups, first))


def row(result: Result, first: int) -> dict[str, str]:
    return {
        "groups": f"{result.groups}",
        "completed": f"{result.completed}",
        "failed": f"{result.failed}",
        "pods": f"{result.pods}",
        "groups/s": f"{result.groups / result.seconds:.0f}",
        f"MiB after {first}": f"{result.first / 2**20:.1f}",
        "MiB at the end": f"{result.last / 2**20:.1f}",
        "growth": f"{result.growth:+.1%} (≤ {GROWTH:.0%}: {'held' if result.growth <= GROWTH else 'MISSED'})",
        "rows left": f"{result.rows}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=2000)
    options = parser.parse_args()
    name = f"bench-{uuid.uuid4().hex[:6]}"
    try:
        result = measure(
            bring_up(UpOptions(name=name, nodes=NODES, shape=SHAPE)), options.groups, options.first
        )
    finally:
        bring_down(name)
    command = f"python -m bench.soak --groups {options.groups} --first {options.first}"
    notes = f"Retention {RETENTION} s; memory is read at rest, {REST:.0f} s after the last group's end."
    report("soak", command, [row(result, options.first)], notes)


if __name__ == "__main__":
    main()
