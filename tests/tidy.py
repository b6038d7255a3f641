"""The rules that the whole tree obeys, each as a function from text to complaints.

Called by tests/unit/test_tidy.py, once on the repository and once on bad examples. A complaint is
"line: what is wrong"; no complaint, an empty list. Import rules are in pyproject.toml (import-linter).
"""

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MAX_FILE = {"src": 400, "tests": 600, "bench": 600}
MAX_FUNCTION = 70
DETERMINISTIC = ("src/fairlead/model/", "src/fairlead/core/", "src/fairlead/control/")
MAY_PRINT = ("src/fairlead/cli/", "src/fairlead/localcluster/")
# The simulated sides of ports: tests are what they are for.
TWINS = ("fairlead.sim.", "fairlead.store.memory")
FOREIGN_LOCKS = ("uv.lock", "Cargo.lock", "package-lock.json", "yarn.lock", "poetry.lock", "Pipfile.lock")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> Iterator[tuple[str, str]]:
    """(path from the root, text) of every Python file in these folders, committed or not."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def tracked_files() -> Iterator[tuple[str, str]]:
    """(path from the root, text) of every text file that the repository would publish."""
    # CI often checks out as another user than the one who runs; git then refuses unless told.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    names = run.stdout.split("\0")
    for name in sorted(filter(None, names)):
        path = ROOT / name
        if not path.is_file():
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


# -- size and form -----------------------------------------------------------------------------------


def file_size(text: str, most: int) -> list[str]:
    """A file that has outgrown one subject."""
    lines = len(text.splitlines())
    return [f"1: {lines} lines, at most {most}"] if lines > most else []


def function_sizes(text: str, most: int = MAX_FUNCTION) -> list[str]:
    """Functions and methods that no longer fit on a screen."""
    return [
        f"{node.lineno}: {node.name} has {length} lines, at most {most}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, Function) and (length := (node.end_lineno or 0) - node.lineno + 1) > most
    ]


def module_docstring(text: str) -> list[str]:
    """A module that does not say what it is for."""
    return [] if ast.get_docstring(ast.parse(text)) else ["1: no module docstring"]


def prints(text: str) -> list[str]:
    """Calls of print: output belongs to the command line, everything else logs."""
    return [
        f"{node.lineno}: print()"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]


def left_overs(text: str) -> list[str]:
    """Marks of unfinished work; what remains to be done belongs into an issue."""
    return _lines(re.compile(r"(?:#|//|--|<!--)\s*(?:TO[D]O|FIX[M]E|X[X]X)\b"), text)


# -- determinism -------------------------------------------------------------------------------------

_CLOCKS = {
    ("time", "time"),
    ("time", "time_ns"),
    ("time", "monotonic"),
    ("time", "monotonic_ns"),
    ("time", "perf_counter"),
    ("time", "sleep"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
    ("np", "random"),
    ("numpy", "random"),
}


def clocks_and_chance(text: str) -> list[str]:
    """Reading a clock, drawing a number, or hashing text (which differs from process to process)."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and (_last_name(node.value), node.attr) in _CLOCKS:
            found.append(f"{node.lineno}: {_last_name(node.value)}.{node.attr}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hash":
            found.append(f"{node.lineno}: hash()")
    return found


def set_iteration(text: str) -> list[str]:
    """Loops whose order is that of a set: plans must not depend on it.

    Seen are set displays, `set(...)`, set operators on `.keys()`, and names and attributes that the same
    file annotates or fills as sets. `sorted(a_set)` is the way out.
    """
    tree = ast.parse(text)
    known = _set_names(tree)
    harmless = _orderless(tree)
    found = []
    for node in ast.walk(tree):
        iterables: list[ast.expr] = []
        if isinstance(node, ast.For | ast.AsyncFor):
            iterables = [node.iter]
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp) and node not in harmless:
            iterables = [part.iter for part in node.generators]
        elif isinstance(node, ast.Call) and _last_name(node.func) in ("list", "tuple", "iter", "enumerate"):
            iterables = node.args[:1]
        elif isinstance(node, ast.Starred):
            iterables = [node.value]
        found += [f"{item.lineno}: iterates over a set" for item in iterables if _is_set(item, known)]
    return found


