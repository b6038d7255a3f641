"""docs/library.md is true: its example runs, in a process without Kubernetes, database and network."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "library.md").read_text(), re.DOTALL))

AFTER = """
import sys
apart = ("fairlead.kube", "fairlead.store", "fairlead.api", "fairlead.runtime", "fairlead.cli")
others = ("aiohttp", "psycopg", "starlette", "uvicorn", "lightkube", "grpc", "typer", "asyncio", "socket")
print([name for name in sys.modules if name in others or name.startswith(apart)])
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_I15_the_example_of_the_library_runs_and_imports_nothing_of_kubernetes() -> None:
    assert CODE.count("assert ") >= 7
    done = run(CODE + AFTER)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("line", [line for line in CODE.splitlines() if line.startswith("assert ")])
def test_I15_each_claim_of_the_example_can_fail(line: str) -> None:
    done = run(CODE.replace(line, f"assert not ({line.removeprefix('assert ')})"))
    assert "AssertionError" in done.stderr


def test_I15_what_the_page_names_is_there() -> None:
    from fairlead.core.tree.find import Found
    from fairlead.core.tree.graph import Graph, Op
    from fairlead.wire import grug, jgf, rv1

    page = (ROOT / "docs" / "library.md").read_text()
    named = re.findall(r"`Graph\.(\w+)`", page)
    assert set(named) >= {"match", "cancel", "release", "reinstate", "attach", "remove"}
    assert all(callable(getattr(Graph, name)) for name in named)
    assert all(f"`{op.value}`" in page for op in Op)
    assert all(callable(each) for each in (grug.read, jgf.read, jgf.whole, rv1.read, Found))
