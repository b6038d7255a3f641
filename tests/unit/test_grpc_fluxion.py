"""Fluxion's services over a real connection: what resource-query answers, booked once, errors of one line."""

import asyncio
import io
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import grpc
import pytest
from grpc_support import Client, served

from fairlead.api.rpc.call import Service
from fairlead.api.rpc.fluxion import FLUXCLI, FLUXION, FluenceMatching, PodMatching
from fairlead.api.rpc.matcher import Matcher
from fairlead.api.rpc.pb import fluxcli_pb2 as fluxcli
from fairlead.api.rpc.pb import fluxion_pb2 as fluxion
from fairlead.api.rpc.pb import service_pb2 as service
from fairlead.cli.fluxion_run import Options, services
from fairlead.cli.query_run import Options as QueryOptions
from fairlead.cli.query_run import graph_of
from fairlead.cli.query_session import Session
from fairlead.core.tree.columns import Pool, Tree
from fairlead.core.tree.graph import Graph
from fairlead.core.tree.matchpolicy import match_policy
from fairlead.wire import jgf

FOLDER = Path(__file__).parent.parent / "data" / "tree"
RACKS = FOLDER / "two-racks.graphml"
MATCH, CANCEL, INIT = (f"{FLUXION}/{name}" for name in ("Match", "Cancel", "Init"))
INVALID, UNKNOWN = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
GiB = 1 << 30


def cluster(nodes: int = 3, cores: int = 4, below: tuple[str, int, int, str] | None = None) -> Tree:
    """A cluster as fluxnetes exports it: a node's name is its basename, and numbers are added.

    `below` says what else is on each node: its type, how many, the size of each, their unit.
    """
    pools = [Pool("0", None, "cluster", "k8scluster", "k8scluster0", 0, 0)]

    def add(above: Pool, type_: str, basename: str, i: int, size: int = 1, unit: str = "") -> Pool:
        key = len(pools)
        pools.append(
            Pool(f"{key}", above.key, type_, basename, f"{basename}{i}", i, key, size=size, unit=unit)
        )
        return pools[-1]

    for i in range(nodes):
        node = add(pools[0], "node", f"worker-{'abcdefgh'[i]}", i)
        for j in range(cores):
            add(node, "core", "core", j)
        if below is not None:
            type_, count, size, unit = below
            for j in range(count):
                add(node, type_, type_, j, size, unit)
    return Tree(pools)


def over(tree: Tree, policy: str = "lonode") -> dict[str, Service]:
    """fluxnetes' and fluence's services over one matcher."""
    matcher = Matcher(lambda *_: Graph(tree, match_policy(policy)), Graph(tree, match_policy(policy)))
    return {FLUXION: PodMatching(matcher).methods(), FLUXCLI: FluenceMatching(matcher).methods()}


def pods(count: int = 1, reserve: bool = False, **pod: int | list[str]) -> fluxion.MatchRequest:
    return fluxion.MatchRequest(
        podspec=fluxion.PodSpec(id="p", **{"cpu": 1, **pod}),  # type: ignore[arg-type]
        count=count,
        reserve=reserve,
        jobName="job",
    )


async def match(client: Client, request: fluxion.MatchRequest) -> fluxion.MatchResponse:
    return await client.ask(MATCH, request, fluxion.MatchResponse)


def where(answer: fluxion.MatchResponse | fluxcli.MatchResponse) -> dict[str, int]:
    return {each.nodeID: each.tasks for each in answer.nodelist}


# -- pods ------------------------------------------------------------------------------------------------


async def test_pods_are_spread_over_nodes_and_each_fits_on_one():
    async with served(over(cluster())) as [client]:
        first = await match(client, pods(2, cpu=3))
        assert (first.allocated, first.reserved, first.fluxID) == (True, False, 1)
        assert where(first) == {"worker-a": 1, "worker-b": 1}
        second = await match(client, pods(4, cpu=1))
        assert (second.fluxID, where(second)) == (2, {"worker-a": 1, "worker-b": 1, "worker-c": 2})


async def test_B1_busy_and_never_are_told_apart_and_neither_is_an_error():
    async with served(over(cluster(nodes=1))) as [client]:
        assert (await match(client, pods(1, cpu=3))).allocated
        busy, verdict = await client.told(MATCH, pods(1, cpu=2), fluxion.MatchResponse)
        assert (busy.allocated, busy.reserved, list(busy.nodelist), verdict) == (False, False, [], "busy")
        never, verdict = await client.told(MATCH, pods(1, cpu=5), fluxion.MatchResponse)
        assert (never.allocated, never.reserved, verdict) == (False, False, "never")


