"""Memory that is free goes back to the system, and only when there is nothing else to do."""

import asyncio
import ctypes

import psutil
import pytest

from fairlead.model.command import Command, SaveGroups, WakeAt
from fairlead.runtime.memory import Thrift, give_back

MIB = 1 << 20


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc")
def test_what_lies_free_between_what_lives_goes_back() -> None:
    process = psutil.Process()
    blocks = [b"x" * 50_000 for _ in range(2000)]
    lives = [block for number, block in enumerate(blocks) if number % 10 == 9]
    del blocks
    before = process.memory_info().rss
    give_back()
    assert process.memory_info().rss < before - 40 * MIB
    assert all(set(block) == {ord("x")} for block in lives)


def test_nothing_goes_back_while_there_is_something_to_do_and_nothing_twice() -> None:
    given: list[str] = []
    thrift = Thrift(lambda: given.append("back"))
    work: list[Command] = [WakeAt(2), SaveGroups(())]
    said: list[list[Command]] = [work, [WakeAt(1)], [], work, work, [], [WakeAt(1)]]
    told: list[int] = []
    for commands in said:
        thrift.batch([], commands, 0.0)
        thrift.look()
        told.append(len(given))
    assert told == [0, 1, 1, 1, 1, 2, 2]


def test_what_the_start_took_goes_back() -> None:
    given: list[str] = []
    Thrift(lambda: given.append("back")).look()
    assert given == ["back"]


async def test_it_looks_again_and_again() -> None:
    given: list[str] = []
    enough = asyncio.Event()
    work: list[Command] = [SaveGroups(())]

    def give() -> None:
        given.append("back")
        thrift.batch([], work, 0.0)
        if len(given) == 3:
            enough.set()

    thrift = Thrift(give, quiet=0.001)
    task = asyncio.create_task(thrift.run())
    await asyncio.wait_for(enough.wait(), 30)
    task.cancel()
