"""The ledger on the embedded PostgreSQL and on a real one: what is put is there, whole, once, in order."""

import asyncio
from typing import Any

import pytest
from ledger_support import NOON, asked, change, changes, node, numbers, pod, writing
from store_support import until

from fairlead.model.event import Listed, Rewound
from fairlead.model.record import Change, Loaded, Part, Source
from fairlead.recorder.book import Book
from fairlead.store.errors import FencedError, StoreError
from fairlead.store.ledger import Ledger
from fairlead.wire.life import NodeFact, PodFact


def ledger(url: str, **values: Any) -> Ledger:
    return Ledger(**{"url": url, "now": lambda: NOON, "flush_every": 5} | values)


async def test_RB1_events_are_rows_of_a_database(either: str) -> None:
    whole = Change(
        "Pod",
        "Filter",
        NOON - 7,
        NOON,
        Source.EXTENDER,
        "u",
        "ns",
        "p",
        "n1",
        "sniffer",
        17,
        "Unschedulable",
        "0/3 nodes",
        {"candidates": ["a"], "count": 1},
    )
    async with writing(ledger(either)) as door:
        assert door.put(Part((whole, change(2))))
        await door.drained()
        columns = ", ".join(Change.__struct_fields__)
        (first, second) = asked(either, f"SELECT {columns} FROM change ORDER BY seq")
        assert first == (
            "Pod",
            "Filter",
            NOON - 7,
            NOON,
            "extender",
            "u",
            "ns",
            "p",
            "n1",
            "sniffer",
            17,
            "Unschedulable",
            "0/3 nodes",
            {"candidates": ["a"], "count": 1},
        )
        assert second[7:] == ("pod-2", "", "", 0, "", "", None)
        assert door.written == 2 and door.waiting == 0


async def test_many_parts_are_few_transactions_in_the_order_in_which_they_came(either: str) -> None:
    async with writing(ledger(either)) as door:
        for first in range(0, 30_000, 10):
            assert door.put(changes(first, first + 10))
        await door.drained()
        assert numbers(either) == list(range(30_000))
        (number,) = asked(either, "SELECT number FROM ledger_writer")[0]
        assert number < 10


async def test_what_no_text_of_a_database_holds_is_replaced_and_all_else_kept(either: str) -> None:
    hard = "tab\t line\n return\r back\\slash \x02 \\N \\. ü ⛵ quote\" '"
    texts = ["nul\0", "half \ud83d", hard, "\\.", "\\N", "\x02", "", "line\n\\.\nline"]
    bad = [change(n, message=text, extra={"text": text, text: n}) for n, text in enumerate(texts)]
    bad.append(change(9, extra={"wrong": {1, 2}, "deep": [[{"a\0": "\0"}]]}))
    async with writing(ledger(either)) as door:
        for each in bad:
            assert door.put(Part((each,)))
        door.put(Part((*bad, change(10))))
        await door.drained()
        found = asked(either, "SELECT message, extra FROM change ORDER BY seq")
    replaced = ["nul\ufffd", "half \ufffd", *texts[2:]]
    wanted = [(text, {"text": text, text: n}) for n, text in enumerate(replaced)]
    deep = {"wrong": "{1, 2}", "deep": [[{"a\ufffd": "\ufffd"}]]}
    once = [*wanted, ("", {"wrong": [1, 2], "deep": deep["deep"]})]
    assert found == [*once, *once, ("", None)]


async def test_a_change_that_the_database_refuses_keeps_no_other_out(either: str) -> None:
    async with writing(ledger(either)) as door:
        for number in range(5):
            door.put(changes(number, number + 1))
        door.put(Part((change(5, version=10**30, name="pod-5"), change(6))))
        door.put(Part((change(7, reason="x" * 10**6, extra={"a": "b"}),)))
        door.put(Part((change(8, name="pod-" + "8" * 10**6, at=-(10**40)),)))
        door.put(changes(9, 12))
        await door.drained()
        assert door.dropped == 0
        names = [name for (name,) in asked(either, "SELECT name FROM change ORDER BY seq")]
        assert [name for name in names if len(name) < 10] == [
            f"pod-{n}" for n in range(12) if n != 8
        ] and names[8].startswith("pod-888")
        assert asked(either, "SELECT version FROM change WHERE name = 'pod-5'") == [(2**63 - 1,)]