async def test_B2_B3_a_reservation_is_made_and_is_no_allocation():
    async with served(over(cluster(nodes=1))) as [client]:
        await match(client, pods(1, cpu=3))
        later = await match(client, pods(1, cpu=4, reserve=True))
        assert (later.reserved, later.allocated, later.reserved_at) == (True, False, 3600)
        assert where(later) == {"worker-a": 1}
        assert (await match(client, pods(1, cpu=1, reserve=True))).allocated


async def test_cancel_gives_back_once():
    async with served(over(cluster(nodes=1))) as [client]:
        whole = pods(1, cpu=4)
        first = await match(client, whole)
        assert not (await match(client, whole)).allocated
        gone = await client.ask(CANCEL, fluxion.CancelRequest(fluxID=first.fluxID), fluxion.CancelResponse)
        assert (gone.fluxID, gone.error) == (first.fluxID, 0)
        assert (await match(client, whole)).allocated
        again = fluxion.CancelRequest(fluxID=first.fluxID)
        assert await client.refused(CANCEL, again) == (
            UNKNOWN,
            "there is no job 1; it may have been cancelled before",
        )
        again.NoExistOK = True
        assert (await client.ask(CANCEL, again, fluxion.CancelResponse)).fluxID == 1


async def test_B14_calls_at_once_never_book_twice():
    nodes, cores = 6, 8
    async with served(over(cluster(nodes, cores)), clients=4) as clients:
        for _ in range(3):
            asked = [match(clients[i % 4], pods(1, cpu=3, reserve=False)) for i in range(40)]
            granted = [answer for answer in await asyncio.gather(*asked) if answer.allocated]
            held = Counter(each.nodeID for answer in granted for each in answer.nodelist)
            assert held == {f"worker-{letter}": cores // 3 for letter in "abcdef"}
            assert len({answer.fluxID for answer in granted}) == len(granted)
            gone = [fluxion.CancelRequest(fluxID=answer.fluxID) for answer in granted]
            await asyncio.gather(
                *(clients[i % 4].ask(CANCEL, each, fluxion.CancelResponse) for i, each in enumerate(gone))
            )


@pytest.mark.parametrize(("unit", "size"), [("MB", 1024), ("GB", 1), ("GiB", 1), ("", 1024)])
async def test_F28_memory_is_counted_in_the_unit_of_the_graph(unit: str, size: int):
    async with served(over(cluster(nodes=1, below=("memory", 8, size, unit)))) as [client]:
        assert not (await match(client, pods(1, memory=8 * GiB + 1))).allocated
        assert (await match(client, pods(1, memory=5 * GiB))).allocated
        assert not (await match(client, pods(1, memory=4 * GiB))).allocated
        assert (await match(client, pods(1, memory=3 * GiB))).allocated


async def test_F28_a_vertex_of_several_gpus_counts_as_many():
    async with served(over(cluster(nodes=1, below=("gpu", 1, 4, "")))) as [client]:
        assert (await client.told(MATCH, pods(1, gpu=5), fluxion.MatchResponse))[1] == "never"
        assert where(await match(client, pods(1, gpu=4))) == {"worker-a": 1}


async def test_the_label_zone_keeps_all_pods_in_one():
    pools = [Pool("c", None, "cluster", "c", "c0", 0, 0)]
    for i in range(4):
        if i % 2 == 0:
            pools.append(Pool(f"z{i}", "c", "zone", "zone", f"zone{i}", i, 10 + i))
        pools.append(Pool(f"n{i}", f"z{i - i % 2}", "node", "node", f"node{i}", i, 20 + i))
        pools += [Pool(f"n{i}c{j}", f"n{i}", "core", "core", f"core{j}", j, 30) for j in range(2)]
    async with served(over(Tree(pools))) as [client]:
        await match(client, pods(1, cpu=2))
        assert where(await match(client, pods(2, cpu=2, labels=["zone"]))) == {"node2": 1, "node3": 1}


async def test_the_bytes_are_those_of_fluxnetes():
    """MatchRequest{podspec=1{id=1, cpu=3}, count=3, reserve=4, jobName=5}, written without our messages."""
    async with served(over(cluster(nodes=1))) as [client]:
        pod = b"\x0a\x01p\x18\x02"
        answer = await client.raw(MATCH, b"\x0a\x05" + pod + b"\x18\x02\x20\x01\x2a\x01j")
        node = b"\x0a\x08worker-a\x10\x02"
        assert answer == b"\x08\x01" + b"\x12\x0c" + node + b"\x28\x01"
        assert await client.raw(CANCEL, b"\x08\x01") == b"\x08\x01"
        assert await client.raw(CANCEL, b"\x08\x01\x10\x01") == b"\x08\x01"


async def test_fluence_is_answered_without_reservations():
    async with served(over(cluster(nodes=1))) as [client]:
        asked = fluxcli.MatchRequest(ps=fluxcli.PodSpec(id="p", cpu=3), request="allocate", count=1)
        answer = await client.ask(f"{FLUXCLI}/Match", asked, fluxcli.MatchResponse)
        assert (answer.podID, answer.jobID, where(answer)) == ("p", 1, {"worker-a": 1})
        none = await client.ask(f"{FLUXCLI}/Match", asked, fluxcli.MatchResponse)
        assert (none.podID, none.jobID, where(none)) == ("p", 0, {})
        for _ in range(2):
            gone = fluxcli.CancelRequest(jobID=1)
            assert (await client.ask(f"{FLUXCLI}/Cancel", gone, fluxcli.CancelResponse)).jobID == 1
        asked.request = "reserve"
        assert await client.refused(f"{FLUXCLI}/Match", asked) == (
            INVALID,
            "request: is 'reserve', but must be allocate; this service knows nothing else",
        )


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (pods(1, cpu=0), "podspec.cpu: is 0, but must be at least 1"),
        (pods(1, cpu=-4), "podspec.cpu: is -4, but must be at least 1"),
        (pods(1, memory=-1), "podspec.memory: is -1, but must be at least 0"),
        (pods(1, gpu=-1), "podspec.gpu: is -1, but must be at least 0"),
        (pods(0), "count: is 0, but must be at least 1"),
        (fluxion.MatchRequest(count=1), "podspec.cpu: is 0, but must be at least 1"),
        (b"\x0a\xff", "the request is not a MatchRequest message"),
    ],
)
async def test_F28_a_malformed_pod_is_told_with_its_place(request_: fluxion.MatchRequest | bytes, told: str):
    async with served(over(cluster())) as [client]:
        assert await client.refused(MATCH, request_) == (INVALID, told)
        assert (await match(client, pods(2, cpu=4))).fluxID == 1, "and nothing is booked"


