"""Random worlds from seeds: the same seed gives the same world, the same faults and the same end.

`draw` makes a story of a seed, `play` lets it happen to the real engine and looks at each step and at the
rest, `write` and `read` are its form as text. Called by `fairlead simulate --faults` and by tests;
`sim.shrink` makes a failing story small. Must not use a clock, nor chance but the seed's.
"""

import random
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fairlead.core.engine import Engine
from fairlead.core.mistake import mistake
from fairlead.model.settings import Settings, single
from fairlead.sim.chaos import BrokenError, Chaos
from fairlead.sim.faults import EFFECTS, Decided, Decision
from fairlead.sim.ops import MORE_VERBS, PAUSES, VERBS, Op
from fairlead.sim.rest import resting

STEPS, NODES = 40, 4
_REST = 300_000
"""Milliseconds without faults until a world must be at rest."""
_POLICIES = ("fcfs", "fcfs", "easy", "hybrid", "conservative")
_MATCHES = ("first", "pack", "spread")
_ALWAYS = ("submit", "timed", "bring", "foreign", "delete", "delete_all", "nothing")
_OFTEN = ("delete", "delete_all")
"""What is gone must stay gone: that needs pods that go while there is news of them on its way."""
_ASKED = {"bind": 60, "answer": 60, "plan": 60, "watch": 250, "store": 80, "commit": 40, "source": 40}
"""How often a kind of question may be answered with a fault; of the others 10 times."""
_RATES = (0.02, 0.08, 0.25)


class Story(NamedTuple):
    """All of a world: what it is, what happens to it, what goes wrong."""

    policy: str
    match: str
    nodes: int
    ops: tuple[Op, ...]
    decisions: tuple[Decision, ...]


class Told(NamedTuple):
    """What came of a story: what each operation did (time, words), and what was broken in the end."""

    lines: tuple[tuple[int, str], ...]
    wrong: tuple[str, ...]
    at: int


def draw(seed: int, steps: int = STEPS, nodes: int = NODES) -> Story:
    """The story of a seed. Each has its own taste: some things happen often in it, others never."""
    chance = random.Random(seed)
    verbs = [verb for verb in (*VERBS, *MORE_VERBS, *_OFTEN) if verb in _ALWAYS or chance.random() < 0.6]

    def number() -> int:
        return chance.randrange(12)

    joins = [Op("join", i, number(), number(), 0) for i in range(nodes)]
    ops = [
        Op(chance.choice(verbs), number(), number(), number(), chance.randrange(len(PAUSES)))
        for _ in range(steps)
    ]
    decisions: list[Decision] = []
    for kind, effects in EFFECTS.items():
        rate = chance.choice(_RATES) * (2 if kind == "watch" else 1) if chance.random() < 0.5 else 0.0
        times = [n for n in range(1, _ASKED.get(kind, 10) + 1) if chance.random() < rate]
        decisions += [Decision(kind, n, chance.choice(effects)) for n in times]
    policy, match = chance.choice(_POLICIES), chance.choice(_MATCHES)
    return Story(policy, match, nodes, (*joins, *ops), tuple(decisions))


def play(story: Story, engine: type[Engine] = Engine) -> Told:
    """Let the story happen, then let the world come to rest; stops at the first thing that is broken."""
    faults = Decided(story.decisions)
    lines: list[tuple[int, str]] = []
    queues = single(story.policy, depth=2)
    world = Chaos(Settings(match=story.match, pace=0, queues=queues), faults, engine)
    world.most_nodes = max(world.most_nodes, story.nodes)
    zero = world.now
    try:
        for op in story.ops:
            at = world.now
            lines.append((at - zero, ""))
            lines[-1] = (at - zero, world.do(op))
        faults.off = True
        world.settle(_REST)
        wrong = resting(world)
    except BrokenError as error:
        wrong = list(error.wrong)
    except Exception as error:  # the engine's, on the way of which nobody sets anything aside
        wrong = [f"the engine stumbles: {mistake(error)}"]
    return Told(tuple(lines), tuple(wrong), world.now - zero)


def kind_of(wrong: Iterable[str]) -> str:
    """The first broken invariant without names and numbers: what a smaller story must break, too."""
    return re.sub(r"\S*\d\S*", "#", next(iter(wrong), ""))[:60]


# -- as text -----------------------------------------------------------------------------------------

_HEAD = re.compile(r"world policy=(\S+) match=(\S+) nodes=(\d+)$")


def write(story: Story, told: Told | None = None) -> str:
    """One line per operation, with its time and what it came to, and one per fault."""
    said = told.lines if told is not None else ()
    rows = [f"world policy={story.policy} match={story.match} nodes={story.nodes}"]
    rows += [f"fault {each.kind} {each.number} {each.effect}" for each in story.decisions]
    for i, op in enumerate(story.ops):
        at, words = said[i] if i < len(said) else (-1, "not reached")
        time = f"{at / 1000:.3f} s: " if at >= 0 else ""
        text = f"{op.verb} {op.a} {op.b} {op.c} then {PAUSES[op.pause]}"
        rows.append(f"{text:<32}# {time}{words}" if told is not None else text)
    return "\n".join(rows) + "\n"


def read(text: str, name: str) -> Story:
    """The story of such a text. Raises ValueError: which line cannot be read, and why."""
    lines = [(n, line.partition("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1)]
    lines = [(n, line) for n, line in lines if line]
    head = _HEAD.match(lines[0][1]) if lines else None
    if head is None:
        raise ValueError(f"{name}: the first line must be `world policy=… match=… nodes=…`")
    if head[1] not in _POLICIES or head[2] not in _MATCHES:
        raise ValueError(f"{name}: policies are {', '.join(_POLICIES[1:])}, matches {', '.join(_MATCHES)}")
    ops: list[Op] = []
    decisions: list[Decision] = []
    for number, line in lines[1:]:
        try:
            if line.startswith("fault "):
                decisions.append(_decision(line.split()))
            else:
                ops.append(_op(line.split()))
        except (ValueError, IndexError) as error:
            raise ValueError(f"{name}:{number}: `{line}` cannot be read: {error}") from None
    return Story(head[1], head[2], int(head[3]), tuple(ops), tuple(decisions))


def _decision(words: list[str]) -> Decision:
    _, kind, number, effect = words
    if effect not in EFFECTS.get(kind, ()):
        raise ValueError(f"there is no fault {kind!r} {effect!r}")
    return Decision(kind, int(number), effect)


def _op(words: list[str]) -> Op:
    verb, a, b, c, _, pause = words
    if verb not in VERBS + MORE_VERBS:
        raise ValueError(f"{verb!r} is no operation")
    return Op(verb, int(a), int(b), int(c), PAUSES.index(int(pause)))


# -- many seeds --------------------------------------------------------------------------------------


def failing(
    seeds: Iterable[int],
    steps: int = STEPS,
    nodes: int = NODES,
    engine: type[Engine] = Engine,
    told: Callable[[int], None] = lambda _: None,
) -> int | None:
    """The first seed whose story breaks something; None if none does. `told` hears of each that is done."""
    for seed in seeds:
        if play(draw(seed, steps, nodes), engine).wrong:
            return seed
        told(seed)
    return None