async def test_what_cannot_even_be_put_into_text_keeps_no_other_out(either: str) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    async with writing(ledger(either)) as door:
        door.put(changes(0, 2))
        door.put(Part((change(2, version=10**5000),)))
        door.put(Part((change(3, message="\0", extra=deep),)))
        door.put(changes(4, 6))
        await door.drained()
        assert numbers(either) == list(range(6)) and door.dropped == 0 and not door.error


async def test_pods_are_one_row_each_as_they_were_said_last(either: str) -> None:
    async with writing(ledger(either)) as door:
        await door.load()
        door.put(Part(pods=(pod(1, 5, phase="Running"), pod(2, 5)), marks={"pods": 5}))
        door.put(Part(pods=(pod(2, 6, phase="Running"), pod(2, 7, phase="Failed", labels={"a": "b"}))))
        await door.drained()
        door.put(Part(pods=(pod(2, 7, phase="Failed", exit_code=3),)))
        await door.drained()
        found = asked(either, "SELECT uid, version, phase, exit_code, labels FROM pod_life ORDER BY uid")
    assert found == [("uid-1", 5, "Running", -1, {}), ("uid-2", 7, "Failed", 3, {})]


async def test_after_a_restored_backup_rows_go_on_at_lower_versions(either: str) -> None:
    def seen(uid: str, version: int, phase: str = "Running") -> PodFact:
        return PodFact(uid, version, "default", uid, created=NOON - 9, phase=phase)

    def here(version: int, cordoned: bool = False) -> NodeFact:
        return NodeFact("n", version, "n", created=NOON - 9, unschedulable=cordoned)

    before = [seen("a", 90), seen("b", 91), seen("c", 92), here(93), Listed("Pod", ("a", "b", "c"), 99)]
    after = [Rewound("Pod"), seen("a", 40), seen("b", 41, "Failed"), Listed("Pod", ("a", "b"), 45)]
    nodes = [Rewound("Node"), here(42, cordoned=True), Listed("Node", ("n",), 45)]
    async with writing(ledger(either)) as door:
        book = Book(await door.load())
        for fact in (*before, *after, *nodes):
            door.put(book.observe(fact, NOON))
        await door.drained()
        found = asked(either, "SELECT uid, version, phase, lost FROM pod_life ORDER BY uid")
        assert found[:2] == [("a", 40, "Running", False), ("b", 41, "Failed", False)] and found[2][3]
        assert asked(either, "SELECT version, unschedulable FROM node_life WHERE until = 0") == [(42, True)]
    async with writing(ledger(either)) as door:
        book = Book(await door.load())
        assert [each.event for each in book.observe(seen("a", 46, "Failed"), NOON).changes] == ["Finished"]
        assert [each.event for each in book.observe(here(47), NOON).changes] == ["Uncordoned"]


async def test_a_recorder_goes_on_from_what_is_open(either: str) -> None:
    kept = pod(1, 5, requests={"cpu": 100}, labels={"a": "ü"}, told={"Ready": 3}, finished=NOON - 1)
    gone, foreign = pod(2, 5, deleted=NOON), pod(3, source=Source.IMPORT)
    old = node(1, 10, until=20)
    new = node(1, 20, version=3, capacity={"cpu": 4000}, taints=("a=b:NoSchedule",), told={"Ready": 1})
    async with writing(ledger(either)) as door:
        assert await door.load() == Loaded()
        assert door.put(Part(pods=(kept, gone, foreign), nodes=(node(1, 10),), marks={"pods": 4, "nodes": 9}))
        assert door.put(Part(nodes=(old, new), marks={"pods": 6}))
    async with writing(ledger(either)) as door:
        assert await door.load() == Loaded({"uid-1": kept}, {"uid-n1": new}, {"pods": 6, "nodes": 9})


async def test_RB1_a_full_buffer_refuses_and_takes_again_when_there_is_room(either: str) -> None:
    door = ledger(either, limit=100)
    assert door.put(changes(0, 60))
    assert not door.put(changes(60, 101))
    assert door.waiting == 60 and door.put(changes(60, 100)) and not door.put(changes(100, 101))
    async with writing(door):
        await door.drained()
        assert door.waiting == 0 and door.put(changes(100, 400))  # larger than the buffer, but alone
        assert not door.put(changes(400, 401))
        await door.drained()
        assert numbers(either) == list(range(400))