async def test_F28_amounts_beyond_all_bounds_are_never():
    async with served(over(cluster())) as [client]:
        most = (1 << 31) - 1
        for request in (pods(most), pods(1, cpu=most), pods(1, memory=(1 << 63) - 1), pods(1, gpu=most)):
            request.reserve = True
            _, verdict = await client.told(MATCH, request, fluxion.MatchResponse)
            assert verdict == "never"


# -- jobspecs --------------------------------------------------------------------------------------------


def of_file(messages: str, graph: Path | None, policy: str = "low") -> dict[str, Service]:
    """What `fairlead fluxion-service` serves."""
    return services(Options(graph, "grug", policy, "ALL:core,ALL:node", messages, "", False))


def session(policy: str, commands: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """What `resource-query -F jgf` prints for each: the graph, and the lines of INFO."""
    query = QueryOptions(
        RACKS,
        "grug",
        policy,
        "jgf",
        "CA",
        "simple",
        None,
        "ALL:core,ALL:node",
        False,
        True,
    )
    out = io.StringIO()
    running = Session(graph_of(query), out, "jgf", False)
    told: list[tuple[str, list[str]]] = []
    for op, name in commands:
        with redirect_stdout(out), redirect_stderr(out):
            assert running.line(f"match {op} {FOLDER / name}")
        lines = out.getvalue().splitlines(keepends=True)
        graph = lines.pop(0) if lines[0].startswith("{") else ""
        told.append((graph, [line.strip() for line in lines]))
        out.seek(0)
        out.truncate()
    return told


@pytest.mark.parametrize("policy", ["first", "low", "hinode", "lonodex", "locality"])
async def test_match_is_what_resource_query_prints(policy: str):
    files = [
        "cores.yaml",
        "node.yaml",
        "pod.yaml",
        "rack.yaml",
        "two-nodes.yaml",
        "nine-cores.yaml",
        "rack.yaml",
    ]
    ops = ["allocate", "allocate_orelse_reserve", "without_allocating", "allocate_with_satisfiability"]
    commands = [(op, name) for op in ops for name in files]
    printed = session(policy, commands)
    async with served(of_file("fluxion", RACKS, policy)) as [client]:
        for (op, name), (graph, lines) in zip(commands, printed, strict=True):
            asked = fluxion.JobspecMatchRequest(jobspec=(FOLDER / name).read_text(), request=op)
            answer, verdict = await client.told(MATCH, asked, fluxion.JobspecMatchResponse)
            assert answer.allocation == graph, (op, name)
            if verdict != "granted":
                assert "INFO: No matching resources found" in lines
                assert answer.status == (1 if verdict == "busy" else 2)
                assert ("INFO: Unsatisfiable request" in lines) == (verdict == "never")
                continue
            at = f"INFO: SCHEDULED AT={answer.at if answer.reserved else 'Now'}"
            assert {at, f"INFO: RESOURCES={'RESERVED' if answer.reserved else 'ALLOCATED'}"} <= set(lines)
            if op != "without_allocating":
                assert f"INFO: JOBID={answer.jobid}" in lines
    kinds = {line for _, lines in printed for line in lines}
    assert {"INFO: RESOURCES=RESERVED", "INFO: Unsatisfiable request"} <= kinds, (
        "the test has seen all answers"
    )


async def test_reservation_is_another_word_for_orelse_reserve():
    text = (FOLDER / "rack.yaml").read_text()
    async with served(of_file("fluxion", RACKS)) as [client]:
        asked = fluxion.JobspecMatchRequest(jobspec=text, reservation=True)
        starts = [await client.ask(MATCH, asked, fluxion.JobspecMatchResponse) for _ in range(3)]
        assert [(each.reserved, each.at) for each in starts] == [(False, 0), (False, 0), (True, 60)]
        fits = fluxion.JobspecMatchRequest(jobspec=text, request="satisfiability")
        answer = await client.ask(MATCH, fits, fluxion.JobspecMatchResponse)
        assert (answer.status, answer.jobid, answer.allocation) == (0, 0, "")


async def test_F24_who_asks_for_no_operation_is_told_never_from_busy():
    async with served(of_file("fluxion", RACKS)) as [client]:
        two, nine = ((FOLDER / name).read_text() for name in ("two-nodes.yaml", "nine-cores.yaml"))
        for text, statuses in ((two, [0, 0, 0, 0, 1]), (nine, [2])):
            asked = fluxion.JobspecMatchRequest(jobspec=text)
            answers = [await client.ask(MATCH, asked, fluxion.JobspecMatchResponse) for _ in statuses]
            assert [each.status for each in answers] == statuses
            assert [bool(each.jobid) for each in answers] == [not status for status in statuses]


async def test_B14_jobspecs_at_once_never_share_a_core():
    text = (FOLDER / "cores.yaml").read_text()
    async with served(of_file("fluxion", RACKS), clients=3) as clients:
        asked = fluxion.JobspecMatchRequest(jobspec=text)
        calls = [clients[i % 3].ask(MATCH, asked, fluxion.JobspecMatchResponse) for i in range(12)]
        granted = [answer for answer in await asyncio.gather(*calls) if answer.status == 0]
        cores = Counter(
            path
            for answer in granted
            for path, fields in jgf.paths(answer.allocation)
            if fields["type"] == "core"
        )
        assert len(cores) == 16
        assert set(cores.values()) == {1}
        for answer in granted:
            gone = fluxion.JobspecCancelRequest(jobID=answer.jobid)
            told = await clients[0].ask(CANCEL, gone, fluxion.JobspecCancelResponse)
            assert (told.jobID, told.error, told.status) == (answer.jobid, 0, 0)
        assert (await clients[0].ask(MATCH, asked, fluxion.JobspecMatchResponse)).status == 0


async def test_a_client_brings_the_graph_and_the_policy():
    async with served(of_file("fluxion", None)) as [client]:
        asked = fluxion.JobspecMatchRequest(jobspec=(FOLDER / "node.yaml").read_text())
        code, text = await client.refused(MATCH, asked)
        assert (code, text[:23]) == (grpc.StatusCode.FAILED_PRECONDITION, "there is no graph yet: ")
        graph = jgf.whole(cluster())
        for policy, node in (("", "worker-a0"), ("high", "worker-c2")):
            init = fluxion.JobspecInitRequest(jgf=graph, policy=policy)
            assert (await client.ask(INIT, init, fluxion.JobspecInitResponse)).status == 0
            answer = await client.ask(MATCH, asked, fluxion.JobspecMatchResponse)
            assert answer.jobid == 1
            assert [path for path, each in jgf.paths(answer.allocation) if each["type"] == "node"] == [
                f"/k8scluster0/{node}"
            ]


@pytest.mark.parametrize(
    ("graph", "policy", "told"),
    [
        ("{", "", "JGF: not JSON: "),
        ('{"graph": {"nodes": [{"id": "0"}]}}', "", "JGF: graph.nodes[0]: the key 'metadata' is missing"),
        (jgf.whole(cluster()), "lowest", "unknown match policy 'lowest'; known: "),
    ],
)
async def test_F28_a_malformed_graph_leaves_the_one_in_use(graph: str, policy: str, told: str):
    async with served(of_file("fluxion", RACKS)) as [client]:
        asked = fluxion.JobspecMatchRequest(jobspec=(FOLDER / "rack.yaml").read_text())
        await client.ask(MATCH, asked, fluxion.JobspecMatchResponse)
        code, text = await client.refused(INIT, fluxion.JobspecInitRequest(jgf=graph, policy=policy))
        assert (code, text[: len(told)]) == (INVALID, told)
        assert (await client.ask(MATCH, asked, fluxion.JobspecMatchResponse)).jobid == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "jobspec: is empty, but must be keys with values"),
        ("a: [", "line 2: not YAML or JSON: "),
        ("version: 1", "jobspec: the key 'resources' is missing"),
        ("[" * 100_000, "jobspec: nests more than 200 lists and mappings, in line 1"),
        ('{"version": 1, "resources": [{"type": "core", "count": -1}], "tasks": [], "attributes": {}}',
         "resources[0].count: is -1, but must be a whole number, at least 0"),
        ('{"version": 1, "resources": [{"type": "tape", "count": 1}], "tasks": [], "attributes": {}}',
         "resources[0].type: 'tape' is not a resource type of this graph"),
    ],
)  # fmt: skip
async def test_F28_a_malformed_jobspec_is_told_with_its_place(text: str, told: str):
    async with served(of_file("fluxion", RACKS)) as [client]:
        code, found = await client.refused(MATCH, fluxion.JobspecMatchRequest(jobspec=text))
        assert (code, found[: len(told)]) == (INVALID, told)
        fine = fluxion.JobspecMatchRequest(jobspec=(FOLDER / "node.yaml").read_text())
        assert (await client.ask(MATCH, fine, fluxion.JobspecMatchResponse)).jobid == 1


