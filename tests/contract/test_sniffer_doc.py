"""docs/sniffer.md is true: its commands run on a log, and tell what it says."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest
import yaml
from store_support import fresh_database

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "sniffer.md").read_text(encoding="utf-8")
FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
BLOCKS = [line.removeprefix("    ") for line in TEXT.splitlines() if line.startswith("    ")]
COMMANDS = [shlex.split(line) for line in BLOCKS if line.startswith("fairlead ")]


def run(words: list[str], folder: Path) -> str:
    env = {**os.environ, "TZ": "UTC", "COLUMNS": "110"}
    done = subprocess.run(
        [FAIRLEAD, *words[1:]], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def url(tcp_url: str):
    with fresh_database(tcp_url) as found:
        yield found


def test_RB1_what_the_document_says_of_a_log_is_so(url: str, tmp_path: Path):
    shutil.copy(ROOT / "tests" / "data" / "sniffer" / "small.log", tmp_path / "sniffer.log")
    asking = [words for words in COMMANDS if words[1] == "history" or words[1:3] == ["recorder", "import"]]
    assert len(asking) == 6
    told = {" ".join(words[1:3]): run([*words, "--database-url", url], tmp_path) for words in asking}
    shown = [line for line in BLOCKS if line.startswith(("sniffer.log:", "4 pods", "new in", "line "))]
    assert told["recorder import"].splitlines()[: len(shown)] == shown
    assert "train-0-x7k2p" in told["history pods"]
    (plot,) = json.loads((tmp_path / "nodes.json").read_text())
    assert plot["data"]["values"]["data"][0] == [1, 0, 1]
    times = json.loads((tmp_path / "pod-times.json").read_text())
    assert list(times) == ["train-0-x7k2p", "train-1-b69br"]
    assert times["train-0-x7k2p"]["end"] == "2024-04-23 19:51:18.050000"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_its_options_are_known(words: list[str], tmp_path: Path):
    names = list(takewhile(lambda word: not word.startswith("-"), words))
    if names == ["fairlead", "recorder"]:
        names.append("run")
    told = run([*names[: 3 if names[1] in ("history", "recorder") else 2], "--help"], tmp_path)
    for option in (word for word in words if word.startswith("--")):
        assert option in told


def test_the_hooks_tell_what_they_are():
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    container = yaml.safe_load(block)
    names = {each["name"] for each in container["env"]}
    assert names == {"SNIFFER_ADDRESS", "SNIFFER_NODE_NAME", "SNIFFER_POD_NAME"}
    assert list(container["lifecycle"]) == ["postStart", "preStop"]
    for stage, hook in container["lifecycle"].items():
        words = shlex.split(hook["exec"]["command"][2])
        assert words[:2] == ["fairlead", "notify"]
        assert words[2:] == ["--address", "$SNIFFER_ADDRESS", "--stage", stage, "--event", stage]
