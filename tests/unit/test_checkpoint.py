"""A checkpoint holds what it should and nothing that could run; a child that makes one harms nobody."""

import os
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from fairlead.control import RECONCILERS
from fairlead.core.engine import Engine
from fairlead.model import event as ev
from fairlead.model.layout import NO_LAYOUT
from fairlead.model.pod import Pod, Shape
from fairlead.model.preferences import NO_PREFERENCES
from fairlead.model.rules import NO_RULES
from fairlead.model.settings import Settings
from fairlead.runtime import checkpoint, forked
from fairlead.runtime.checkpoint import CheckpointError
from fairlead.runtime.shared import Shared


def told(*pods: Pod) -> Engine:
    engine = Engine(Settings(sources=()), RECONCILERS)
    engine.learn([ev.Tick(1_000), ev.StoreReady(1), *map(ev.PodSeen, pods)])
    return engine


def ours(uid: str) -> Pod:
    shape = Shape((("cpu", 1000), ("pods", 1)))
    return Pod(uid, "default", uid, 1, shape, scheduler="fairlead")


def test_RB4_what_there_is_once_is_there_once_after_a_restore():
    pod = ours("a")
    shared = Shared()
    found = checkpoint.load(checkpoint.dump(told(pod), {}), RECONCILERS, shared).engine.state
    again = found.pods["a"]
    assert again == pod
    assert again.wishes is NO_PREFERENCES
    assert again.shape.rules is NO_RULES
    assert all(group.layout is NO_LAYOUT for group in found.groups.values())
    assert found.groups
    later = shared.event(ev.PodSeen(ours("b")))
    assert isinstance(later, ev.PodSeen)
    assert later.pod.shape is again.shape


class Harmful:
    def __init__(self, made: Callable[..., object], *args: object) -> None:
        self.made = made, args

    def __reduce__(self) -> object:
        return self.made


@pytest.mark.parametrize(
    "made",
    [
        Harmful(os.system, "true"),
        Harmful(eval, "1"),
        Harmful(getattr, 1, "real"),
        Harmful(__import__, "os"),
        Harmful(checkpoint.load, b"", (), None),
    ],
)
def test_RB4_a_checkpoint_can_make_nothing_but_nouns_and_state(made: Harmful):
    body = zlib.compress(pickle.dumps((checkpoint.FORMAT, {"state": made}, {})))
    with pytest.raises(CheckpointError, match="may not be in a checkpoint"):
        checkpoint.load(body, RECONCILERS, Shared())


@pytest.mark.parametrize(
    "name",
    [
        ("fairlead.core.engine", "Engine.learn"),
        ("fairlead.core.cycle", "plan_now"),
        ("fairlead.core.picture", "Snapshot.__init__"),
        ("fairlead.core.inventory", "np"),
        ("fairlead.runtime.forked", "Forked"),
        ("fairlead.model", "event"),
    ],
)
def test_RB4_nor_functions_modules_or_parts_of_classes(name: tuple[str, str]):
    module, attribute = (part.encode() for part in name)
    body = b"\x80\x04\x8c" + bytes([len(module)]) + module + b"\x8c" + bytes([len(attribute)]) + attribute
    with pytest.raises(CheckpointError, match="may not be in a checkpoint"):
        checkpoint.load(zlib.compress(body + b"\x93."), RECONCILERS, Shared())


@pytest.mark.parametrize("body", [b"", b"nothing", zlib.compress(b"nothing"), zlib.compress(b"\x80\x05N.")])
def test_RB4_what_is_no_checkpoint_is_told_in_a_line(body: bytes):
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        checkpoint.load(body, RECONCILERS, Shared())


def test_RB4_a_checkpoint_of_another_format_is_refused():
    body = zlib.compress(pickle.dumps(("fairlead-checkpoint/0", {}, {})))
    with pytest.raises(CheckpointError, match="format 'fairlead-checkpoint/0'"):
        checkpoint.load(body, RECONCILERS, Shared())


# -- the child -----------------------------------------------------------------------------------------


async def test_RB4_a_child_sees_everything_as_it_was():
    seen = [1]
    child = forked.start(lambda: bytes(seen) * 1_000_000)
    seen[0] = 2
    assert await child.result(60) == b"\x01" * 1_000_000


async def test_RB4_what_a_child_stumbles_over_is_told():
    def fail() -> bytes:
        raise ValueError("no such thing")

    with pytest.raises(forked.ForkError, match="ValueError: no such thing"):
        await forked.start(fail).result(60)


async def test_RB4_a_child_that_hangs_or_dies_is_ended():
    inward, outward = os.pipe()

    def hang() -> bytes:
        while True:
            pass

    child = forked.start(hang)
    with pytest.raises(forked.ForkError, match=r"not done after 0\.05 s"):
        await child.result(0.05)
    child.kill()
    with pytest.raises(forked.ForkError):
        await forked.start(lambda: os.kill(os.getpid(), 9) or b"").result(60)
    os.close(outward)
    assert os.read(inward, 1) == b""  # nobody else holds the other end
    os.close(inward)


async def test_RB4_a_child_has_nothing_of_the_parent_open():
    inward, outward = os.pipe()

    def held() -> bytes:
        return ",".join(each.name for each in Path("/proc/self/fd").iterdir()).encode()

    body = await forked.start(held).result(60)
    assert len(body.split(b",")) == 2  # its pipe, and the folder that is being listed
    os.close(inward)
    os.close(outward)
