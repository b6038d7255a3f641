"""docs/esi-algorithms.md: its commands print what it shows, its program runs, its keys are the program's."""

import asyncio
import re
import shlex
import sys
from pathlib import Path

import msgspec
import pytest

from fairlead.cli.esi_simulate import Simulation
from fairlead.sim.esi_layout import EVALUATION, JobLayout, Layout, NodesLayout, TestbedLayout, read, world

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "esi-algorithms.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n\$ (.*?)\n(.*?)```", TEXT, re.DOTALL)
URL = "http://127.0.0.1:8082"
PATIENCE = 60.0


def close(shown: str, printed: str) -> bool:
    """The same words, and numbers that differ by a second at most."""
    number = re.compile(r"\d+")
    one, other = ([int(n) for n in number.findall(text)] for text in (shown, printed))
    words = [" ".join(number.sub("#", text).split()) for text in (shown, printed)]
    return words[0] == words[1] and all(abs(a - b) <= 1 for a, b in zip(one, other, strict=True))


async def printed(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_the_simulator_says_what_the_page_shows() -> None:
    ((command, shown),) = [block for block in BLOCKS if block[0].startswith("fairlead esi simulate")]
    words = ["0" if word == "8082" else word for word in shlex.split(command)[1:]]
    program = [sys.executable, "-u", "-m", "fairlead", *words]
    process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(lines) < len(shown.splitlines()):
            lines.append((await process.stdout.readline()).decode().rstrip())
        process.terminate()
        assert await process.wait() == 0
    assert re.sub(r":\d+$", ":8082", "\n".join(lines)) == shown.rstrip()


async def test_the_example_prints_what_the_page_shows() -> None:
    simulation = Simulation(EVALUATION, 1_000)
    await simulation.start()
    try:
        runs = [block for block in BLOCKS if block[0].startswith("python3 ")]
        assert len(runs) == 2
        for command, shown in runs:
            words = [simulation.url if word == URL else word for word in shlex.split(command)[1:]]
            words[0] = str(ROOT / words[0])
            found = await printed(sys.executable, *words)
            for line, told in zip(shown.splitlines(), found.splitlines(), strict=True):
                assert close(line, told), found
    finally:
        await simulation.stop()


async def test_the_least_algorithm_of_the_page_is_one(tmp_path: Path) -> None:
    (source,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "mine.py").write_text(source)
    (tmp_path / "esi_client.py").symlink_to(ROOT / "examples" / "esi" / "esi_client.py")
    simulation = Simulation(EVALUATION, 1_000)
    await simulation.start()
    try:
        found = await printed(sys.executable, str(tmp_path / "mine.py"), simulation.url)
        assert found.startswith("CompletedState") and found.count("'successful': True") == 3
        assert not list(simulation.world.objects.all("Scheduling"))
    finally:
        await simulation.stop()


@pytest.mark.parametrize("struct", [Layout, NodesLayout, TestbedLayout, JobLayout])
def test_the_page_names_every_key_of_a_layout(struct: type[msgspec.Struct]) -> None:
    section = TEXT[TEXT.index("## Another cluster") : TEXT.index("## On a real cluster")]
    names = {field.encode_name for field in msgspec.structs.fields(struct)}
    assert names <= set(re.findall(r"`(\w+)`", section))


def test_the_layout_of_the_examples_can_be_played() -> None:
    made = world(read(ROOT / "examples" / "esi" / "simulation.yaml"))
    made.run(5_000)
    assert [len(made.testbed(name).slots) for name in ("scheduler-slots", "profiler-slots")] == [8, 2]
    assert [made.job(name).state for name in ("sort", "sort-more", "pi", "crawler")] == ["ReadyState"] * 4
