"""The elector: taken, renewed, lost, released, by the candidate's own clock; and never two at a time."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fairlead.kube.access import check_access, to_elect
from fairlead.kube.client import ApiClient
from fairlead.kube.errors import KubeError
from fairlead.kube.lease import DRIFT, ApiLeases, Elector, Lease, Spec, Timing
from kube_fake import FakeApi, answers, status
from lease_world import Process, Server, World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def server(world: World) -> Server:
    return Server(world)


# -- one candidate ---------------------------------------------------------------------------------------


def test_RA3_a_lease_that_nobody_has_is_taken(world: World, server: Server) -> None:
    one = Process(world, server, "one").begin()
    assert one.elector.standing == "standby: nobody leads yet"
    world.run(1)
    spec = server.spec
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("one", 15, 1)
    assert spec.acquire_time == spec.renew_time and spec.renew_time
    assert one.elector.standing == "" and one.elector.leader == "one"


def test_RA3_the_time_of_a_lease_counts_from_before_the_request(world: World, server: Server) -> None:
    server.delays = lambda: (0.0, 1.0)
    one = Process(world, server, "one").begin()
    world.run(1.9)
    assert one.allowed == 0.0  # a second for the look, another for the answer to the write, sent at 1.0
    world.run(2.0)
    assert one.allowed == pytest.approx(15 * (1 - DRIFT) - 1.0)
    world.run(3.0)
    assert one.allowed == pytest.approx(15 * (1 - DRIFT) - 2.0)


def test_RA3_it_is_renewed_as_long_as_it_lives(world: World, server: Server) -> None:
    one = Process(world, server, "one").begin()
    lowest = [15.0]
    world.after = lambda: lowest.append(one.allowed if world.now > 1 else 15.0)
    world.run(100)
    assert min(lowest) > 12 and one.lives == []
    assert len({spec.renew_time for spec in server.history}) > 1 or len(server.history) > 45
    assert {spec.lease_transitions for spec in server.history} == {1}
    assert len({spec.acquire_time for spec in server.history}) == 1


def test_RA3_what_others_put_into_the_object_stays(world: World, server: Server) -> None:
    metadata = {"name": "fairlead", "resourceVersion": "7", "labels": {"team": "hpc"}}
    server.lease, server.version = Lease(metadata, Spec()), 7
    seen: list[dict[str, Any]] = []
    one = Process(world, server, "one")
    update = one.line.update

    async def spy(lease: Lease, timeout: float) -> Lease:
        seen.append(lease.metadata)
        return await update(lease, timeout)

    one.line.update = spy  # type: ignore[method-assign]
    one.begin()
    world.run(1)
    assert seen == [metadata]


# -- two of them -----------------------------------------------------------------------------------------


def test_RA3_expiry_counts_only_from_ones_own_observation(world: World, server: Server) -> None:
    """However old the times in the record look: somebody's clock may be wrong by years."""
    ancient = "2001-01-01T00:00:00.000000Z"
    server.write(Spec("dead", 15, ancient, ancient, 3))
    one = Process(world, server, "one", offset=1e9).begin()
    world.run(14.9)
    assert server.spec.holder_identity == "dead" and one.allowed == 0.0
    assert one.elector.standing == "standby: dead leads"
    world.run(15 + 2)
    assert server.spec.holder_identity == "one" and server.spec.lease_transitions == 4


def test_RA3_the_holder_says_how_long_its_lease_is(world: World, server: Server) -> None:
    server.write(Spec("slow", 40, "a", "a", 0))
    Process(world, server, "one").begin()
    world.run(39.9)
    assert server.spec.holder_identity == "slow"
    world.run(42)
    assert server.spec.holder_identity == "one"


@pytest.mark.parametrize("offset", [-1e9, 3600.0, 1e9])
def test_RA3_wrong_clocks_of_others_do_no_harm(offset: float, world: World, server: Server) -> None:
    one = Process(world, server, "one").begin()
    world.run(1)
    two = Process(world, server, "two", offset=offset).begin()
    world.run(200)
    assert one.lives == [] and one.allowed and not two.allowed
    assert two.elector.standing == "standby: one leads"


