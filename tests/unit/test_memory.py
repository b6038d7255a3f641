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


def test_nothing_goes_back_while_there_is_something_to_do() -> None:
    given: list[str] = []
    thrift = Thrift(lambda: given.append("back"))
    said: list[list[Command]] = [[SaveGroups(())], [WakeAt(1)], [], [WakeAt(2), SaveGroups(())]]
    told: list[int] = []
    for commands in said:
        thrift.batch([], commands, 0.0)
        thrift.look()
        told.append(len(given))
    assert told == [0, 1, 2, 2]


async def test_it_looks_again_and_again() -> None:
    given: list[str] = []
    enough = asyncio.Event()

    def give() -> None:
        given.append("back")
        if len(given) == 3:
            enough.set()

    task = asyncio.create_task(Thrift(give, quiet=0.001).run())
    await asyncio.wait_for(enough.wait(), 30)
    task.cancel()