def _orderless(tree: ast.Module) -> set[ast.expr]:
    """Arguments of functions that give the same whatever the order."""
    return {
        argument
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and _last_name(node.func) in ("sorted", "set", "frozenset", "any", "all", "sum", "len")
        for argument in node.args
    }


def _is_set(node: ast.expr, known: Iterable[str] = ()) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr | ast.Sub | ast.BitXor):
        return any(_is_set(side, known) or _is_keys(side) for side in (node.left, node.right))
    return isinstance(node, ast.Name | ast.Attribute) and _last_name(node) in known


def _is_keys(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keys"


def _set_names(tree: ast.Module) -> set[str]:
    """Names that are sets wherever this file gives them a value."""
    sets: set[str] = set()
    others: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            kind = sets if re.match(r"(frozen)?set\b", ast.unparse(node.annotation)) else others
            kind.add(_last_name(node.target))
        elif isinstance(node, ast.arg) and node.annotation is not None:
            kind = sets if re.match(r"(frozen)?set\b", ast.unparse(node.annotation)) else others
            kind.add(node.arg)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                (sets if _is_set(node.value) else others).add(_last_name(target))
    return sets - others - {""}


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


# -- nothing of one machine --------------------------------------------------------------------------

_REGISTRY = re.compile(
    r"""pypi\.(?:org|io|python)|python[h]osted\.org|npm[j]s\.|yarnpkg\.com|proxy\.go[l]ang\.|sum\.go[l]ang\.
    |goproxy\.|artifact[o]ry|n[e]xus[./-]|crates\.io|--(?:extra-)?index[-]url
    |^\s*(?:extra-)?index[-]url\s*=|GO[P]ROXY\s*=|find[-]links\s*=""",
    re.VERBOSE | re.IGNORECASE,
)
_HOME = re.compile(r"(?<![\w.$}~*/-])/(?:ro[o]t|wor[k]|hom[e]/\w+|User[s]/\w+)(?=[/\s\"'`,;:)]|$)")


def registry_hosts(text: str) -> list[str]:
    """Hosts or settings of a package registry: where packages come from is the machine's business."""
    return _lines(_REGISTRY, text)


def home_paths(text: str) -> list[str]:
    """Absolute paths that exist on one machine only."""
    return _lines(_HOME, text)


def foreign_locks(names: Iterable[str]) -> list[str]:
    """Lock files that record hosts; requirements.lock is the only one."""
    return [f"1: {name}" for name in names if name.rpartition("/")[2] in FOREIGN_LOCKS]


def not_locked(wanted: Iterable[str], lock: str) -> list[str]:
    """Dependencies of pyproject.toml that the lock file has no version of."""
    locked = {
        _package(line) for line in lock.splitlines() if "==" in line and not line.startswith((" ", "#"))
    }
    return [f"1: {name}" for name in wanted if _package(name) not in locked]


def _package(requirement: str) -> str:
    name = re.split(r"[\[<>=!~; ]", requirement.strip(), maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def _lines(pattern: re.Pattern[str], text: str) -> list[str]:
    return [
        f"{number}: {found.group().strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        if (found := pattern.search(line))
    ]


# -- nothing unused ----------------------------------------------------------------------------------


def orphans(modules: Mapping[str, str], entry_points: str, tests: Iterable[str] = ()) -> list[str]:
    """Modules that nothing imports and nothing names (`python -m`, console scripts).

    `modules` is name -> text. `__init__` files are left out (they say what the package is for), but what
    they import is used. The simulated twins of ports are used when one of the `tests` (texts) imports them.
    """
    used: set[str] = set()
    for name, text in modules.items():
        used |= _imported(name, text) - {name}
    for text in tests:
        used |= {name for name in _imported("", text) if name.startswith(TWINS)}
    return [
        f"1: {name} is imported by nothing"
        for name in sorted(set(modules) - used)
        if not name.endswith((".__main__", ".__init__"))
        and not re.search(rf"\b{re.escape(name)}\b", entry_points)
        and not any(
            f'"{name}{end}' in text for other, text in modules.items() if other != name for end in '":'
        )
    ]


def _imported(name: str, text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = ".".join(name.split(".")[: -node.level])
                base = f"{parent}.{base}" if base else parent
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found