async def test_only_a_recorder_writes_what_watches_saw(either: str) -> None:
    async with writing(ledger(either)) as first, writing(ledger(either, role="decisions")) as other:
        await first.load()
        with pytest.raises(ValueError, match="only a recorder"):
            other.put(Part(pods=(pod(1),)))
        with pytest.raises(ValueError, match="only a recorder"):
            await other.load()
        for number in range(50):
            assert first.put(Part((change(number),), (pod(number),), marks={"pods": number}))
            assert other.put(changes(1000 + number, 1001 + number))
        await first.drained()
        await other.drained()
        assert sorted(numbers(either)) == [*range(50), *range(1000, 1050)]
        assert not first.standby and not other.standby


async def test_a_second_recorder_stands_by_and_takes_over(either: str) -> None:
    second = ledger(either)
    async with writing(ledger(either)) as first:
        await first.load()
        first.put(Part((change(1),), (pod(1),), marks={"pods": 1}))
        await first.drained()
        running = asyncio.create_task(second.run())
        await until(lambda: second.standby)
        loading = asyncio.create_task(second.load())
        assert second.put(changes(2, 3))  # doors stay open
        await second.drained()
        assert numbers(either) == [1, 2] and not loading.done() and second.error == ""
    found = await asyncio.wait_for(loading, 60)
    assert found.pods == {"uid-1": pod(1)} and found.marks == {"pods": 1} and not second.standby
    second.put(Part(pods=(pod(1, 2, phase="Running"),)))
    await second.close()
    await running
    assert asked(either, "SELECT phase FROM pod_life") == [("Running",)]


async def test_what_watches_saw_is_waited_for_though_doors_overtake_it(either: str) -> None:
    second = ledger(either)
    async with writing(ledger(either)) as first:
        await first.load()
        running = asyncio.create_task(second.run())
        await until(lambda: second.standby)
        second.put(Part((change(1),), (pod(1),), marks={"pods": 1}))
        drained = asyncio.create_task(second.drained())
        second.put(changes(2, 12))
        await until(lambda: len(numbers(either)) == 10 and second.written == 10)
        await asyncio.sleep(0)
        assert not drained.done()
    await asyncio.wait_for(drained, 60)
    assert len(numbers(either)) == 11
    await second.close()
    await running


async def test_who_was_overtaken_writes_nothing_that_its_watches_saw(either: str) -> None:
    first = ledger(either, flush_every=600_000)
    running = asyncio.create_task(first.run())
    await first.load()
    ours = f"SELECT pid FROM pg_stat_activity WHERE application_name = '{first.name}'"
    async with writing(ledger(either)) as second:
        await until(lambda: second.standby)
        first.put(Part((change(1),), (pod(1),), marks={"pods": 1}))
        first.put(changes(2, 3))
        while second.standby:  # it always finds the other one connected again, until once it does not
            for (pid,) in asked(either, ours):
                asked(either, f"SELECT pg_terminate_backend({pid})")
            await asyncio.sleep(0.01)
        with pytest.raises(FencedError):
            await asyncio.wait_for(running, 60)
        first.put(Part((change(3),), (pod(3),), marks={"pods": 3}))  # by a watch that does not know yet
        again = asyncio.create_task(first.run())
        await first.drained()
        assert asked(either, "SELECT uid FROM pod_life") == []
        assert numbers(either) == [2]
        second.put(Part(pods=(pod(1),), marks={"pods": 7}))
        await second.drained()
    loaded = await asyncio.wait_for(first.load(), 60)
    assert loaded == Loaded({"uid-1": pod(1)}, {}, {"pods": 7})
    first.put(Part((change(4),), (pod(1, 2, deleted=NOON),)))
    await first.close()
    await again
    assert asked(either, "SELECT deleted FROM pod_life") == [(NOON,)] and numbers(either) == [2, 4]


async def test_nonsense_is_told_before_anything_starts() -> None:
    with pytest.raises(ValueError, match="a data folder or a database URL"):
        Ledger()
    with pytest.raises(StoreError, match="cannot be read"):
        Ledger(url="host=a nonsense").check()


@pytest.mark.parametrize(
    "url",
    [
        "postgres//me:s3cret@db/x",
        "postgresql://me:s3cret%zz@db/x",
        "postgresql://me:s3cret word@db/x",
        "host=db password=a s3cret",
    ],
)
async def test_a_password_is_not_told_when_a_url_cannot_be_read(url: str) -> None:
    with pytest.raises(StoreError, match="cannot be read: ") as caught:
        Ledger(url=url).check()
    assert "s3cret" not in str(caught.value)


async def test_an_option_that_a_url_must_not_have_is_named() -> None:
    with pytest.raises(StoreError, match='"sslmod"'):
        Ledger(url="postgresql://me@db/x?sslmod=require").check()
