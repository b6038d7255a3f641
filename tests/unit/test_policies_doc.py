"""docs/policies.md: its commands print what it shows, its examples work, its names are the program's.

`FAIRLEAD_BLESS=1` writes the output anew.
"""

import os
import re
from pathlib import Path

import msgspec
import pytest
from policy_support import busy, under
from prometheus_client import CollectorRegistry
from test_simulate_doc import BLOCK, played

from fairlead.core.engine import Engine
from fairlead.model import outside
from fairlead.model.settings import PolicyFunction
from fairlead.runtime.config import Given, settings
from fairlead.runtime.policies import Policies
from fairlead.runtime.policy_worker import load
from fairlead.sim import play

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "policies.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_commands_of_the_page_print_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    for name in ("tests", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    found = played(TEXT)
    if os.environ.get("FAIRLEAD_BLESS") == "1":
        PAGE.write_text(found, encoding="utf-8")
    else:
        assert BLOCK.findall(TEXT) and found == TEXT


def test_F19_the_least_policy_of_the_page_is_one(tmp_path: Path):
    (source,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "least.py").write_text(source)
    own = PolicyFunction("least.py:smallest", "live", path=str(tmp_path))
    found = play.play(busy(), under(own), function=load(own.name, own.path))
    assert [row.outcome for row in found.rows] == ["completed"] * 40 and not found.refused


def test_the_configuration_of_the_page_can_be_read(tmp_path: Path):
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "policies").mkdir()
    path = tmp_path / "fairlead.yaml"
    path.write_text(example)
    own = PolicyFunction("shortest.py:shortest", "shadow", 500, str(tmp_path / "policies"))
    assert settings(Given(config=path)).function == own


def test_the_page_names_every_field_and_every_metric():
    said = set(re.findall(r"[a-z_]+", " ".join(re.findall("`(.*?)`", TEXT))))
    structs = (outside.View, outside.Nodes, outside.Task, outside.Waiting, outside.Running, outside.Start)
    for struct in (*structs, outside.Reserve, outside.Wait):
        missing = {field.name for field in msgspec.structs.fields(struct)} - said
        assert not missing, struct
    registry = CollectorRegistry()
    Policies(Engine(under(None)).state, registry)
    names = {sample.name for metric in registry.collect() for sample in metric.samples} | {
        f"{metric.name}_total" if metric.type == "counter" else metric.name for metric in registry.collect()
    }
    told = set(re.findall(r"fairlead_policy_function_[a-z_]+", TEXT))
    assert told == {name for name in names if not name.endswith(("_bucket", "_count", "_sum", "_created"))}
