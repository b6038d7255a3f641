"""What the recorder's watches do beyond the scheduler's: go on from a version, mark how far they are, and
tell the end of an object with how it was."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from test_kube_watch import FIRST, lists, versioned, watches, watching

from fairlead.kube import observe
from fairlead.kube.watch import SyncGate
from fairlead.model.event import Listed, Rewound
from kube_fake import FakeApi, bookmark, event


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


def marked(version: int) -> str:
    return f"up to {version}"


async def test_a_watch_goes_on_from_the_version_that_it_is_given(api: FakeApi) -> None:
    api.page_version = 40
    line = event("ADDED", versioned("a", 41))
    api.streams = [[line + event("MODIFIED", versioned("a", 42)), 0.05, bookmark(50), 3600.0]]
    async with watching(api, observe.PODS, gate=SyncGate(()), start=40, marked=marked) as (inbox, stats):
        await inbox.until(lambda events: "up to 50" in events)
        assert [each if isinstance(each, str) else each.version for each in inbox.events] == [
            41, 42, "up to 42", "up to 50",
        ]  # fmt: skip
        assert lists(api) == 0 and "relists" not in stats
    assert watches(api) == ["40"]


async def test_a_version_to_go_on_from_that_is_too_old_is_a_list(api: FakeApi) -> None:
    api.page_version = 40
    gone = event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
    api.streams = [
        [event("ADDED", versioned("a", 8)) + gone],
        [event("ADDED", versioned("b", 9)), bookmark(20, end=True)],
    ]
    async with watching(api, observe.PODS, gate=SyncGate(()), start=7, marked=marked) as (inbox, stats):
        await inbox.until(lambda events: Listed("Pod", ("uid-default-b",), 20) in events)
        assert [type(each).__name__ for each in inbox.events] == ["PodFact", "str", "PodFact", "Listed"]
        assert inbox.events[1] == "up to 8" and stats["relists"] == 1


async def test_a_version_to_go_on_from_that_is_yet_to_come_is_a_list(api: FakeApi) -> None:
    """A watch from there would be silent: the server's database was restored while nobody watched."""
    api.page_version = 40
    api.streams = [[event("ADDED", versioned("b", 9)), bookmark(41, end=True)], [3600.0]]
    async with watching(api, observe.PODS, gate=SyncGate(()), start=700) as (inbox, stats):
        await inbox.until(lambda events: Listed("Pod", ("uid-default-b",), 41) in events)
        assert inbox.events[0] == Rewound("Pod") and stats["rewinds"] == 1


async def test_the_end_of_an_object_comes_with_how_it_was(api: FakeApi) -> None:
    node = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "31", "labels": {"a": "b"}}}
    unknown = {"metadata": {"uid": "v", "resourceVersion": "32"}, "status": 3}
    api.streams = [FIRST, [event("DELETED", node) + event("DELETED", unknown), 3600.0]]
    async with watching(api, observe.NODES, gate=SyncGate(())) as (inbox, _):
        await inbox.until(lambda events: len(events) > 2)
        first, second = inbox.events[1:]
        assert first.kind == "Node" and first.last.labels == {"a": "b"}
        assert (second.uid, second.version, second.kind) == ("v", 32, "Node")
        assert second.last.uid == "v"  # what could be read of it


async def test_events_of_kubernetes_are_told_by_version(api: FakeApi) -> None:
    def said(version: int) -> dict[str, Any]:
        regarding = {"kind": "Pod", "name": "p"}
        return {
            "metadata": {"name": f"e{version}", "uid": f"e{version}", "resourceVersion": str(version)},
            "regarding": regarding, "reason": "FailedScheduling",
        }  # fmt: skip

    api.streams = [[*(event("ADDED", said(each)) for each in (9, 8)), bookmark(10, end=True)], [3600.0]]
    async with watching(api, observe.EVENTS, gate=SyncGate(())) as (inbox, _):
        await inbox.until(lambda events: len(events) == 3)
        assert [each.version for each in inbox.events] == [8, 9, 10]
    assert api.requests[0][1] == "/apis/events.k8s.io/v1/events"


async def test_a_pod_that_cannot_be_read_is_a_fact_all_the_same(api: FakeApi) -> None:
    odd = versioned("odd", 12, nodeName="n", priority="high")
    api.streams = [FIRST, [event("ADDED", odd) + event("DELETED", odd), 3600.0]]
    async with watching(api, observe.PODS, gate=SyncGate(())) as (inbox, stats):
        await inbox.until(lambda events: len(events) > 2)
        seen, gone = inbox.events[1:]
        assert seen.node == gone.last.node == "n" and stats["unreadable"] == 2
