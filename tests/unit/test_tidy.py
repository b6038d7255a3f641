"""The rules of tests/tidy.py and pyproject.toml hold for the whole tree, and each of them can fail."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

import tidy

LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def assert_none(rule: Callable[[str], list[str]], files: Iterable[tuple[str, str]]) -> None:
    """Fails with all complaints, one per line, written so that an editor can jump to them."""
    found = [f"{path}:{complaint}" for path, text in files for complaint in rule(text)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)


def src() -> Iterator[tuple[str, str]]:
    return tidy.python_files("src")


def deterministic() -> Iterator[tuple[str, str]]:
    return ((path, text) for path, text in src() if path.startswith(tidy.DETERMINISTIC))


# -- the tree ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", tidy.MAX_FILE)
def test_files_are_short(folder: str):
    assert_none(lambda text: tidy.file_size(text, tidy.MAX_FILE[folder]), tidy.python_files(folder))


def test_functions_are_short():
    assert_none(tidy.function_sizes, tidy.python_files("src", "tests", "bench"))


def test_modules_say_what_they_are_for():
    assert_none(tidy.module_docstring, src())


def test_only_the_command_line_prints():
    assert_none(tidy.prints, (file for file in src() if not file[0].startswith(tidy.MAY_PRINT)))


def test_engine_reads_no_clock_and_draws_no_chance():
    assert_none(tidy.clocks_and_chance, deterministic())


def test_engine_iterates_over_no_set():
    assert_none(tidy.set_iteration, deterministic())


def test_no_registry_host():
    assert_none(tidy.registry_hosts, tidy.tracked_files())


def test_no_path_of_one_machine():
    assert_none(tidy.home_paths, tidy.tracked_files())


def test_no_left_overs():
    assert_none(tidy.left_overs, tidy.tracked_files())


def test_no_lock_but_ours():
    assert tidy.foreign_locks(path for path, _ in tidy.tracked_files()) == []


def test_lock_has_every_dependency():
    project = tomllib.loads((tidy.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lock = (tidy.ROOT / "requirements.lock").read_text(encoding="utf-8")
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert tidy.not_locked(wanted, lock) == [], "run `make lock`"


def test_no_orphan_modules():
    modules = {path.removeprefix("src/")[:-3].replace("/", "."): text for path, text in src()}
    entry_points = (tidy.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    tests = [text for _, text in tidy.python_files("tests")]
    assert tidy.orphans(modules, entry_points, tests) == []


def test_every_decision_is_in_the_index():
    folder = tidy.ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in sorted(folder.glob("0*.md")) if f"]({path.name})" not in index] == []


# -- imports -----------------------------------------------------------------------------------------

SKELETON = (
    "model",
    "core",
    "control",
    "runtime",
    "wire",
    "draw",
    "kube",
    "store",
    "sim",
    "api",
    "cli",
    "localcluster",
)

ALLOWED = {
    "core/a.py": "import fairlead.model, heapq, msgspec",
    "control/a.py": "import fairlead.core.a",
    "runtime/a.py": "import fairlead.control.a, asyncio, time",
    "wire/a.py": "import fairlead.model, datetime",
    "kube/a.py": "import fairlead.runtime.a, fairlead.wire.a, fairlead.model",
    "draw/a.py": "import numpy",
    "sim/a.py": "import fairlead.wire.a, fairlead.draw.a",
    "localcluster/a.py": "import fairlead.model, subprocess",
    "cli/a.py": "import fairlead.kube.a, fairlead.localcluster.a, fairlead.store",
}

LAYERS, LEAF, APART, PURE = "one way", "command line only", "nothing of the scheduler", "No clock"

# What is done -> the contract that breaks, the file, its text.
BANNED = {
    "model looks up": (LAYERS, "model/b.py", "import fairlead.core.a"),
    "core looks up": (LAYERS, "core/b.py", "import fairlead.control"),
    "core knows a port": (LAYERS, "core/b.py", "import fairlead.store"),
    "runtime knows a port": (LAYERS, "runtime/b.py", "import fairlead.kube.a"),
    "the wire knows the runtime": (LAYERS, "wire/b.py", "import fairlead.runtime.a"),
    "a port knows another": (LAYERS, "kube/b.py", "import fairlead.store"),
    "a port knows the command line": (LAYERS, "api/b.py", "import fairlead.cli"),
    "a package has no place": (LAYERS, "extra/__init__.py", "import fairlead.model"),
    "a port uses the local cluster": (LEAF, "kube/b.py", "import fairlead.localcluster.a"),
    "the local cluster knows the engine": (APART, "localcluster/b.py", "import fairlead.core.a"),
    "a clock in core": (PURE, "core/b.py", "import time"),
    "a calendar in model": (PURE, "model/b.py", "from datetime import datetime"),
    "chance in control": (PURE, "control/b.py", "def f():\n    from random import shuffle"),
    "threads in core": (PURE, "core/b.py", "import threading"),
    "logging in control": (PURE, "control/b.py", "import structlog"),
}


def lint_imports(folder: Path, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs the repository's import rules on a made-up fairlead with these files."""
    package = folder / "fairlead"
    for name in ("", *SKELETON):
        (package / name).mkdir(parents=True, exist_ok=True)
        (package / name / "__init__.py").touch()
    for name, text in files.items():
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_text(text + "\n", encoding="utf-8")
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--no-logo", "--config", tidy.ROOT / "pyproject.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_point_one_way():
    run = subprocess.run(
        [LINT_IMPORTS, "--no-logo"], cwd=tidy.ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_import_rules_allow_what_is_meant(tmp_path: Path):
    run = lint_imports(tmp_path, ALLOWED)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("case", BANNED)
def test_import_rules_can_fail(tmp_path: Path, case: str):
    contract, name, text = BANNED[case]
    run = lint_imports(tmp_path, {**ALLOWED, name: text})
    assert run.returncode == 1, run.stdout + run.stderr
    # A broken contract is named once in the list of all and once above its details.
    assert any(contract in line and "KEPT" not in line for line in run.stdout.splitlines()), run.stdout


# -- every other rule can fail -----------------------------------------------------------------------

LONG = "def long():\n" + "    x = 1\n" * 70
REGISTRY = "https://" + "pypi" + ".org/simple"
HOME = "/" + "root/.cache"

BAD = [
    (lambda text: tidy.file_size(text, 400), "x = 1\n" * 401),
    (tidy.function_sizes, LONG),
    (tidy.function_sizes, "class A:\n" + "".join(f"    {line}\n" for line in LONG.splitlines())),
    (tidy.module_docstring, "x = 1\n"),
    (tidy.prints, "print('here')\n"),
    (tidy.left_overs, "x = 1  # TO" + "DO tidy up\n"),
    (tidy.left_overs, "-- FIX" + "ME\n"),
    (tidy.clocks_and_chance, "import time\nx = time.time()\n"),
    (tidy.clocks_and_chance, "x = datetime.datetime.now()\n"),
    (tidy.clocks_and_chance, "x = np.random.default_rng()\n"),
    (tidy.clocks_and_chance, "x = hash('name') % 7\n"),
    (tidy.set_iteration, "for x in {1, 2}:\n    pass\n"),
    (tidy.set_iteration, "for x in set(y):\n    pass\n"),
    (tidy.set_iteration, "z = [x for x in frozenset(y)]\n"),
    (tidy.set_iteration, "z = {x: 1 for x in set(y)}\n"),
    (tidy.set_iteration, "for x in a.keys() - b.keys():\n    pass\n"),
    (tidy.set_iteration, "def f(names: set[str]):\n    return tuple(names)\n"),
    (
        tidy.set_iteration,
        "class A:\n    dirty: set[str]\n    def f(self):\n        return [*self.dirty]\n",
    ),
    (tidy.registry_hosts, f"x = '{REGISTRY}'\n"),
    (tidy.registry_hosts, "--index" + "-url x\n"),
    (tidy.registry_hosts, "source = 'https://artifact" + "ory.example.com/simple'\n"),
    (tidy.registry_hosts, "resolved https://registry.npm" + "js.org/x\n"),
    (tidy.registry_hosts, "export GO" + "PROXY=https://example.com\n"),
    (tidy.home_paths, f"x = '{HOME}'\n"),
    (tidy.home_paths, "cd /wor" + "k/main && make\n"),
    (tidy.home_paths, "see /hom" + "e/someone/notes\n"),
    (lambda text: tidy.foreign_locks(text.split()), "src/a.py uv.lock"),
    (lambda text: tidy.foreign_locks(text.split()), "web/package-lock.json"),
    (lambda text: tidy.not_locked(["numpy", "typer>=1"], text), "numpy==2.4.6 \\\n    # via typer\n"),
    (lambda text: tidy.orphans({"fairlead.a": text, "fairlead.b": ""}, ""), "import fairlead.b"),
    (lambda text: tidy.orphans({"fairlead.core.a": ""}, "", [text]), "import fairlead.core.a"),
]

GOOD = [
    (tidy.function_sizes, "def short():\n" + "    x = 1\n" * 69),
    (tidy.left_overs, "methodology = 'TO" + "DO is a word'\n"),
    (tidy.clocks_and_chance, "now = event.time\n"),
    (
        tidy.set_iteration,
        "for x in sorted({1, 2}):\n    pass\nz = {x for x in set(y)}\nok = any(x for x in set(y))\n",
    ),
    (tidy.set_iteration, "def f(names: dict[str, int]):\n    return tuple(names)\n"),
    (
        tidy.registry_hosts,
        "uv pip compile --no-emit-index-url; git clone https://github.com/example/example\n",
    ),
    (tidy.home_paths, "data folder /var/lib/fairlead, https://example.com/work/x, ../work/x, $HOME/work/x\n"),
    (
        lambda text: tidy.orphans({"fairlead.a": text, "fairlead.b": ""}, "fairlead.a:main"),
        "from fairlead import b",
    ),
    (lambda text: tidy.orphans({"fairlead.sim.a": ""}, "", [text]), "from fairlead.sim import a"),
    (lambda text: tidy.orphans({"fairlead.a.__init__": text, "fairlead.a.b": ""}, ""), "from . import b"),
]


@pytest.mark.parametrize(("rule", "text"), BAD, ids=range(len(BAD)))
def test_every_rule_can_fail(rule, text: str):
    assert rule(text)


@pytest.mark.parametrize(("rule", "text"), GOOD, ids=range(len(GOOD)))
def test_rules_leave_good_code_alone(rule, text: str):
    assert rule(text) == []
