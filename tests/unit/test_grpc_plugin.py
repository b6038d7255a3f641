"""Groups and nodes for kubectl plugins over a real connection; the door itself; the generated messages."""

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from asking_support import busy, gang, node, past, state_of
from grpc_support import Client, served

import fairlead
from fairlead.api.listen import Listen, listen
from fairlead.api.rpc.door import Door
from fairlead.api.rpc.pb import service_pb2 as service
from fairlead.api.rpc.plugin import EXTERNAL_PLUGIN, ExternalPlugin
from fairlead.api.server import ServerError
from fairlead.api.source import EngineSource
from fairlead.core.tree.columns import Tree
from fairlead.model.group import GroupRecord
from fairlead.wire import jgf

STATE = state_of(busy())
INVALID, UNKNOWN = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND


class Past:
    """A store that remembers one group."""

    async def ended(self, limit: int) -> list[GroupRecord]:
        return (await self.find("yesterday"))[:limit]

    async def find(self, name: str) -> list[GroupRecord]:
        return [past()] if name == "yesterday" else []


async def drawn(whole: bool) -> str:
    return '{"graph": {}}' if whole else '{"graph": 1}'


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    source = EngineSource(STATE, history=Past(), clock=lambda: STATE.now)
    plugin = ExternalPlugin(drawn, source)
    async with served({EXTERNAL_PLUGIN: plugin.methods()}) as [found]:
        yield found


async def listed(client: Client, **fields: str | int) -> service.GroupResponse:
    request = service.GroupRequest(**fields)  # type: ignore[arg-type]
    return await client.ask(f"{EXTERNAL_PLUGIN}/ListGroups", request, service.GroupResponse)


async def group(client: Client, name: str, namespace: str = "") -> service.GroupResponse:
    request = service.GroupRequest(group=name, namespace=namespace)
    return await client.ask(f"{EXTERNAL_PLUGIN}/GetGroup", request, service.GroupResponse)


async def refused(client: Client, method: str, **fields: str | int) -> tuple[grpc.StatusCode, str]:
    request = service.GroupRequest(**fields)  # type: ignore[arg-type]
    return await client.refused(f"{EXTERNAL_PLUGIN}/{method}", request)


# -- groups ----------------------------------------------------------------------------------------------


async def test_F29_every_group_is_listed_with_its_members_and_nodes(client: Client):
    page = await listed(client)
    rows = {each.name: (each.namespace, each.size, each.state) for each in page.groups}
    assert page.total == len(page.groups) == 8
    assert rows["big"] == ("team-b", 3, "waiting")
    assert rows["training"] == ("team-a", 3, "running")
    assert rows["assembling"] == ("team-a", 5, "assembling")
    assert rows["huge"] == ("team-a", 10, "rejected")
    training = next(each for each in page.groups if each.name == "training")
    assert [(m.name, m.phase) for m in training.members] == [(f"training-{i}", "Running") for i in range(3)]
    assert sorted(m.node for m in training.members) == sorted(training.nodes)
    waiting = next(each for each in page.groups if each.name == "big")
    assert [m.node for m in waiting.members] == ["", "", ""]
    assert (list(waiting.nodes), page.name, page.size) == ([], "", 0)


async def test_F29_a_list_comes_in_pieces_of_a_namespace_and_with_those_that_ended(client: Client):
    page = await listed(client, namespace="team-b", limit=1, offset=1)
    assert ([each.name for each in page.groups], page.total) == (["report"], 2)
    page = await listed(client, ended=True)
    assert [(each.name, each.state) for each in page.groups][-2:] == [
        ("short", "completed"),
        ("yesterday", "failed"),
    ]
    for fields in ({"limit": 10_001}, {"limit": -1}, {"offset": -1}):
        code, text = await refused(client, "ListGroups", **fields)
        assert (code, text.partition(": ")[2]) == (INVALID, "at most 10000 groups, from 0 on")


@pytest.mark.parametrize("name", ["training", "team-a/training", "training-1"])
async def test_F29_a_group_is_found_by_its_name_and_by_its_pods(client: Client, name: str):
    found = await group(client, name)
    assert (found.name, found.namespace, found.size, found.state) == ("training", "team-a", 3, "running")
    assert {m.name for m in found.members} == {"training-0", "training-1", "training-2"}
    assert len(found.nodes) == 3


async def test_F29_what_has_ended_is_found_in_the_store(client: Client):
    found = await group(client, "yesterday")
    assert (found.state, found.size, list(found.nodes)) == ("failed", 4, ["n0", "n1"])
    assert not found.members


async def test_F29_an_unknown_group_is_not_found(client: Client):
    assert await refused(client, "GetGroup", group="nobody") == (UNKNOWN, "no group 'nobody' is known")
    told = "no group 'training' is known in namespace 'team-b'"
    assert await refused(client, "GetGroup", group="training", namespace="team-b") == (UNKNOWN, told)
    assert await refused(client, "GetGroup") == (INVALID, "group: is empty; name the group")


