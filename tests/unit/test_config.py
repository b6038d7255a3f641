"""The configuration file and the options beside it: what they mean together, and every mistake in a line."""

import re
import sys
from pathlib import Path

import pytest
import structlog

from fairlead.cli import main
from fairlead.core import durations
from fairlead.core.policy import UNLIMITED, lookahead
from fairlead.model.event import Configured, Event
from fairlead.model.layout import TOPOLOGY
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import (
    HYBRID_DEPTH,
    MATCHES,
    MOST_PROMISES,
    ORDERS,
    POLICIES,
    PartitionSettings,
    QueueSettings,
    Settings,
    single,
)
from fairlead.runtime.config import Given, settings
from fairlead.runtime.errors import ConfigError
from fairlead.runtime.reloading import Reloading

HOUR = 3_600_000
FULL = """
scheduler-name: hpc
match: pack
pace: 200ms
retention: 14d
queues:
  - name: short
    policy: easy
    order: shortest
    default-walltime: 15m
    max-walltime: 3600      # seconds
  - name: default
    policy: conservative
    max-reservations: 0
    queue-depth: 500
  - name: gpu
    policy: hybrid
    reservation-depth: 8
    partition: gpus
partitions:
  - name: gpus
    nodeSelector:
      matchLabels:
        pool: gpu
      matchExpressions:
        - {key: zone, operator: NotIn, values: [b, a]}
        - {key: gpus, operator: Gt, values: ["3"]}
        - {key: example.com/whole, operator: Exists}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "fairlead.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def read(folder: Path, text: str, **given: object) -> Settings:
    return settings(Given(config=written(folder, text), **given))  # type: ignore[arg-type]


def complaint(folder: Path, text: str, **given: object) -> str:
    """What is said about this file, without its path."""
    with pytest.raises(ConfigError) as raised:
        read(folder, text, **given)
    said = str(raised.value)
    assert "\n" not in said
    return said.removeprefix(f"{folder}/")


def failing(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that the program says before it ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fairlead", *words])
        with pytest.raises(SystemExit) as end:
            main.main()
    assert end.value.code == 1
    return capsys.readouterr().err.rstrip("\n")


# -- what it means -----------------------------------------------------------------------------------


def test_every_key(tmp_path: Path):
    found = read(tmp_path, FULL)
    assert found == Settings(
        queues=(
            QueueSettings("short", "easy", order="shortest", walltime=HOUR // 4, longest=HOUR),
            QueueSettings("default", "conservative", promises=0, looks=500),
            QueueSettings("gpu", "hybrid", depth=8, partition="gpus"),
        ),
        partitions=(
            PartitionSettings(
                "gpus",
                (
                    Expression("example.com/whole", Operator.EXISTS),
                    Expression("gpus", Operator.GT, ("3",)),
                    Expression("pool", Operator.IN, ("gpu",)),
                    Expression("zone", Operator.NOT_IN, ("a", "b")),
                ),
            ),
        ),
        match="pack",
        scheduler="hpc",
        pace=200,
        retention=14 * 24 * HOUR,
    )


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "{}\n", "queues: []\n"])
def test_an_empty_file_says_nothing(tmp_path: Path, text: str):
    assert read(tmp_path, text) == Settings() == settings(Given())


def test_default_is_always_there_with_the_policy_of_the_command_line(tmp_path: Path):
    found = read(tmp_path, "queues: [{name: wide, policy: easy}]", policy="conservative", looks=7)
    assert found.queues == (QueueSettings("default", "conservative", looks=7), QueueSettings("wide", "easy"))


def test_options_fill_in_what_the_file_does_not_say_of_default(tmp_path: Path):
    text = "queues: [{name: wide}, {name: default, max-walltime: 2h}]"
    found = read(tmp_path, text, policy="hybrid", depth=3, match="spread", scheduler="mine")
    assert found.queues == (QueueSettings("wide"), QueueSettings(policy="hybrid", depth=3, longest=2 * HOUR))
    assert (found.match, found.scheduler) == ("spread", "mine")


def test_an_option_may_repeat_the_file(tmp_path: Path):
    text = "match: pack\nqueues: [{name: default, policy: hybrid, reservation-depth: 0, queue-depth: 9}]"
    given = {"match": "pack", "policy": "hybrid", "depth": 0, "looks": 9}
    assert read(tmp_path, text, **given) == read(tmp_path, text)


@pytest.mark.parametrize(
    ("line", "option", "told"),
    [
        ("policy: easy", {"policy": "fcfs"}, "policy: is 'easy', but the command line says --policy fcfs"),
        (
            "policy: hybrid, reservation-depth: 4",
            {"depth": 5},
            "reservation-depth: is 4, but the command line says --reservation-depth 5",
        ),
        ("queue-depth: 10", {"looks": 0}, "queue-depth: is 10, but the command line says --queue-depth 0"),
    ],
)
def test_an_option_that_contradicts_the_file(tmp_path: Path, line: str, option: dict[str, object], told: str):
    text = f"queues:\n- name: wide\n- {{name: default, {line}}}\n"
    said = complaint(tmp_path, text, **option)
    assert said == f"fairlead.yaml:3: queues[1].{told}: leave one of them out"


def test_match_and_name_may_not_contradict_either(tmp_path: Path):
    said = complaint(tmp_path, "match: pack", match="first")
    assert (
        said
        == "fairlead.yaml:1: match: is 'pack', but the command line says --match first: leave one of them out"
    )
    assert "--scheduler-name b" in complaint(tmp_path, "scheduler-name: a", scheduler="b")


# -- reservation depths ------------------------------------------------------------------------------

DEPTHS = [(-1, 0), (0, UNLIMITED), (1, 1), (64, 64)]


@pytest.mark.parametrize(("depth", "reservations"), DEPTHS)
def test_F25_reservation_depth_on_the_command_line(depth: int, reservations: int):
    (queue,) = settings(Given(policy="hybrid", depth=depth)).queues
    assert queue == QueueSettings(policy="hybrid", depth=depth)
    assert (lookahead(queue).depth, lookahead(queue).overtake) == (reservations, True)


@pytest.mark.parametrize(("depth", "reservations"), DEPTHS)
def test_F25_reservation_depth_in_the_file(tmp_path: Path, depth: int, reservations: int):
    found = read(tmp_path, f"queues: [{{name: wide, policy: hybrid, reservation-depth: {depth}}}]")
    queue = found.queue("wide")
    assert queue is not None and queue.depth == depth
    assert lookahead(queue).depth == reservations


def test_F25_hybrid_without_a_depth_has_the_usual_one():
    assert settings(Given(policy="hybrid")).queues == single("hybrid", HYBRID_DEPTH)


@pytest.mark.parametrize("depth", [-2, -100])
def test_F25_depths_below_minus_one_are_refused_at_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], depth: int
):
    rule = "must be -1 (no reservations), 0 (one for every waiting group) or how many, at most 1000000"
    said = failing(capsys, "scheduler", "--policy", "hybrid", "--reservation-depth", str(depth))
    assert said == f"fairlead: --reservation-depth {depth}: {rule}"
    text = f"queues:\n- name: wide\n  policy: hybrid\n  reservation-depth: {depth}\n"
    assert complaint(tmp_path, text) == f"fairlead.yaml:4: queues[0].reservation-depth: is {depth}: {rule}"


@pytest.mark.parametrize("policy", ["", "fcfs", "easy", "conservative", "replan"])
def test_F25_a_depth_with_another_policy_is_refused_at_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str
):
    rule = "only the policy hybrid has a reservation depth, and that of queue"
    option = ["--policy", policy] if policy else []
    said = failing(capsys, "scheduler", *option, "--reservation-depth", "1")
    assert said == f"fairlead: --reservation-depth 1: {rule} default is {policy or 'fcfs'}"
    key = f", policy: {policy}" if policy else ""
    said = complaint(tmp_path, f"queues: [{{name: wide{key}, reservation-depth: 1}}]")
    assert said == f"fairlead.yaml:1: queues[0].reservation-depth: is 1: {rule} wide is {policy or 'fcfs'}"


def test_F25_the_command_line_sets_the_policy_that_the_depth_in_the_file_needs(tmp_path: Path):
    text = "queues: [{name: default, reservation-depth: 2}]"
    assert read(tmp_path, text, policy="hybrid").queues == single("hybrid", 2)
    assert "that of queue default is easy" in complaint(tmp_path, text, policy="easy")


@pytest.mark.parametrize("looks", [-1, 1_000_001])
def test_queue_depth_out_of_range(capsys: pytest.CaptureFixture[str], looks: int):
    said = failing(capsys, "scheduler", "--queue-depth", str(looks))
    assert said == f"fairlead: --queue-depth {looks}: must be from 0 (all groups) to 1000000"


# -- mistakes ----------------------------------------------------------------------------------------

QUEUE_KEYS = (
    "name, policy, reservation-depth, order, default-walltime, max-walltime, partition, queue-depth,"
    " max-reservations"
)
CHOICES = "choose one of:"
NO_NAME = "is no name: 1 to 63 letters, digits, '-', '_' or '.', no sign at an end"
TOP = "scheduler-name, match, pace, retention, topology, queues, partitions, policy-function"
DURATION = "is no duration above zero such as 90s, 2h30m or 3600 (seconds)"
QUOTES = "a text (put it into quotes if it is meant as one)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queue: []", f"1: queue: unknown key 'queue'; known here: {TOP}"),
        (
            "queues:\n- name: a\n  polcy: easy",
            f"3: queues[0].polcy: unknown key 'polcy'; known here: {QUEUE_KEYS}",
        ),
        ("queues:\n- policy: easy", "2: queues[0]: the key 'name' is missing"),
        ("queues: easy", "1: queues: is 'easy', but must be a list"),
        ("queues:\n- easy", "2: queues[0]: is 'easy', but must be keys with values"),
        ("queues:", "1: queues: is empty, but must be a list"),
        ("- name: a", "1: is a list, but must be keys with values"),
        ("queues:\n- name: 12", f"2: queues[0].name: is 12, but must be {QUOTES}"),
        ("queues:\n- name: a\n  policy: yes", f"3: queues[0].policy: is true, but must be {QUOTES}"),
        (
            "queues:\n- name: a\n  queue-depth: many",
            "3: queues[0].queue-depth: is 'many', but must be a whole number",
        ),
        (
            "queues: [{name: a, queue-depth: 1.5}]",
            "1: queues[0].queue-depth: is '1.5', but must be a whole number",
        ),
        (
            "queues: [{name: a, queue-depth: -1}]",
            "1: queues[0].queue-depth: is -1: must be from 0 (no bound) to 1000000",
        ),
        (
            "queues:\n- name: a\n- name: b\n- name: a",
            "4: queues[2].name: queues[0] has the name 'a' already: names stand once",
        ),
        (
            "queues:\n- name: a\n  name: b",
            "3: queues[0].name: stands twice (first in line 2); keep one of them",
        ),
        ("queues: [{name: a/b}]", f"1: queues[0].name: 'a/b' {NO_NAME}"),
        (
            "queues: [{name: a, policy: fastest}]",
            f"1: queues[0].policy: 'fastest' is unknown; {CHOICES} {', '.join(POLICIES)}",
        ),
        (
            "queues: [{name: a, order: random}]",
            f"1: queues[0].order: 'random' is unknown; {CHOICES} priority, fifo, shortest",
        ),
        ("match: best", f"1: match: 'best' is unknown; {CHOICES} first, pack, spread, locality"),
        (
            "queues: [{name: a, partition: gpu}]",
            "1: queues[0].partition: 'gpu' is unknown; the file has no partitions",
        ),
        ("queues: [{name: a, max-walltime: 2x}]", f"1: queues[0].max-walltime: '2x' {DURATION}"),
        ("queues: [{name: a, max-walltime: 0}]", f"1: queues[0].max-walltime: 0 {DURATION}"),
        ("queues: [{name: a, max-walltime: 08:30:00}]", f"1: queues[0].max-walltime: '08:30:00' {DURATION}"),
        ("queues: [{name: a, max-walltime: 24:00:00}]", f"1: queues[0].max-walltime: '24:00:00' {DURATION}"),
        (
            "queues: [{name: a, max-walltime: true}]",
            "1: queues[0].max-walltime: is true, but must be a whole number or a text",
        ),
        (
            "queues: [{name: a, max-walltime: 40000d}]",
            "1: queues[0].max-walltime: '40000d' is more than 36500d",
        ),
        ("pace: 2m", "1: pace: '2m' is more than 1m"),
        (
            "queues:\n- name: a\n  max-walltime: 1h\n  default-walltime: 90m",
            "4: queues[0].default-walltime: 1h30m is above the queue's max-walltime 1h",
        ),
        ("queues: [{name: esi}]", "1: queues[0].name: is 'esi', where pods of Testbeds wait"),
        (
            "queues: [{name: a, policy: easy, max-reservations: 3}]",
            "1: queues[0].max-reservations: only the policy conservative has it, and that of queue a is easy",
        ),
        ("scheduler-name: ''", f"1: scheduler-name: '' {NO_NAME}"),
        ("a: [1, 2", "1: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n---\nb: 2", "2: not YAML: but found another document"),
        (
            "a: &a [*a]",
            "1: a[0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0][0]: more than 20 levels deep",
        ),
        ("? [a]\n: 1", "1: a key is not a text"),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str, said: str):
    assert complaint(tmp_path, text) == f"fairlead.yaml:{said}"


@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ("{}", "nodeSelector: selects every node: name labels, or leave the partition out"),
        (
            "{labels: {a: b}}",
            "nodeSelector.labels: unknown key 'labels'; known here: matchLabels, matchExpressions",
        ),
        (
            "{matchLabels: {gpu: true}}",
            "nodeSelector.matchLabels.gpu: is true, not a text: put it into quotes",
        ),
        ("{matchLabels: {'a b': c}}", "nodeSelector.matchLabels: 'a b' is not the key of a label"),
        (
            "{matchExpressions: [{key: a, operator: is}]}",
            f"nodeSelector.matchExpressions[0].operator: 'is' is unknown; {CHOICES}"
            " In, NotIn, Exists, DoesNotExist, Gt, Lt",
        ),
        ("{matchExpressions: [{key: a, operator: In}]}", "nodeSelector.matchExpressions[0]: In needs values"),
        (
            "{matchExpressions: [{key: a, operator: Exists, values: [b]}]}",
            "nodeSelector.matchExpressions[0].values: Exists takes no values",
        ),
        (
            "{matchExpressions: [{key: a, operator: Gt, values: [b]}]}",
            "nodeSelector.matchExpressions[0]: Gt needs one value, a whole number in quotes",
        ),
        (
            "{matchExpressions: [{key: a, operator: In, values: [1]}]}",
            f"nodeSelector.matchExpressions[0].values[0]: is 1, but must be {QUOTES}",
        ),
        (
            "{matchExpressions: [{key: a, operator: In, value: [b]}]}",
            "nodeSelector.matchExpressions[0].value: unknown key 'value'; known here: key, operator, values",
        ),
    ],
)
def test_mistakes_in_a_partition(tmp_path: Path, selector: str, said: str):
    text = f"partitions:\n- name: gpus\n  nodeSelector: {selector}\n"
    assert complaint(tmp_path, text) == f"fairlead.yaml:3: partitions[0].{said}"


def test_unknown_partitions_are_told_which_there_are(tmp_path: Path):
    parts = "partitions: [{name: a, nodeSelector: {matchLabels: {x: y}}}]\n"
    said = complaint(tmp_path, parts + "queues: [{name: q, partition: b}]")
    assert said == "fairlead.yaml:2: queues[0].partition: 'b' is unknown; choose one of: a"


def test_aliases_cannot_multiply_without_end(tmp_path: Path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert "more than 100000 values" in complaint(tmp_path, "\n".join(lines))


def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    missing = tmp_path / "nowhere.yaml"
    said = failing(capsys, "scheduler", "--config", str(missing))
    assert said == f"fairlead: {missing}: No such file or directory; name a file that can be read"
    with pytest.raises(ConfigError, match=r"Is a directory; name a file"):
        settings(Given(config=tmp_path))
    (tmp_path / "bytes").write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match=r"not a text in UTF-8 \(byte 4\)"):
        settings(Given(config=tmp_path / "bytes"))
    (tmp_path / "control").write_bytes(b"a: \x01")
    with pytest.raises(ConfigError, match=r"not YAML: "):
        settings(Given(config=tmp_path / "control"))


def test_I8_levels_are_label_keys_from_the_widest_on(tmp_path: Path):
    assert read(tmp_path, "pace: 50ms").topology == TOPOLOGY
    assert read(tmp_path, "topology: [example.com/row, rack]").topology == ("example.com/row", "rack")
    assert read(tmp_path, "topology: []").topology == ()
    for text, words in (
        ("topology: [a b]", "topology[0]: 'a b' is not the key of a label"),
        ("topology: [rack, rack]", "topology[1]: rack stands there already: levels stand once"),
        ("topology: [kubernetes.io/hostname]", "topology[0]: kubernetes.io/hostname is there anyhow"),
    ):
        assert words in complaint(tmp_path, text)


# -- what is written about it ------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_examples_can_be_read(tmp_path: Path):
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found = read(tmp_path, example)
    assert [queue.policy for queue in found.queues] == ["easy", "conservative", "fcfs", "hybrid"]
    deployed = settings(Given(config=ROOT / "deploy" / "fairlead.yaml"))
    assert [queue.name for queue in deployed.queues] == [queue.name for queue in found.queues]


def test_the_page_names_every_key_and_every_choice(tmp_path: Path):
    keys = {
        key for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for key in re.findall("`(.*?)`", row)
    }
    known = re.findall(
        "known here: (.*)",
        "\n".join(
            complaint(tmp_path, text)
            for text in ("x: 1", "queues: [{x: 1}]", "policy-function: {function: a:b, x: 1}")
        ),
    )
    assert keys == {key for line in known for key in line.split(", ")}
    assert re.findall(r"^- `([a-z]+)`: ", PAGE, re.MULTILINE) == [
        "fcfs",
        "easy",
        "conservative",
        "hybrid",
        "replan",
    ]
    assert set(POLICIES) | set(ORDERS) | set(MATCHES) <= set(re.findall("`([a-z]+)`", PAGE))


def test_the_defaults_of_the_page_are_those_of_the_model():
    last = dict(re.findall(r"^\| `([a-z-]+)` \|.*\| (.*?) \|$", PAGE, re.MULTILINE))
    normal, queue = Settings(), QueueSettings()
    assert [durations.duration(last[key].strip("`")) for key in ("pace", "retention")] == [
        normal.pace, normal.retention,
    ]  # fmt: skip
    named = {
        "policy": queue.policy,
        "order": queue.order,
        "match": normal.match,
        "scheduler-name": normal.scheduler,
    }
    assert {key: last[key].strip("`") for key in named} == named
    assert [int(last[key]) for key in ("reservation-depth", "max-reservations", "queue-depth")] == [
        HYBRID_DEPTH, MOST_PROMISES, queue.looks,
    ]  # fmt: skip


# -- reading it again --------------------------------------------------------------------------------


class Inbox:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def put(self, events: list[Event]) -> None:
        self.events += events


def reloading(path: Path, **given: object) -> tuple[Reloading, Inbox]:
    wanted = Given(config=path, **given)  # type: ignore[arg-type]
    inbox = Inbox()
    return Reloading(wanted, settings(wanted), inbox), inbox


def test_a_changed_file_becomes_an_event_once(tmp_path: Path):
    path = written(tmp_path, "queues: [{name: default, policy: fcfs}]")
    reload, inbox = reloading(path)
    reload()
    assert inbox.events == []  # nothing has changed
    written(tmp_path, "queues: [{name: default, policy: easy}, {name: wide}]")
    reload()
    reload()
    assert inbox.events == [Configured(settings(Given(config=path)))]
    assert inbox.events[0].settings.queues[0].policy == "easy"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("queues: [{name: default, policy: fastest}]", "'fastest' is unknown"),
        ("queues: [", "not YAML"),
        ("scheduler-name: other", "scheduler-name has changed, which needs a restart"),
        ("retention: 1d", "retention has changed, which needs a restart"),
        ("queues: [{name: default, policy: fcfs}]", "the command line says --policy easy"),
    ],
)
def test_a_refused_file_leaves_everything_as_it_was(tmp_path: Path, text: str, why: str):
    path = written(tmp_path, "queues: [{name: wide}]")
    reload, inbox = reloading(path, policy="easy")
    before = reload.present
    written(tmp_path, text)
    with structlog.testing.capture_logs() as logs:
        reload()
    assert inbox.events == [] and reload.present == before
    assert [line["event"] for line in logs] == ["configuration refused: the old one goes on"]
    assert why in logs[0]["error"] and logs[0]["log_level"] == "error"


def test_a_file_that_is_gone_leaves_everything_as_it_was(tmp_path: Path):
    reload, inbox = reloading(written(tmp_path, "match: pack"))
    (tmp_path / "fairlead.yaml").unlink()
    reload()
    assert inbox.events == [] and reload.present.match == "pack"


def test_the_defaults_of_the_file_are_those_of_the_model(tmp_path: Path):
    found = read(tmp_path, "queues: [{name: a, policy: conservative}]").queue("a")
    assert found == QueueSettings("a", "conservative", promises=MOST_PROMISES)