def test_RA3_killed_another_leads_within_lease_and_five_seconds(world: World, server: Server) -> None:
    Process(world, server, "one").begin()
    world.run(1)
    two = Process(world, server, "two", draw=lambda: 0.999).begin()
    world.run(50)
    world.kill("one")
    world.run(50 + 15 - 2 - 0.1)
    assert not two.allowed
    world.run(50 + 15 + 5)
    assert two.allowed and server.spec.lease_transitions == 2


def test_RA3_a_released_lease_is_taken_at_once(world: World, server: Server) -> None:
    one = Process(world, server, "one").begin()
    world.run(1)
    two = Process(world, server, "two").begin()
    world.run(20)
    world.kill("one")  # its renewals; what follows is the end of the same process
    world.begin("end of one", one.elector.release())
    world.run(20.1)
    assert one.allowed == 0.0
    assert (server.spec.holder_identity, server.spec.lease_duration_seconds) == (None, 1)
    world.run(20 + 2 * 2.2)
    assert two.allowed and server.spec.holder_identity == "two"


def test_RA3_only_the_holder_releases(world: World, server: Server) -> None:
    Process(world, server, "one").begin()
    two = Process(world, server, "two").begin()
    world.run(5)
    world.kill("two")
    world.begin("end of two", two.elector.release())
    world.run(6)
    assert server.spec.holder_identity == "one"


def test_RA3_a_release_after_a_renewal_that_was_cut_off(world: World, server: Server) -> None:
    """The renewal did arrive: the record is another than the one last read, but ours."""
    one = Process(world, server, "one").begin()
    world.run(1)
    server.write(msgspec.structs.replace(server.spec, renew_time="later"))
    world.kill("one")
    world.begin("end of one", one.elector.release())
    world.run(2)
    assert server.spec.holder_identity is None


# -- losing it -------------------------------------------------------------------------------------------


def test_RA3_without_renewal_it_steps_down_before_the_lease_is_over(world: World, server: Server) -> None:
    one = Process(world, server, "one").begin()
    world.run(10)
    server.away = True
    world.run(10 + 13)
    assert one.lives and "not renewed" in one.lives[0]
    assert one.allowed == 0.0
    server.away = False
    world.run(40)
    assert one.allowed  # it is still the holder, and begins anew at once
    assert server.spec.lease_transitions == 1


def test_RA3_it_steps_down_when_another_holds_the_lease(world: World, server: Server) -> None:
    one = Process(world, server, "one").begin()
    world.run(10)
    server.write(Spec("two", 15, "b", "b", 9))
    world.run(12.5)
    assert one.lives == ["two holds the lease"]
    assert one.elector.standing == "standby: two leads"


def test_RA3_stopped_and_woken_it_may_write_nothing_from_the_first_moment(
    world: World, server: Server
) -> None:
    one = Process(world, server, "one").begin()
    world.run(1)
    two = Process(world, server, "two").begin()
    world.run(20)
    world.stop("one", 30)
    both: list[float] = []
    world.after = lambda: both.append(min(one.allowed, two.allowed))
    world.run(49.9)
    assert two.allowed and one.allowed == 0.0 and one.lives == []  # it has not even run yet
    world.run(60)
    assert max(both) == 0.0
    assert one.lives == ["two holds the lease"]


def test_RA3_stopped_while_nobody_took_over_it_goes_on(world: World, server: Server) -> None:
    one = Process(world, server, "one").begin()
    world.run(5)
    world.stop("one", 300)
    world.run(304)
    assert one.allowed == 0.0
    world.run(310)
    assert one.allowed and one.lives == [] and server.spec.lease_transitions == 1


def test_RA3_a_lease_that_was_deleted_is_made_anew_by_its_holder_only(world: World, server: Server) -> None:
    one = Process(world, server, "one").begin()
    world.run(1)
    two = Process(world, server, "two").begin()
    world.run(20)
    both: list[float] = []
    world.after = lambda: both.append(min(one.allowed, two.allowed))
    server.delete()
    world.run(60)
    assert server.spec.holder_identity == "one" and one.lives == [] and max(both) == 0.0


