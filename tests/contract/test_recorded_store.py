"""What the ledger has of a stretch of time becomes a workload: written, read, exported, played again."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ledger_support import writing
from typer.testing import CliRunner

from fairlead.cli import main, recorded, replay_policy
from fairlead.cli.errors import CliError
from fairlead.cli.recorded import Meant
from fairlead.model.record import NodeLife, Part, PodLife
from fairlead.runtime.config import Given
from fairlead.sim import inputs, swf, trace
from fairlead.store.ledger import Ledger

EPOCH = 1_790_000_000_000
MINUTE = 60_000


def life(name: str, user: str, cpu: int, at: int, start: int, run: int, **more: Any) -> PodLife:
    end = EPOCH + start + run if start >= 0 else 0
    bound = EPOCH + start if start >= 0 else 0
    return PodLife(
        f"uid-{name}", user, name, 5, more.pop("scheduler", "fairlead"), node="n0" if bound else "",
        requests={"cpu": cpu * 1000}, walltime=run, created=EPOCH + at, queued=EPOCH + at, bound=bound,
        started=bound, finished=end, first_seen=EPOCH + at, last_seen=end, **more,
    )  # fmt: skip


PODS = (
    life("long", "ann", 3, 0, 0, 60 * MINUTE),
    life("wide", "bob", 4, MINUTE, 60 * MINUTE, 10 * MINUTE),
    life("short", "ann", 1, 2 * MINUTE, 70 * MINUTE, 10 * MINUTE),
)
NODE = NodeLife("u0", "n0", EPOCH - 1, 1, {"cpu": 4000}, {"cpu": 4000, "pods": 110})


async def fill(url: str, *pods: PodLife) -> Meant:
    door = Ledger(url=url, now=lambda: EPOCH, flush_every=5)
    async with writing(door):
        await door.load()
        assert door.put(Part(pods=pods, nodes=(NODE,)))
        await door.drained()
    return Meant(Path("unused"), url)


async def in_thread(work: Any, *given: Any) -> Any:
    return await asyncio.to_thread(work, *given)


async def test_RB4_a_recorded_cluster_is_exported_and_played_again(either: str, tmp_path: Path) -> None:
    meant = await fill(either, *PODS)
    lines = await in_thread(lambda: b"".join(recorded.as_trace(meant)))
    path = tmp_path / "week.trace"
    path.write_bytes(lines)
    work = inputs.load(path)
    assert [(each.at, each.name, each.run, each.procs) for each in work.arrivals] == [
        (0, "long", 60 * MINUTE, 3),
        (MINUTE, "wide", 10 * MINUTE, 4),
        (2 * MINUTE, "short", 10 * MINUTE, 1),
    ]
    log = tmp_path / "week.swf"
    log.write_bytes(await in_thread(lambda: b"".join(recorded.as_swf(meant))))
    assert [(each.at, each.run, each.procs) for each in inputs.load(log).arrivals] == [
        (each.at, each.run, each.procs) for each in work.arrivals
    ]
    first = next(swf.read(log.read_text(), inputs.Faults(log, strict=True)))
    assert (first.submit, first.run, first.procs) == (0, 3600, 3)


async def test_another_policy_is_held_against_what_happened(
    either: str, capsys: pytest.CaptureFixture[str]
) -> None:
    meant = await fill(either, *PODS)
    asked = replay_policy.Asked(meant, Given(policy="easy"), "json")
    # Playing minds Ctrl-C, so it belongs to the main thread; reading has a loop of its own.
    found = await in_thread(recorded.read, meant)
    replay_policy.play_and_tell(asked, found)
    answer = json.loads(capsys.readouterr().out)
    assert [run["policy"] for run in answer["runs"]] == ["recorded", "easy"]
    everyone = answer["gains"][0]
    assert (everyone["jobs"], everyone["sooner"], everyone["later"]) == (3, 1, 0)


async def test_a_stretch_holds_what_arrived_in_it(either: str) -> None:
    meant = await fill(either, *PODS)
    found = await in_thread(recorded.read, meant._replace(since=EPOCH + 1, until=EPOCH + 2 * MINUTE))
    assert [job.name for job in found.trace.jobs] == ["wide"]


async def test_whose_pods_are_meant_must_be_clear(either: str) -> None:
    other = life("theirs", "eve", 1, 0, 0, MINUTE, scheduler="volcano")
    meant = await fill(either, *PODS, other)
    with pytest.raises(CliError, match="fairlead, volcano"):
        await in_thread(recorded.read, meant)
    found = await in_thread(recorded.read, meant._replace(scheduler="volcano"))
    assert [job.name for job in found.trace.jobs] == ["theirs"]
    with pytest.raises(CliError, match="no job was recorded"):
        await in_thread(recorded.read, meant._replace(scheduler="nobody"))
    words = ["replay", "--policy", "easy", "-o", "json", "--database-url", either]
    result = await in_thread(CliRunner().invoke, main.app, words)
    assert "--scheduler: whose pods?" in str(result.exception)
    result = await in_thread(CliRunner().invoke, main.app, [*words, "--scheduler", "nobody"])
    assert "no job was recorded" in str(result.exception)


async def test_a_trace_says_who_ran_where(either: str) -> None:
    meant = await fill(either, *PODS)
    found = trace.read(Path("x"), (await in_thread(lambda: b"".join(recorded.as_trace(meant)))).decode())
    assert [(job.start - EPOCH, job.nodes) for job in found.jobs] == [
        (0, ("n0",)), (60 * MINUTE, ("n0",)), (70 * MINUTE, ("n0",)),
    ]  # fmt: skip


async def test_the_command_writes_workloads_and_refuses_half_of_one(either: str, tmp_path: Path) -> None:
    await fill(either, *PODS)
    for form in ("trace", "swf"):
        out = tmp_path / f"week.{form}"
        command = ["history", "export", "--format", form, "--database-url", either, "--out", str(out)]
        done = await in_thread(fairlead, *command)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(inputs.load(out).arrivals) == 3
    for more, words in ((("-n", "ann"), "whole cluster"), (("--of", "nodes"), "--of and --every")):
        done = await in_thread(fairlead, *command, *more)
        assert (done.returncode, words in done.stderr, done.stderr.count("\n")) == (1, True, 1)


def fairlead(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("fairlead")), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
