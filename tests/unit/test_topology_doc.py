"""docs/topology.md: its commands print what it shows, its example can be read, its words are the program's.

`FAIRLEAD_BLESS=1` writes the output anew.
"""

import os
import re
from pathlib import Path

import pytest
import yaml
from test_simulate_doc import BLOCK, played

from fairlead.core import grouping, topology
from fairlead.core.labels import NodeClasses
from fairlead.model.layout import TOPOLOGY, Layout
from fairlead.model.node import Node

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "topology.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_commands_of_the_page_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    found = played(TEXT)
    if os.environ.get("FAIRLEAD_BLESS") == "1":
        PAGE.write_text(found, encoding="utf-8")
    else:
        assert BLOCK.findall(TEXT) and found == TEXT


def test_I8_the_example_of_the_page_says_what_it_means():
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (document,) = yaml.safe_load_all(example)
    notes = document["spec"]["template"]["metadata"]["annotations"]
    zone, rack = TOPOLOGY[1], TOPOLOGY[3]
    nodes = [Node("u", "n", 1, (), {zone: "a", rack: "r1"})]
    levels = topology.of(NodeClasses(nodes, [False]), TOPOLOGY)
    assert grouping.layout(notes, lambda: levels) == Layout(zone, rack, True)


def test_the_page_names_every_annotation_and_level():
    table = set(re.findall(r"^\| `(fairlead.dev/[a-z-]+)`", TEXT, re.MULTILINE))
    assert table == {grouping.REQUIRED_TOPOLOGY, grouping.PREFERRED_TOPOLOGY, grouping.EXCLUSIVE}
    assert re.findall(r"`(topology\.kubernetes\.io/[a-z]+)`", TEXT)[:4] == list(TOPOLOGY)