async def test_F29_one_name_in_two_namespaces_is_asked_back():
    world = busy()
    gang(world, "big", 1, cpu=8, namespace="team-c")
    world.run(1000)
    source = EngineSource(state_of(world))
    async with served({EXTERNAL_PLUGIN: ExternalPlugin(drawn, source).methods()}) as [client]:
        told = "group 'big' exists in namespaces team-b, team-c; say in which"
        assert await refused(client, "GetGroup", group="big") == (INVALID, told)
        assert (await group(client, "big", "team-c")).size == 1
        assert (await group(client, "team-b/big")).size == 3


async def test_the_graph_is_the_live_one_in_parts_that_jobs_share_or_whole():
    world = busy()
    plugin = ExternalPlugin(EngineSource(state_of(world)).jgf)
    async with served({EXTERNAL_PLUGIN: plugin.methods()}) as [client]:

        async def sizes(whole: bool) -> dict[str, list[int]]:
            asked = service.ResourceRequest(whole=whole)
            answer = await client.ask(f"{EXTERNAL_PLUGIN}/GetResources", asked, service.ResourceResponse)
            tree = Tree(jgf.read(answer.graph))
            assert jgf.whole(tree) == answer.graph
            return {each: tree.size[tree.of_type(each)].tolist() for each in ("node", "core", "gpu")}

        assert await sizes(whole=True) == {"node": [1] * 5, "core": [8] * 5, "gpu": [2] * 2}
        assert await sizes(whole=False) == {"node": [1] * 5, "core": [1] * 40, "gpu": [1] * 4}
        world.node(node("n5", cpu=9_961))
        world.run(1000)
        request = service.ResourceRequest()
        assert await client.refused(f"{EXTERNAL_PLUGIN}/GetResources", request) == (
            INVALID,
            "the graph has 10,001 cores, too many to tell each: ask for it whole",
        )
        assert (await sizes(whole=True))["core"] == [8, 8, 8, 8, 8, 9_961]


async def test_the_bytes_are_those_of_fluence(client: Client):
    """GroupRequest{group=1} -> GroupResponse{name=1, size=2, ...}; ResourceResponse{graph=1}."""
    answer = await client.raw(f"{EXTERNAL_PLUGIN}/GetGroup", b"\x0a\x08training")
    assert answer.startswith(b"\x0a\x08training\x10\x03")
    assert await client.raw(f"{EXTERNAL_PLUGIN}/GetResources", b"") == b'\x0a\x0c{"graph": 1}'
    assert await client.raw(f"{EXTERNAL_PLUGIN}/GetResources", b"\x08\x01") == b'\x0a\x0d{"graph": {}}'


# -- the door --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("127.0.0.1:4242", Listen("127.0.0.1", 4242)),
        ("127.9.9.9:0", Listen("127.9.9.9", 0)),
        ("[::1]:4242", Listen("::1", 4242)),
        ("localhost:4242", Listen("localhost", 4242)),
    ],
)
def test_loopback_needs_no_permission(text: str, where: Listen):
    assert listen(text, False, "--open") == where
    assert str(where) == text


@pytest.mark.parametrize("text", ["0.0.0.0:4242", "[::]:4242", "10.0.0.1:4242", "node-1:4242"])
def test_others_are_let_in_on_purpose_only(text: str):
    with pytest.raises(ServerError) as refused:
        listen(text, False, "--allow-remote")
    assert str(refused.value) == (
        f"{text} can be reached from other machines, and nobody is asked who they are there;"
        " add --allow-remote to listen on it all the same"
    )
    assert str(listen(text, True, "--allow-remote")) == text


@pytest.mark.parametrize("text", ["", "4242", ":4242", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:x"])
def test_what_is_no_address_is_told(text: str):
    with pytest.raises(ServerError) as refused:
        listen(text, True, "--allow-remote")
    assert str(refused.value) == f"{text!r} is not HOST:PORT; write for example 127.0.0.1:4242"


async def test_a_port_in_use_is_told():
    first = Door({}, Listen("127.0.0.1", 0))
    await first.start()
    port = int(first.address.rpartition(":")[2])
    with pytest.raises(ServerError) as refused:
        await Door({}, Listen("127.0.0.1", port)).start()
    await first.stop()
    assert str(refused.value).startswith(f"cannot listen on 127.0.0.1 port {port}: Address already in use")


# -- generated messages ----------------------------------------------------------------------------------


def test_generated_messages_are_those_of_the_proto_files(tmp_path: Path):
    src = Path(fairlead.__file__).parent.parent
    folder = src / "fairlead" / "api" / "rpc" / "pb"
    protos = sorted(map(str, folder.glob("*.proto")))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{src}", f"--python_out={tmp_path}"]
    subprocess.run([*command, f"--pyi_out={tmp_path}", *protos], check=True)
    made = {path.name: path.read_text() for path in tmp_path.rglob("*_pb2.py*")}
    assert len(made) == 2 * len(protos) > 0
    there = {path.name: path.read_text() for path in folder.glob("*_pb2.py*")}
    assert there == made, "run `make proto`"
