"""A start whose bind has an unknown fate is revoked before its place is given up."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asking_support import gang, node

from fairlead.kube.actuate import Actuator
from fairlead.kube.client import ApiClient
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.command import REVOKED, Bind, ObjectRef, Revoke
from fairlead.model.event import BindError, BindFailed
from fairlead.sim.world import Faults, World
from kube_fake import FakeApi, ListInbox, answers, pod


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


async def _perform(api: FakeApi, stat: str, *commands: cmd.Command, **options: Any) -> ListInbox:
    client, inbox = ApiClient(api.access), ListInbox()
    actuator = Actuator(client, pod_events=False, **options)
    actuator.attach(inbox)
    actuator.perform(commands)
    await inbox.until(lambda _: actuator.stats.get(stat, 0) >= 1)
    await actuator.close()
    await client.close()
    return inbox


REF = ObjectRef("Pod", "default", "p", "uid-default-p", 10)


async def test_a_binding_that_comes_after_its_revocation_fails(api: FakeApi) -> None:
    api.add(pod("p"))
    await _perform(api, "revoke_written", Revoke(REF, "plan/g"))
    assert api.pods["default", "p"]["metadata"]["annotations"][REVOKED] == "plan/g"
    late = Bind("plan/g", REF.uid, "default", "p", "n1", 10)
    inbox = await _perform(api, "bind_changed", late)
    assert next(e for e in inbox.events if isinstance(e, BindFailed)).error is BindError.CHANGED
    assert not api.pods["default", "p"]["spec"].get("nodeName")


async def test_another_pod_of_the_name_is_not_revoked(api: FakeApi) -> None:
    api.add(pod("p", uid="another"))
    await _perform(api, "revoke_gone", Revoke(REF, "plan/g"))
    assert REVOKED not in api.pods["default", "p"]["metadata"].get("annotations", {})


async def test_overload_does_not_lose_a_revocation(api: FakeApi) -> None:
    api.add(pod("p"))
    api.fault("PATCH", "/p", answers(429, **{"Retry-After": "0"}), answers(503))
    await _perform(api, "revoke_written", Revoke(REF, "plan/g"))
    assert api.pods["default", "p"]["metadata"]["annotations"][REVOKED] == "plan/g"


async def test_nothing_is_revoked_when_the_fence_is_down(api: FakeApi) -> None:
    api.add(pod("p"))
    await _perform(api, "revoke_failed", Revoke(REF, "plan/g"), fence=lambda: False)
    assert REVOKED not in api.pods["default", "p"]["metadata"].get("annotations", {})


class Lost(Faults):
    """The first binds end with the errors given; one of unknown fate arrives after `late` milliseconds."""

    def __init__(self, *errors: BindError, late: int = 0) -> None:
        self.errors, self.late = list(errors), late

    def bind(self, _: cmd.Bind) -> ev.BindError | None:
        return self.errors.pop(0) if self.errors else None

    def unknown_took_effect(self, _: cmd.Bind) -> bool:
        return bool(self.late)

    def unknown_delay(self, _: cmd.Bind) -> int:
        return self.late


def test_the_place_is_held_until_the_revocation_is_seen() -> None:
    world = World(faults=Lost(BindError.UNKNOWN, BindError.REFUSED, late=1_500))
    revokes: list[cmd.Revoke] = []
    world._revoke = revokes.append  # type: ignore[method-assign]  # the API server is away
    world.node(node("n0", cpu=1))
    gang(world, "a", 1, cpu=1)
    world.run(1_400)
    assert len(revokes) == 1 and "a-0" in world.engine.state.intents
    world.run(30_000)  # the late one arrived: there was no other in its place
    assert world.pods["a-0"].node == "n0" and not world.engine.state.intents


def test_it_is_asked_for_again_until_it_is_seen() -> None:
    world = World(faults=Lost(BindError.UNKNOWN, BindError.REFUSED))
    carry_out, asked = world._revoke, []

    def second_time(revoke: cmd.Revoke) -> None:
        asked.append(world.now)
        if len(asked) > 1:
            carry_out(revoke)

    world._revoke = second_time  # type: ignore[method-assign]
    world.node(node("n0", cpu=1))
    gang(world, "a", 1, cpu=1)
    world.run(60_000)
    assert len(asked) == 2 and asked[1] - asked[0] >= world.settings.request_timeout
    assert world.pods["a-0"].node == "n0"


def test_a_start_that_an_earlier_process_had_begun_is_revoked_before_it_is_given_up() -> None:
    """A bind that the killed process had sent comes later than everything the new one does."""
    world = World(faults=Lost(BindError.UNKNOWN, BindError.REFUSED, late=14_000))
    world.node(node("n0", cpu=1))
    gang(world, "a", 1, cpu=1)
    world.run(10)
    world.crash()
    world.start()
    world.run(60_000)
    assert [c.grant for _, c in world.log if isinstance(c, Revoke)] == [
        c.grant for _, c in world.log if isinstance(c, Bind)
    ][:1]
    assert world.pods["a-0"].node == "n0" and not world.engine.state.intents
