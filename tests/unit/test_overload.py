"""An API server without time: a storm of 429s, and every group is bound once all the same.

The engine, the planner, the binder and a store are real; the API server is the scripted one, and what it
holds is told to the engine as a watch would.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from asking_support import node
from msgspec import json

from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.core.invariants import check
from fairlead.kube.port import KubePort
from fairlead.kube.translate import pod_seen
from fairlead.model.event import BindError, BindFailed, Listed, NodeSeen, Synced
from fairlead.model.group import Phase
from fairlead.model.settings import Settings
from fairlead.runtime.clock import Clock
from fairlead.runtime.loop import Loop
from fairlead.runtime.planner import Planner
from fairlead.store.memory import MemoryStore
from kube_fake import FakeApi, answers, pod


class Telling:
    """Tells of every pod of the API server's, and of each change."""

    handles: tuple[type, ...] = ()

    def __init__(self, api: FakeApi) -> None:
        self._api = api

    async def run(self, inbox: Any) -> None:
        known: dict[str, str] = {}
        inbox.put([NodeSeen(node(f"n{i}", cpu=64)) for i in range(4)])
        while True:
            news = [
                p for p in self._api.pods.values() if known.get(_uid(p)) != p["metadata"]["resourceVersion"]
            ]
            inbox.put([pod_seen(json.encode(each), lambda _: None) for each in news])
            if not known:
                inbox.put([Listed("Node", tuple(f"uid-n{i}" for i in range(4)), 1), Synced("nodes")])
                inbox.put([Synced("owners"), Synced("pods")])
            known |= {_uid(each): each["metadata"]["resourceVersion"] for each in news}
            await asyncio.sleep(0.005)

    def perform(self, _: Any) -> None:
        raise AssertionError

    async def close(self) -> None:
        """Nothing is held."""


def _uid(thing: dict[str, Any]) -> str:
    return thing["metadata"]["uid"]


@asynccontextmanager
async def scheduling(api: FakeApi, **options: Any) -> AsyncIterator[tuple[Engine, list[BindError]]]:
    engine = Engine(Settings(pace=0), RECONCILERS)
    kube = KubePort(api.access, kinds=(), pod_events=False, **options)
    failures: list[BindError] = []

    def observe(batch: Any, *_: Any) -> None:
        failures.extend(each.error for each in batch if isinstance(each, BindFailed))
        assert not check(engine.state)

    ports = (MemoryStore(), kube, Planner(), Telling(api))
    running = asyncio.create_task(Loop(engine, ports, Clock(), None, (observe,)).run())
    try:
        yield engine, failures
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def gangs(api: FakeApi, groups: int, size: int) -> None:
    for number in range(groups * size):
        labels = {"fairlead.dev/group": f"g{number // size}", "fairlead.dev/group-size": str(size)}
        api.add(pod(f"p{number}"))["metadata"]["labels"] = labels


async def all_run(engine: Engine, groups: int) -> None:
    async with asyncio.timeout(120):
        while Counter(g.phase for g in engine.state.groups.values()) != {Phase.RUNNING: groups}:
            await asyncio.sleep(0.02)


async def test_F24_a_storm_of_429s_ends_with_every_group_bound_once(api: FakeApi) -> None:
    gangs(api, 20, 4)
    refused = Counter[str]()
    bind = api.bind

    def busy(thing: dict[str, Any], body: Any) -> web.Response:
        name = thing["metadata"]["name"]
        refused[name] += 1
        if refused[name] <= 1 + int(name[1:]) % 2:
            return web.json_response({"code": 429}, status=429, headers={"Retry-After": "1"})
        return bind(thing, body)

    api.bind = busy  # type: ignore[method-assign]
    async with scheduling(api, request_timeout=60.0) as (engine, failures):
        await all_run(engine, 20)
        assert failures == []
    assert len(api.bound) == len(set(api.bound)) == 80
    assert sum(refused.values()) == 80 + 80 + 40


async def test_F24_overload_that_outlasts_a_request_costs_no_group_its_start(api: FakeApi) -> None:
    """Refused for lack of time is certainly not done: nothing is in doubt, revoked or placed anew."""
    gangs(api, 5, 3)
    api.fault("POST", "/binding", *[answers(429, **{"Retry-After": "3"})] * 30)
    async with scheduling(api, request_timeout=6.0) as (engine, failures):
        await all_run(engine, 5)
        assert set(failures) == {BindError.BUSY}
        assert all(group.attempts == 0 for group in engine.state.groups.values())
    assert len(api.bound) == len(set(api.bound)) == 15
    assert not api.sent("PATCH")


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake
