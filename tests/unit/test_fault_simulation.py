"""The fault simulation: stories as text, the same each time, made small; and engines with a mistake in them.

Each mutant has a mistake that a scheduler can have without anybody noticing on a good day. It must be found
within a fixed number of seeds, and its smallest story must be short and break the same again.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from fairlead.cli import simulate_faults
from fairlead.cli.main import app
from fairlead.core.engine import Engine
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.sim import fuzz
from fairlead.sim.chaos import BrokenError
from fairlead.sim.faults import EFFECTS, Decided, Decision
from fairlead.sim.ops import MORE_VERBS, VERBS, Op
from fairlead.sim.shrink import shrink

# -- mutants -----------------------------------------------------------------------------------------


class Forgetful(Engine):
    """What is granted holds nothing until it is seen on its node."""

    def learn(self, events: Sequence[ev.Event]) -> list[cmd.Command]:
        commands = super().learn(events)
        for uid in self.state.intents:
            self.state.inventory.release(uid)
        return commands


class Hasty(Engine):
    """Binds as soon as it has decided, before the store has it."""

    def learn(self, events: Sequence[ev.Event]) -> list[cmd.Command]:
        commands = super().learn(events)
        plans = [c.plan for c in commands if isinstance(c, cmd.RecordAllocations)]
        return [*commands, *(c for plan in plans for c in super().learn([ev.AllocationsRecorded(plan)]))]


class Credulous(Engine):
    """Whatever is told late of a pod that is gone brings it back."""

    def learn(self, events: Sequence[ev.Event]) -> list[cmd.Command]:
        self.state.tombstones.clear()
        return super().learn(events)


class Rash(Engine):
    """A bind of unknown fate is taken for one that was refused: its place is given to others at once."""

    def learn(self, events: Sequence[ev.Event]) -> list[cmd.Command]:
        refused = ev.BindError.REFUSED
        return super().learn(
            [
                ev.BindFailed(e.pod, e.grant, refused)
                if isinstance(e, ev.BindFailed) and e.error is ev.BindError.UNKNOWN
                else e
                for e in events
            ]
        )


class Amnesiac(Engine):
    """A process that starts takes no notice of what an earlier one had granted."""

    def learn(self, events: Sequence[ev.Event]) -> list[cmd.Command]:
        return super().learn([e for e in events if not isinstance(e, ev.GrantRestored)])


@pytest.mark.parametrize(
    ("mutant", "seeds"),
    [(Forgetful, 5), (Hasty, 5), (Credulous, 100), (Rash, 60), (Amnesiac, 60)],
)
def test_L1_an_engine_with_a_mistake_is_found_and_its_story_is_small(mutant: type[Engine], seeds: int):
    seed = fuzz.failing(range(seeds), engine=mutant)
    assert seed is not None
    story = fuzz.draw(seed)
    wrong = fuzz.kind_of(fuzz.play(story, mutant).wrong)
    tries = iter(range(2_000))
    small = shrink(story, mutant, enough=lambda: next(tries, None) is None)
    assert len(small.ops) + len(small.decisions) <= 12
    again = fuzz.read(fuzz.write(small, fuzz.play(small, mutant)), "small")
    assert again == small
    assert fuzz.kind_of(fuzz.play(again, mutant).wrong) == wrong
    assert not fuzz.play(again).wrong, "the mistake is the mutant's, not the engine's"


# -- the same each time ------------------------------------------------------------------------------


def test_a_seed_is_the_same_story_and_the_same_end():
    one, two = fuzz.draw(11), fuzz.draw(11)
    assert one == two
    assert fuzz.play(one) == fuzz.play(two)
    assert fuzz.draw(12) != one


def test_the_same_seeds_print_the_same_to_the_byte_under_any_hash_seed():
    program = (
        "from fairlead.sim import fuzz\n"
        "for seed in range(3):\n"
        "    story = fuzz.draw(seed)\n"
        "    print(fuzz.write(story, fuzz.play(story)))\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "7")
    }
    assert len(found) == 1


def test_every_operation_and_every_fault_happens_in_some_seed():
    stories = [fuzz.draw(seed) for seed in range(60)]
    assert {op.verb for story in stories for op in story.ops} == {*VERBS, *MORE_VERBS}
    drawn = {(each.kind, each.effect) for story in stories for each in story.decisions}
    assert drawn == {(kind, effect) for kind, effects in EFFECTS.items() for effect in effects}


# -- as text -----------------------------------------------------------------------------------------

HEAD = "world policy=fcfs match=first nodes=4"


def test_a_story_is_read_as_it_was_written():
    story = fuzz.draw(3)
    assert fuzz.read(fuzz.write(story), "x") == story
    assert fuzz.read(fuzz.write(story, fuzz.play(story)), "x") == story


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "x: the first line must be"),
        ("world policy=fcfs match=none nodes=4", "x: policies are fcfs, easy"),
        (
            "world policy=fcfs match=first nodes=4\n\nfly 1 2 3 then 0",
            "x:3: `fly 1 2 3 then 0` cannot be read",
        ),
        (
            "world policy=fcfs match=first nodes=4\njoin 1 2 3 then 5",
            "x:2: `join 1 2 3 then 5` cannot be read",
        ),
        ("world policy=fcfs match=first nodes=4\nfault bind 1 odd", "x:2: `fault bind 1 odd` cannot be read"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(text: str, said: str):
    with pytest.raises(ValueError, match="x") as error:
        fuzz.read(text, "x")
    assert str(error.value).startswith(said)


def test_a_decision_is_about_one_time_only_and_ends_with_the_faults():
    faults = Decided([Decision("plan", 2, "late-700"), Decision("plan", 3, "late-40")])
    assert [faults.plan_delay(), faults.plan_delay()] == [0, 700]
    faults.off = True
    assert faults.plan_delay() == 0


# -- the command -------------------------------------------------------------------------------------


def simulate(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["simulate", *words])
    return done.exit_code, done.stdout


def test_the_command_says_that_nothing_was_broken():
    assert simulate("--faults", "1", "--seeds", "3") == (0, "3 worlds: nothing was broken\n")
    code, text = simulate("--faults", "1", "-o", "json")
    assert (code, msgspec.json.decode(text)) == (0, {"played": 1, "failure": None})


@pytest.fixture
def _broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever asks for more than one member is broken."""

    def submit(_: object, op: Op) -> str:
        if op.a % 4:
            raise BrokenError([f"group {op.a} of many"])
        return ""

    monkeypatch.setattr("fairlead.sim.ops.Busy._op_submit", submit)


