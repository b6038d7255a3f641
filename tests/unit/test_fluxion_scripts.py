"""Fluxion's own command scripts and jobspecs, judged by the oracle's comparison.

Every script is run on its graph; per job the set of selected vertices, the state and the start must be
Fluxion's. What is not so yet is listed by id: the lists are exact, so that they can only shrink.
"""

import gzip
import importlib.util
import io
import json
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fairlead.cli.query_run import Options, graph_of
from fairlead.cli.query_session import Session
from fairlead.core.tree.graph import Graph, Op
from fairlead.core.tree.matchpolicy import POLICIES
from fairlead.wire.jobspec import JobspecError, read

NOT_YET = {
    "core": set[str](),
    # There a reservation does not use a node attached after earlier ones, though it is free at that instant.
    "elastic": {"t3028/009.R.out"},
    "flexible": set[str](),
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fluxion")


def unpack(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file() and (place := target / path.relative_to(source).parent):
            place.mkdir(parents=True, exist_ok=True)
            plain = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            (place / path.name.removesuffix(".gz")).write_bytes(plain)


def options_of(case: dict[str, Any], data: Path) -> Options:
    """The options of a case."""
    return Options(
        data / case["graph"],
        case["load_format"],
        case["policy"],
        case["match_format"],
        case.get("subsystems", "CA"),
        case.get("traverser", "simple"),
        None,
        case.get("prune_filters", "ALL:core,ALL:node"),
        False,
        False,
    )


def played(case: dict[str, Any], data: Path) -> str:
    """What our program answers, on the channel that the case looks at."""
    options = options_of(case, data)
    out, errors = io.StringIO(), io.StringIO()
    if case["channel"] == "t+err":
        errors = out
    with redirect_stderr(errors), redirect_stdout(io.StringIO()):
        session = Session(graph_of(options), out, options.match_format, False)
        for line in case["commands"]:
            if not session.line(line.replace("@DATA@", str(data))):
                break
    return (errors if case["channel"] == "err" else out).getvalue()


@pytest.mark.parametrize("group", NOT_YET)
def test_scripts(group: str, oracle_data: Callable[[str], Path], unpacked: Path) -> None:
    folder = oracle_data("fluxion")
    data = unpacked / "data"
    if not data.exists():
        unpack(folder / "data", data)
    spec = importlib.util.spec_from_file_location("fluxion_judge", folder / "run.py")
    assert spec is not None and spec.loader is not None
    judge = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(judge)
    cases = [
        case for case in json.loads((folder / "manifest.json").read_text())["cases"] if case["group"] == group
    ]
    assert cases
    other = {
        case["id"]
        for case in cases
        if judge.semantic(played(case, data)) != judge.semantic((data / case["expected"]).read_text())
    }
    assert other == NOT_YET[group]


def spans(graph: Graph, held: Iterable[int]) -> dict[str, int]:
    """How many racks, nodes, sockets and so on a job touches."""
    found: dict[str, int] = {}
    for v in held:
        if graph.tree.type[v] not in graph.order.leaf_types:
            found[graph.tree.type[v]] = found.get(graph.tree.type[v], 0) + 1
    return found


class Watched(Session):
    """A session that asks for each match what the policy locality would have chosen."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, io.StringIO(), "simple", False)
        self.compared: list[tuple[str, dict[str, int], dict[str, int]]] = []

    def _match(self, op: Op, file: str) -> bool:
        near = Graph(
            self.graph.tree, replace(POLICIES["locality"], node_exclusive=self.graph.policy.node_exclusive)
        )
        near.bookings = self.graph.bookings
        try:
            asked = read(Path(file).read_text(), self.graph.tree.types)
            ours = near.match(asked, Op.without_allocating, 1 << 40).job
        except (OSError, JobspecError):
            ours = None
        id_ = self.next_id
        matched = super()._match(op, file)
        theirs = self.graph.bookings.jobs.get(id_)
        if matched and theirs is not None and not theirs.reserved:
            assert ours is not None, f"{file} fits under Fluxion's policy and not under locality"
            self.compared.append((file, spans(self.graph, ours.held), spans(self.graph, theirs.held)))
        return matched


def test_D9_locality_never_spans_more_than_fluxions_choice(
    oracle_data: Callable[[str], Path], unpacked: Path
) -> None:
    """On the same jobspec and in the same state; test_scripts shows that the choices are Fluxion's."""
    folder, data = oracle_data("fluxion"), unpacked / "data"
    if not data.exists():
        unpack(folder / "data", data)
    compared, fewer = 0, 0
    for case in json.loads((folder / "manifest.json").read_text())["cases"]:
        if case["group"] == "flexible":
            continue
        with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            session = Watched(graph_of(options_of(case, data)))
            for line in case["commands"]:
                if not session.line(line.replace("@DATA@", str(data))):
                    break
        for file, ours, theirs in session.compared:
            assert all(ours[type_] <= theirs.get(type_, 0) for type_ in ours), (
                case["id"],
                file,
                ours,
                theirs,
            )
            compared, fewer = compared + 1, fewer + (ours != theirs)
    assert compared > 400
    assert fewer > 20, "locality does make a difference"


@pytest.mark.parametrize("kind", ["valid", "invalid"])
def test_jobspecs(kind: str, oracle_data: Callable[[str], Path]) -> None:
    files = sorted(oracle_data(f"fluxion/data/resource/jobspecs/validation/{kind}").glob("*.yaml"))
    assert files
    accepted: set[str] = set()
    for file in files:
        try:
            read(file.read_text())
        except JobspecError as error:
            assert ": " in str(error), "an error names its place"
            assert "\n" not in str(error)
        else:
            accepted.add(file.name)
    assert accepted == ({file.name for file in files} if kind == "valid" else set())