def test_RA3_a_conflict_is_looked_at_again_at_once(world: World, server: Server) -> None:
    """Somebody annotates the Lease: its version is another, its holder is not."""
    one = Process(world, server, "one").begin()
    world.run(10)
    assert server.lease is not None
    server.version += 1
    server.lease = msgspec.structs.replace(
        server.lease, metadata={**server.lease.metadata, "resourceVersion": str(server.version)}
    )
    world.run(13)
    assert one.allowed > 12 and one.lives == []


# -- never two -------------------------------------------------------------------------------------------


def test_RA3_stopped_at_any_moment_its_time_is_over_before_another_leads() -> None:
    """The closest it can get: the other one looks right after the last renewal, and when it is over."""
    for phase, moment in itertools.product(range(0, 20, 3), range(0, 20, 3)):
        world = World()
        server = Server(world)
        server.delays = lambda: (0.0, 0.0)
        one = Process(world, server, "one").begin()
        world.run(1 + phase / 10)
        two = Process(world, server, "two", draw=lambda: 0.0).begin()
        world.run(20 + moment / 10)
        world.stop("one", 1000)
        ends: list[float] = []
        world.after = lambda one=one, two=two, ends=ends: ends.append(one.allowed if two.allowed else 0.0)
        left = one.allowed
        world.run(world.now + 40)
        assert two.allowed and max(ends) == 0.0, (phase, moment, left, max(ends))
        world.close()


@st.composite
def troubles(draw: st.DrawFn) -> list[tuple[float, str, int, float]]:
    """(at, what, whom, how long): processes stopped, cut off and killed, the server away."""
    one = st.tuples(
        st.floats(1, 150),
        st.sampled_from(["stop", "cut", "away", "kill"]),
        st.integers(0, 2),
        st.floats(0.1, 40),
    )
    return sorted(draw(st.lists(one, max_size=8)))


@given(
    troubles=troubles(),
    clocks=st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0.996, 1.004)), min_size=3, max_size=3),
    chance=st.randoms(use_true_random=False),
    slow=st.floats(0.0, 8.0),
)
@settings(max_examples=30, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_RA3_never_two_that_may_write(
    troubles: list[tuple[float, str, int, float]],
    clocks: list[tuple[float, float]],
    chance: Any,
    slow: float,
) -> None:
    world = World()
    server = Server(world)
    server.delays = lambda: (chance.random() ** 4 * slow, chance.random() ** 4 * slow)
    them = [
        Process(world, server, f"p{i}", offset=offset, rate=rate, draw=chance.random).begin()
        for i, (offset, rate) in enumerate(clocks)
    ]
    killed: set[str] = set()

    def at_most_one() -> None:
        free = [each.name for each in them if each.allowed and each.name not in killed]
        assert len(free) <= 1, (world.now, free)

    world.after = at_most_one
    for at, what, whom, seconds in troubles:
        world.run(max(at, world.now))
        one = them[whom]
        match what:
            case "stop":
                world.stop(one.name, seconds)
            case "cut":
                one.line.cut = not one.line.cut
            case "away":
                server.away = not server.away
            case _:
                world.kill(one.name)
                killed.add(one.name)
    server.away = False
    for each in them:
        each.line.cut = False
    slow = 0.0
    server.delays = lambda: (0.01, 0.01)
    world.run(world.now + 41)  # nobody is stopped any more
    world.run(world.now + 15 + 5)
    if len(killed) < len(them):
        alive = [each for each in them if each.name not in killed]
        assert sum(each.allowed > 0 for each in alive) == 1
    transitions = [spec.lease_transitions or 0 for spec in server.history]
    assert transitions == sorted(transitions)
    world.close()


# -- times, rights, and the real objects -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("timing", "named"),
    [
        (Timing(10, 10, 2), "--lease-duration"),
        (Timing(15, 2.4, 2), "--renew-deadline"),
        (Timing(15, 10, 0), "--retry-period"),
        (Timing(0.5, 0.4, 0.1), "whole seconds"),
        (Timing(2.5, 2, 0.1), "whole seconds"),
    ],
)
def test_RA3_times_that_cannot_work_are_refused(timing: Timing, named: str) -> None:
    with pytest.raises(KubeError, match=named):
        timing.check()
    Timing().check()


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