@pytest.mark.usefixtures("_broken")
def test_a_broken_world_is_told_in_few_lines_that_can_be_played_again(tmp_path: Path):
    code, text = simulate("--faults", "1", "--seeds", "9")
    assert code == 1
    assert "submit 1 0 0 then 0" in text
    assert text.endswith("s: broken:\n#   group 1 of many\n")
    assert len(text.splitlines()) < 8
    assert simulate("--faults", "1", "--seeds", "9") == (1, text)
    (tmp_path / "small.txt").write_text(text)
    code, again = simulate("--faults", str(tmp_path / "small.txt"))
    assert code == 1
    assert again.splitlines()[1:] == text.splitlines()[2:]
    code, answer = simulate("--faults", "1", "--seeds", "9", "-o", "json")
    failure = msgspec.json.decode(answer, type=simulate_faults.Answer).failure
    assert code == 1
    assert failure is not None
    assert (failure.wrong, failure.operations, failure.faults) == (["group 1 of many"], 1, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say what is to be played"),
        (("--seeds", "3"), "--seeds and --steps go with --faults"),
        (("--faults", "1", "--procs", "3"), "--faults goes with --seeds"),
        (("--faults", "no-such-file"), "neither a number nor a file"),
        (("log.swf", "--faults", "1"), "--faults goes with --seeds"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(words: tuple[str, ...], said: str):
    done = CliRunner().invoke(app, ["simulate", *words])
    assert done.exit_code != 0
    assert said in str(done.exception)
