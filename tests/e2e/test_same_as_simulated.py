"""One scenario file, played in the simulator and on a real cluster: the same decisions.

The same: who is rejected and with what words, who starts, in which order and on which nodes, what start each
was promised first and last, and how each ended. Times may differ by TOLERANCE, for on a cluster it takes a
while until a pod runs and until its end is seen, and what waits for it inherits that. So a scenario lets no
choice hang on less than two seconds, nor on which of several pods is seen to end first. What the recorder has
of the cluster's run is then a workload of its own, and played again it is decided alike, too.
"""

import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from bench.recorded import Recording
from scenario_live import Decided, Live, Played

from conftest import unique_name
from fairlead.cli import recorded, replay_policy
from fairlead.cli.recorded import Meant
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up
from fairlead.sim import gains, trace
from fairlead.sim.play import play
from live import Scheduler, data_folder

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(900)]
TOLERANCE = 2.0
"""Seconds."""
STALL = 0.5
"""Seconds for one look at the API server, after which the machine is too slow for these times."""
TRIES = 4
"""On a machine that stalls, the same is played again."""
_PAUSE = 0.05
FOLDER = Path(__file__).resolve().parent.parent / "data" / "scenarios"
FILES = sorted(FOLDER.glob("live_*.scn"))
TIMES = ("granted", "ended", "promised", "promised_last")
_numbers = count(1)


@pytest.fixture(scope="module")
def bare_cluster() -> Iterator[Cluster]:
    """A control plane without nodes: each scenario brings its own."""
    name = unique_name()
    try:
        yield bring_up(UpOptions(name=name, nodes=0))
    finally:
        bring_down(name)


def differences(simulated: dict[str, Decided], live: dict[str, Decided]) -> list[str]:
    """What was not decided alike, one line each."""
    found = [
        f"{field} of {name}: simulated {getattr(one, field)}, live {getattr(live[name], field)}"
        for name, one in simulated.items()
        for field in ("state", "why", "nodes")
        if getattr(one, field) != getattr(live[name], field)
    ]
    for name, one in simulated.items():
        for field in TIMES:
            here, there = getattr(one, field), getattr(live[name], field)
            apart = None if None in (here, there) else abs(here - there)
            if here != there and (apart is None or apart > TOLERANCE):
                found.append(f"{field} of {name}: simulated {here}, live {there}")
    if list(simulated) != list(live):
        found.append(f"order of starts: simulated {list(simulated)}, live {list(live)}")
    return found


def table(simulated: dict[str, Decided], live: dict[str, Decided]) -> str:
    """Both beside each other, for the log of the test."""

    def times(one: Decided) -> str:
        values = (getattr(one, field) for field in TIMES)
        return " ".join(f"{'-' if value is None else f'{value:.2f}':>6}" for value in values)

    lines = [f"{'group':8} {'simulated: ' + ' '.join(TIMES)} | live"]
    for name, one in simulated.items():
        there = live[name]
        lines.append(
            f"{name:8} {times(one)} | {times(there)} {one.state}/{there.state} {','.join(there.nodes)}"
        )
    return "\n".join(lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_RB4_a_scenario_is_decided_alike_in_the_simulator_on_a_cluster_and_from_its_record(
    path: Path, bare_cluster: Cluster
) -> None:
    played = Played(path)
    for _ in range(TRIES):
        with Pace(bare_cluster) as pace:
            there, again = on_a_cluster(played, bare_cluster)
        wrong = differences(played.decided(), there)
        late = max(map(abs, again.values()), default=0.0)
        print(table(played.decided(), there), f"the slowest look took {pace.slowest:.2f} s", sep="\n")
        if (not wrong and late <= TOLERANCE) or pace.slowest < STALL:
            break
    assert not wrong, table(played.decided(), there)
    assert again.keys() == {name for name, one in there.items() if one.granted is not None}
    assert late <= TOLERANCE, again


def on_a_cluster(played: Played, bare_cluster: Cluster) -> tuple[dict[str, Decided], dict[str, float]]:
    """What was decided there; and how much later or sooner each starts when the record is played again."""
    with data_folder() as data, Live(bare_cluster, f"played-{next(_numbers)}", played) as live:
        config = data.with_name("config.yaml")
        config.write_text(played.configuration(), encoding="utf-8")
        options = ("--config", str(config), "--ledger")
        with (
            Scheduler(bare_cluster.kubeconfig, data, *options) as scheduler,
            Recording(bare_cluster.kubeconfig, data),
        ):
            there = live.play(scheduler)
        return there, apart(data)


class Pace:
    """Looks at the API server again and again; `slowest` is how long a look took at most, in seconds."""

    def __init__(self, cluster: Cluster) -> None:
        self.slowest = 0.0
        self._cluster = cluster
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pace", daemon=True)

    def __enter__(self) -> "Pace":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(30)

    def _run(self) -> None:
        ended = time.monotonic()
        while not self._stopped.wait(_PAUSE):
            self._cluster.client.get("/readyz")
            begun, ended = ended, time.monotonic()
            self.slowest = max(self.slowest, ended - begun - _PAUSE)


def apart(data: Path) -> dict[str, float]:
    """What was recorded, played again in the simulator under the recorded settings: by how many seconds each
    start differs."""
    found = recorded.read(Meant(data, ""))
    settings = found.trace.head.settings
    assert settings is not None
    result = play(trace.workload(found.trace), replay_policy.simulated(settings))
    real = gains.as_recorded(found.trace)
    pairs = zip(real.rows, result.rows, strict=True)
    return {a.job_id: (a.start - b.start) / 1000 for a, b in pairs if a.start >= 0 or b.start >= 0}