async def test_RA3_the_requests_are_those_of_the_lease_api(api: FakeApi) -> None:
    kept: dict[str, Any] = {}

    async def missing(_: web.Request) -> web.StreamResponse:
        return status(404, "NotFound")

    async def keep(request: web.Request) -> web.StreamResponse:
        kept.update(await request.json())
        kept["metadata"] = {**kept["metadata"], "resourceVersion": "5", "uid": "u"}
        return web.json_response(kept)

    client = ApiClient(api.access)
    leases = ApiLeases(client, "hpc", "fairlead")
    api.fault("GET", "/namespaces/hpc/leases/fairlead", missing)
    api.fault("POST", "/apis/coordination.k8s.io/v1/namespaces/hpc/leases", keep)
    api.fault("PUT", "/apis/coordination.k8s.io/v1/namespaces/hpc/leases/fairlead", keep)
    assert await leases.get(1) is None
    made = await leases.create(Spec("one", 15, "a", "b", 1), 1)
    (body,) = api.sent("POST")
    assert (body["kind"], body["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert body["metadata"] == {"name": "fairlead", "namespace": "hpc"}
    assert body["spec"] == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": "a",
        "renewTime": "b",
        "leaseTransitions": 1,
    }
    await leases.update(made, 1)
    assert api.sent("PUT")[0]["metadata"]["resourceVersion"] == "5"
    await client.close()


async def test_RA3_an_elector_on_real_time_takes_holds_and_releases(api: FakeApi) -> None:
    kept: list[dict[str, Any]] = []

    async def keep(request: web.Request) -> web.StreamResponse:
        kept.append(await request.json())
        return web.json_response(kept[-1])

    api.fault("GET", "/leases/fairlead", answers(404))
    api.fault("POST", "/leases", keep)
    api.fault("PUT", "/leases/fairlead", *(keep for _ in range(5)))
    client = ApiClient(api.access)
    elector = Elector(ApiLeases(client, "hpc", "fairlead"), Timing(60, 30, 0.02))
    waiting = asyncio.create_task(elector.until_led())
    await elector.acquire()
    await waiting
    assert 0 < elector.allowed() <= 60
    holding = asyncio.create_task(elector.hold())
    while len(kept) < 3:
        await asyncio.sleep(0.005)
    holding.cancel()
    await asyncio.gather(holding, return_exceptions=True)
    api.fault("GET", "/leases/fairlead", lambda _: _answer(kept[-1]))
    await elector.release()
    assert "holderIdentity" not in kept[-1]["spec"] and elector.allowed() == 0.0
    await client.close()


async def _answer(body: dict[str, Any]) -> web.StreamResponse:
    return web.json_response(body)


async def test_RA3_the_right_to_keep_leases_is_asked_for_in_its_namespace(api: FakeApi) -> None:
    async def judge(request: web.Request) -> web.StreamResponse:
        wanted = (await request.json())["spec"]["resourceAttributes"]
        allowed = wanted["resource"] != "leases" or wanted["verb"] == "get"
        return web.json_response({"status": {"allowed": allowed}})

    client = ApiClient(api.access)
    api.fault("POST", "/selfsubjectaccessreviews", *(judge for _ in range(200)))
    await check_access(client)
    with pytest.raises(KubeError) as refused:
        await check_access(client, to_elect("hpc"))
    assert "create leases.coordination.k8s.io, update leases" in str(refused.value)
    assert "namespace hpc" in str(refused.value) and "--lease-namespace" in str(refused.value)
    await client.close()
