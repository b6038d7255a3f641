"""One scenario file, played in the simulator and on a real cluster: the same decisions.

The same: who is rejected and with what words, who starts, in which order and on which nodes, what start each
was promised first and last, and how each ended. Times may differ by TOLERANCE, for on a cluster it takes a
while until a pod runs and until its end is seen, and what waits for it inherits that. So a scenario lets no
choice hang on less than two seconds, nor on which of several pods is seen to end first. What the recorder has
of the cluster's run is then a workload of its own, and played again it is decided alike, too.
"""

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

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
TOLERANCE = 2.0
"""Seconds."""
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
    with data_folder() as data, Live(bare_cluster, f"played-{next(_numbers)}", played) as live:
        config = data.with_name("config.yaml")
        config.write_text(played.configuration(), encoding="utf-8")
        options = ("--config", str(config), "--ledger")
        with (
            Scheduler(bare_cluster.kubeconfig, data, *options) as scheduler,
            Recording(bare_cluster.kubeconfig, data),
        ):
            there = live.play(scheduler)
        again = apart(data)
    print(table(played.decided(), there))
    assert not differences(played.decided(), there), table(played.decided(), there)
    started = {name for name, one in there.items() if one.granted is not None}
    assert again.keys() == started
    assert max(map(abs, again.values())) <= TOLERANCE, again


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
