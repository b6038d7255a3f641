"""Lists and watches against a scripted server: order, batches, fallbacks, and going on after any fault."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from fairlead.kube import things, translate
from fairlead.kube.client import ApiClient
from fairlead.kube.lines import LineSplitter
from fairlead.kube.port import ShapeBook
from fairlead.kube.tally import Tally
from fairlead.kube.watch import Reflector, SyncGate
from fairlead.model.event import Listed, NodeGone, OwnerSeen, PodGone, PodSeen, Rewound, Synced
from fairlead.model.pod import Pod, Shape
from kube_fake import FakeApi, ListInbox, answers, bookmark, cut, event, pod, silence


def versioned(name: str, version: int, created: int = 0, **spec: Any) -> dict[str, Any]:
    thing = pod(name, **spec)
    stamp = f"2026-11-21T10:00:{created:02d}Z"
    thing["metadata"].update(resourceVersion=str(version), creationTimestamp=stamp)
    return thing


@asynccontextmanager
async def watching(
    api: FakeApi, *kinds: translate.KindOf[Any], **options: Any
) -> AsyncIterator[tuple[ListInbox, dict[str, int]]]:
    inbox, stats = ListInbox(), dict[str, int]()
    gate = options.pop("gate", None) or SyncGate(kinds or (translate.PODS,))
    client = ApiClient(api.access)
    options = {"backoff": (0.001, 0.01), **options}
    tasks = [
        asyncio.create_task(Reflector(client, kind, inbox, gate, stats, **options).run())
        for kind in kinds or (translate.PODS,)
    ]
    try:
        yield inbox, stats
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await client.close()


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


def short(events: list[Any]) -> list[Any]:
    names = {
        PodSeen: lambda e: e.pod.name, Listed: lambda e: e.kind, Synced: lambda e: e.source,
        Rewound: lambda e: f"{e.kind} anew",
    }  # fmt: skip
    return [names[type(each)](each) if type(each) in names else each for each in events]


def seen(name: str) -> Any:
    return lambda events: name in short(events)


def watches(api: FakeApi) -> list[str | None]:
    """The versions that watches (not lists) were opened from."""
    return [q["resourceVersion"] for q in api.queries if "watch" in q and "resourceVersion" in q]


def lists(api: FakeApi) -> int:
    return sum("sendInitialEvents" in query for query in api.queries)


# -- lines -------------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_are_the_same_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter, found, at = LineSplitter(), list[bytes](), 0
    while at < len(stream):
        size = data.draw(st.integers(1, len(stream) - at))
        found += splitter.feed(stream[at : at + size])
        at += size
    assert found == lines


def test_a_long_line_in_many_chunks_is_joined_once() -> None:
    splitter = LineSplitter()
    assert all(splitter.feed(b"x" * 1000) == [] for _ in range(20_000))
    (line,) = splitter.feed(b"\n")
    assert len(line) == 20_000_000


# -- first list --------------------------------------------------------------------------------------


async def test_a_streamed_list_is_sorted_then_listed_then_synced(api: FakeApi) -> None:
    things = [versioned("late", 5, 9), versioned("b", 9, 3), versioned("a", 8, 3)]
    api.streams = [[*(event("ADDED", each) for each in things), bookmark(77, end=True)]]
    async with watching(api) as (inbox, _):
        await inbox.until(seen("pods"))
        assert short(inbox.events) == ["a", "b", "late", "Pod", "pods"]
        assert len(inbox.batches) == 1
        assert inbox.events[3] == Listed("Pod", ("uid-default-a", "uid-default-b", "uid-default-late"), 77)
        await inbox.until(lambda _: len(api.queries) > 1)
    first, second = api.queries[:2]
    assert first["sendInitialEvents"] == first["allowWatchBookmarks"] == "true"
    assert first["resourceVersionMatch"] == "NotOlderThan" and "resourceVersion" not in first
    assert second["resourceVersion"] == "77"
    assert not any("Selector" in key for query in api.queries for key in query)


@pytest.mark.parametrize("code", [400, 422])
async def test_pages_where_lists_are_not_streamed(api: FakeApi, code: int) -> None:
    api.fault("GET", "/pods", answers(code, "Invalid", "sendInitialEvents is forbidden"))
    api.pages = [[versioned("b", 2, 2)], [versioned("a", 1, 1)], [versioned("c", 3, 3)]]
    async with watching(api) as (inbox, _):
        await inbox.until(seen("pods"))
        assert short(inbox.events) == ["a", "b", "c", "Pod", "pods"]
        assert inbox.events[3].version == 500


@pytest.mark.parametrize("ending", [[], [3600.0]])
async def test_pages_where_the_mark_of_the_end_never_comes(api: FakeApi, ending: list[Any]) -> None:
    """An old server takes sendInitialEvents for nothing and goes on as a plain watch."""
    api.streams = [[event("ADDED", versioned("a", 1)), *ending]]
    api.pages = [[versioned("a", 1)]]
    async with watching(api, first_idle=0.2) as (inbox, _):
        await inbox.until(seen("pods"))
        assert short(inbox.events) == ["a", "Pod", "pods"]


async def test_an_expired_page_starts_the_list_anew(api: FakeApi) -> None:
    api.fault("GET", "/pods", answers(422), answers(410, "Expired"))
    api.pages = [[versioned("a", 1)]]
    async with watching(api) as (inbox, _):
        await inbox.until(seen("pods"))
        assert short(inbox.events) == ["a", "Pod", "pods"]


async def test_owners_are_synced_when_all_kinds_are_in(api: FakeApi) -> None:
    kinds = (translate.JOBS, translate.REPLICA_SETS, translate.STATEFUL_SETS)
    api.streams = [[bookmark(7, end=True)]] * 3
    async with watching(api, *kinds) as (inbox, _):
        await inbox.until(seen("owners"))
        assert set(short(inbox.events)[:3]) == {"Job", "ReplicaSet", "StatefulSet"}
        assert short(inbox.events)[3:] == ["owners"]


# -- going on ----------------------------------------------------------------------------------------


FIRST = [bookmark(7, end=True)]


async def test_one_chunk_is_one_batch_and_bookmarks_move_the_version(api: FakeApi) -> None:
    chunk = b"".join(event("ADDED", versioned(f"p{number}", number)) for number in range(10, 15))
    gone = event("DELETED", versioned("p10", 20))
    api.streams = [FIRST, [chunk, 0.05, gone + bookmark(99)]]
    async with watching(api) as (inbox, _):
        await inbox.until(lambda events: PodGone("uid-default-p10", 20) in events)
        assert [len(batch) for batch in inbox.batches] == [2, 5, 1]
        await inbox.until(lambda _: len(watches(api)) > 1)
    assert watches(api) == ["7", "99"]


async def test_a_line_in_two_chunks_is_one_event(api: FakeApi) -> None:
    line = event("MODIFIED", versioned("p", 10))
    api.streams = [FIRST, [line[:50], 0.05, line[50:]]]
    async with watching(api) as (inbox, _):
        await inbox.until(seen("p"))


async def test_expired_while_watching_lists_anew_and_syncs_only_once(api: FakeApi) -> None:
    gone = event("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "message": "too old"})
    api.streams = [
        [event("ADDED", versioned("a", 1)), bookmark(7, end=True)],
        [event("MODIFIED", versioned("a", 8)) + gone],
        [event("ADDED", versioned("b", 9)), bookmark(20, end=True)],
    ]
    async with watching(api) as (inbox, stats):
        await inbox.until(lambda events: short(events).count("Pod") == 2)
        assert short(inbox.events) == ["a", "Pod", "pods", "a", "b", "Pod"]
        assert inbox.events[-1].uids == ("uid-default-b",)
        assert stats["relists"] == 1


async def test_expired_when_opening_the_watch(api: FakeApi) -> None:
    async def first(request: web.Request) -> web.StreamResponse:
        return await api.stream(request, [bookmark(7, end=True)])

    api.fault("GET", "/pods", first, answers(410, "Expired"))
    api.streams = [[event("ADDED", versioned("a", 9)), bookmark(20, end=True)]]
    async with watching(api) as (inbox, _):
        await inbox.until(seen("a"))
        assert short(inbox.events)[:2] == ["Pod", "pods"]
    assert "sendInitialEvents" in api.queries[2]


@pytest.mark.parametrize(
    "fault",
    [
        cut,
        answers(500),
        answers(503),
        answers(401),
        answers(403, "Forbidden"),
        answers(429, **{"Retry-After": "0"}),
    ],
)
async def test_any_fault_is_retried_from_where_it_was(api: FakeApi, fault: Any) -> None:
    api.fault("GET", "/pods", fault, fault)
    api.streams = [FIRST, [event("ADDED", versioned("late", 30))]]
    async with watching(api) as (inbox, stats):
        await inbox.until(seen("late"))
        assert stats["watch_errors"] >= 1
        assert short(inbox.events)[:2] == ["Pod", "pods"]


async def test_a_cut_watch_resumes_from_its_last_event(api: FakeApi) -> None:
    api.streams = [FIRST, [event("ADDED", versioned("a", 30))], [event("ADDED", versioned("b", 31))]]
    async with watching(api) as (inbox, _):
        await inbox.until(seen("b"))
    assert watches(api)[:2] == ["7", "30"]


async def test_a_silent_watch_is_noticed(api: FakeApi) -> None:
    api.streams = [FIRST, [3600.0], [event("ADDED", versioned("a", 30))]]
    async with watching(api, idle=0.2) as (inbox, stats):
        await inbox.until(seen("a"))
        assert stats["watch_silences"] >= 1 and "watch_errors" not in stats


async def test_rubbish_in_a_stream_does_not_end_the_watch(api: FakeApi) -> None:
    broken = b'{"type":"ADDED","object":{"metadata":5}}\n'
    unreadable = versioned("odd", 12, containers=[{"resources": {"requests": {"cpu": "ten"}}}])
    chunk = broken + event("ADDED", unreadable) + event("ADDED", versioned("fine", 13))
    api.streams = [FIRST, [chunk], [b"not json\n"], [event("ADDED", versioned("later", 14)), 3600.0]]
    async with watching(api) as (inbox, stats):
        await inbox.until(seen("later"))
        assert short(inbox.events)[2:] == ["odd", "fine", "later"]
        assert stats["unreadable"] >= 2  # a second time where the chunk came in two


async def test_a_list_of_nodes_is_told_by_uid(api: FakeApi) -> None:
    nodes = [
        {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "3"}} for name in ("b", "a")
    ]
    api.streams = [[*(event("ADDED", each) for each in nodes), bookmark(9, end=True)]]
    async with watching(api, translate.NODES) as (inbox, _):
        await inbox.until(seen("nodes"))
        assert inbox.events[2] == Listed("Node", ("uid-a", "uid-b"), 9)


async def test_deleted_nodes(api: FakeApi) -> None:
    node = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "31"}}
    api.streams = [FIRST, [event("DELETED", node)]]
    async with watching(api, translate.NODES) as (inbox, _):
        await inbox.until(lambda events: NodeGone("u", 31) in events)


# -- trouble -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["ended", "silent"])
async def test_L3_a_server_whose_versions_went_back_is_learned_anew(api: FakeApi, how: str) -> None:
    """After a restored backup a watch from a version that is yet to come would be silent for ever."""
    api.page_version = 34
    api.streams = [
        [event("ADDED", versioned("a", 90)), bookmark(99, end=True)],
        [] if how == "ended" else [3600.0],
        [event("ADDED", versioned("a", 30)), bookmark(35, end=True)],
        [event("ADDED", versioned("b", 36)), 3600.0],
    ]
    async with watching(api, idle=0.2) as (inbox, stats):
        await inbox.until(seen("b"))
        assert short(inbox.events) == ["a", "Pod", "pods", "Pod anew", "a", "Pod", "b"]
        assert stats["rewinds"] == stats["relists"] == 1
    assert watches(api)[-1] == "35"


async def test_a_lost_connection_alone_is_no_reason_for_a_list(api: FakeApi) -> None:
    api.page_version = 99
    api.streams = [[bookmark(99, end=True)], [3600.0], [event("ADDED", versioned("b", 100)), 3600.0]]
    async with watching(api, idle=0.2) as (inbox, stats):
        await inbox.until(seen("b"))
        assert "relists" not in stats and lists(api) == 1


async def test_L3_a_connection_cut_again_and_again_loses_and_doubles_nothing(api: FakeApi) -> None:
    """Each watch tells one or two events, in bytes cut anywhere, and breaks off in the middle of the next."""
    lines = [event("ADDED", versioned(f"p{number}", number)) for number in range(10, 50)]

    async def some(request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        rest = [line for number, line in enumerate(lines, 10) if number > since]
        told = b"".join(rest[: 1 + since % 2])
        await api.stream(request, [told[:37], 0.001, told[37:]])
        assert request.transport is not None
        await asyncio.sleep(0.005)
        if rest:
            request.transport.abort()
        await asyncio.sleep(3600)
        return web.Response()

    async def one(request: web.Request) -> web.StreamResponse:
        if "resourceVersion" in request.query:
            return await some(request)
        return web.json_response({"metadata": {"resourceVersion": "49"}, "items": []})

    async def first(request: web.Request) -> web.StreamResponse:
        return await api.stream(request, FIRST)

    api.fault("GET", "/pods", first, *[one] * 200)
    async with watching(api) as (inbox, stats):
        await inbox.until(seen("p49"))
        assert short(inbox.events) == ["Pod", "pods", *(f"p{number}" for number in range(10, 50))]
        assert stats["watch_errors"] >= 10 and "relists" not in stats


async def test_a_trickle_is_read_to_its_end(api: FakeApi) -> None:
    line = event("ADDED", versioned("slow", 30))
    bytes_one_by_one: list[bytes | float] = []
    for byte in line:
        bytes_one_by_one += [bytes([byte]), 0.001]
    api.streams = [FIRST, [*bytes_one_by_one, 3600.0]]
    async with watching(api, idle=5.0) as (inbox, stats):
        await inbox.until(seen("slow"))
        assert "watch_errors" not in stats


async def test_a_huge_object_is_one_event(api: FakeApi) -> None:
    huge = versioned("huge", 30)
    huge["metadata"]["managedFields"] = "x" * 8_000_000
    api.streams = [FIRST, [event("ADDED", huge) + event("ADDED", versioned("next", 31)), 3600.0]]
    async with watching(api) as (inbox, stats):
        await inbox.until(seen("next"))
        assert short(inbox.events)[2:] == ["huge", "next"] and "watch_errors" not in stats


async def test_a_server_that_never_answers_a_watch_is_asked_again(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.kube.client.OPENING", 0.1)
    api.fault("GET", "/pods", silence)
    api.streams = [FIRST]
    client = ApiClient(api.access, request_timeout=0.2)
    inbox, stats = ListInbox(), dict[str, int]()
    reflector = Reflector(
        client, translate.PODS, inbox, SyncGate((translate.PODS,)), stats, backoff=(0.001, 0.01)
    )
    running = asyncio.create_task(reflector.run())
    await inbox.until(seen("pods"))
    assert stats["watch_errors"] >= 1  # a slow machine may have been silent, too
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.close()


async def test_a_watch_that_ends_at_once_is_not_opened_without_a_pause(api: FakeApi) -> None:
    api.streams = [FIRST, *[[]] * 50]
    async with watching(api, backoff=(0.05, 0.05)) as (inbox, stats):
        await inbox.until(lambda _: stats.get("watch_errors", 0) >= 4)
    # One watch and one question after the server's version for each fault that was counted.
    assert len(watches(api)) <= stats["watch_errors"] + 1


async def test_F24_a_watch_waits_as_long_as_the_server_asks(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    pause = Reflector._pause

    def noted(self: Reflector, error: Exception) -> float:
        pauses.append(pause(self, error))
        return 0.0

    monkeypatch.setattr(Reflector, "_pause", noted)
    api.fault("GET", "/pods", answers(429, **{"Retry-After": "7"}), answers(503, **{"Retry-After": "3600"}))
    api.streams = [FIRST]
    async with watching(api) as (inbox, _):
        await inbox.until(seen("pods"))
    assert 7 <= pauses[0] <= 8.4 and 60 <= pauses[1] <= 72


async def test_L3_events_that_come_twice_are_passed_on_and_known_by_their_version(api: FakeApi) -> None:
    line = event("ADDED", versioned("p", 10))
    api.streams = [FIRST, [line + line, 3600.0]]
    async with watching(api) as (inbox, _):
        await inbox.until(lambda events: short(events).count("p") == 2)
        first, second = inbox.events[2:]
        assert first == second  # the engine drops what is not newer


# -- objects that cannot be read ---------------------------------------------------------------------


async def test_a_line_that_is_no_json_is_passed_by_with_a_list(api: FakeApi) -> None:
    poison = b"not json\n"
    api.streams = [
        FIRST, [poison], [poison], [poison],
        [poison, event("ADDED", versioned("a", 20)), bookmark(21, end=True)],
        [event("ADDED", versioned("later", 22)), 3600.0],
    ]  # fmt: skip
    async with watching(api) as (inbox, stats):
        await inbox.until(seen("later"))
        assert short(inbox.events)[2:] == ["a", "Pod", "later"]
        assert stats["unreadable"] == 1 and stats["watch_errors"] == 3


async def test_what_cannot_be_read_is_not_taken_for_gone(api: FakeApi) -> None:
    job = {"metadata": {"name": "j", "namespace": "n", "uid": "u", "resourceVersion": "5"}}
    odd = {**job, "spec": {"parallelism": "many"}}
    api.streams = [
        [event("ADDED", job), bookmark(7, end=True)],
        [event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})],
        [event("ADDED", odd), bookmark(9, end=True)],
    ]
    async with watching(api, translate.JOBS) as (inbox, stats):
        await inbox.until(lambda events: [e for e in events if isinstance(e, Listed) and e.version == 9])
        assert sum(isinstance(each, OwnerSeen) for each in inbox.events) == 1
        assert inbox.events[-1] == Listed("Job", ("u",), 9)
        assert stats["unreadable"] == 1


async def test_pages_name_what_cannot_be_read(api: FakeApi) -> None:
    api.fault("GET", "/jobs", answers(422))
    odd = {"metadata": {"name": "j", "uid": "u", "resourceVersion": "5"}, "spec": {"parallelism": "many"}}
    api.pages = [[odd]]
    async with watching(api, translate.JOBS) as (inbox, _):
        await inbox.until(seen("owners"))
        assert inbox.events[0] == Listed("Job", ("u",), 500)


async def test_what_was_deleted_while_a_list_came_in_is_not_in_it(api: FakeApi) -> None:
    thing = versioned("a", 5)
    api.streams = [[event("ADDED", thing), event("DELETED", versioned("a", 6)), bookmark(7, end=True)]]
    async with watching(api) as (inbox, _):
        await inbox.until(seen("pods"))
        assert inbox.events[0] == Listed("Pod", (), 7)


# -- what is kept of waiting pods --------------------------------------------------------------------


def test_the_shape_book_knows_since_when() -> None:
    small, large = Shape(requests=(("cpu", 1),)), Shape(requests=(("cpu", 2),))

    def at(version: int, shape: Shape, **other: Any) -> PodSeen:
        return PodSeen(Pod("u", "ns", "p", version, shape, **{"scheduler": "fairlead", **other}))

    book = ShapeBook("fairlead")
    book.learn(at(10, small))
    book.learn(at(12, small))
    assert book.planned("u", 10) == book.planned("u", 12) == small
    book.learn(at(14, large))
    assert book.planned("u", 14) == large
    assert book.planned("u", 12) not in (small, large)
    book.learn(at(15, large, node="n"))
    assert book.planned("u", 15) is None
    book.learn(at(16, small, scheduler="other"))
    assert book.planned("u", 16) is None
    book.learn(at(17, small))
    book.learn(Listed("Pod", (), 20))
    assert book.planned("u", 17) is None
    book.learn(at(30, large))
    book.learn(Rewound("Pod"))
    book.learn(at(9, small))
    assert book.planned("u", 9) == small


def test_what_the_watches_count_is_a_metric() -> None:
    registry = CollectorRegistry()
    registry.register(Tally({"events": 7, "watch_errors": 2, "unreadable": 1}))
    text = generate_latest(registry).decode()
    assert {line for line in text.splitlines() if not line.startswith("#")} == {
        "fairlead_watch_events_total 7.0", "fairlead_watch_errors_total 2.0",
        "fairlead_watch_silences_total 0.0", "fairlead_watch_relists_total 0.0",
        "fairlead_watch_rewinds_total 0.0", "fairlead_watch_unreadable_total 1.0",
    }  # fmt: skip


def test_bookmarks_of_the_real_server_are_read() -> None:
    line = bookmark(5, end=True).strip()
    assert json.loads(line)["object"]["spec"] == {"containers": None}


# -- what surrounds pods -----------------------------------------------------------------------------


async def test_a_kind_that_the_server_does_not_know_has_no_objects_until_it_does(api: FakeApi) -> None:
    devices = next(kind for kind in things.THINGS if kind.name == "DeviceClass")
    claims = next(kind for kind in things.THINGS if kind.name == "PersistentVolumeClaim")
    claim = {"metadata": {"name": "data", "namespace": "a", "uid": "u", "resourceVersion": "5"}}
    api.fault("GET", devices.path, answers(404), answers(404))
    api.streams.append([event("ADDED", claim), bookmark(9, end=True)])
    async with watching(api, claims, devices, absent=0.01) as (inbox, stats):
        await inbox.until(lambda events: Synced("surroundings") in events)
        await inbox.until(lambda _: any(each.get("resourceVersion") == "9" for each in api.queries))
        api.streams.append([bookmark(12, end=True)])
        await inbox.until(lambda events: Listed("DeviceClass", (), 12) in events)
    assert stats["absent_DeviceClass"] >= 2
    assert Listed("PersistentVolumeClaim", ("u",), 9) in inbox.events
    assert inbox.events.count(Synced("surroundings")) == 1


async def test_a_kind_that_every_server_has_is_asked_for_until_it_is_there(api: FakeApi) -> None:
    claims = next(kind for kind in things.THINGS if kind.name == "PersistentVolumeClaim")
    api.fault("GET", claims.path, answers(404))
    api.streams.append([bookmark(9, end=True)])
    async with watching(api, claims) as (inbox, stats):
        await inbox.until(lambda events: Synced("surroundings") in events)
    assert stats["watch_errors"] == 1 and "absent_PersistentVolumeClaim" not in stats