async def test_an_operation_that_does_not_exist_is_told_with_those_that_do():
    async with served(of_file("fluxion", RACKS)) as [client]:
        asked = fluxion.JobspecMatchRequest(jobspec="", request="grab")
        code, text = await client.refused(MATCH, asked)
        assert (code, text[:50]) == (INVALID, "request: is 'grab', but must be one of allocate, a")


async def test_a_matching_server_shows_its_graph_and_no_groups():
    async with served(of_file("fluxnetes", RACKS)) as [client]:
        plugin = "service.ExternalPluginService"
        answer = await client.ask(
            f"{plugin}/GetResources", service.ResourceRequest(), service.ResourceResponse
        )
        hosts = [path for path, each in jgf.paths(answer.graph) if each["type"] == "node"]
        assert hosts[0] == "/hall0/rack0/host0"
        assert len(hosts) == 4
        code, text = await client.refused(f"{plugin}/ListGroups", service.GroupRequest())
        assert (code, text) == (
            grpc.StatusCode.UNIMPLEMENTED,
            "this server only matches; ask a scheduler (fairlead scheduler --grpc) for groups",
        )


async def test_an_error_of_ours_is_told_without_its_insides(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise KeyError("secret")

    monkeypatch.setattr(Matcher, "match", broken)
    async with served(over(cluster())) as [client]:
        assert await client.refused(MATCH, pods(1)) == (
            grpc.StatusCode.INTERNAL,
            "internal error: KeyError",
        )


def test_messages_of_jobspecs_are_served_by_choice():
    assert set(of_file("fluxion", None)[FLUXION]) == {"Init", "Match", "Cancel"}
    assert set(of_file("fluxnetes", RACKS)[FLUXION]) == {"Match", "Cancel"}
