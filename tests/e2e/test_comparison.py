"""The published comparison of gang schedulers (bench/gangs.py): every gang completes, none clogs."""

from collections.abc import Iterator

import pytest
from bench.gangs import CORES, NODES, SIZES, compare, one, rows

from conftest import unique_name
from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_down, bring_up
from fairlead.runtime import eventloop
from live import Scheduler, data_folder

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
HOLD = 0.2
NEVER = 120.0


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    """Eight nodes of three cores, and kube-scheduler."""
    name = unique_name()
    try:
        yield bring_up(
            UpOptions(name=name, nodes=NODES, shape=NodeShape(cpu=str(CORES)), kube_scheduler=True)
        )
    finally:
        bring_down(name)


@pytest.mark.timeout(600)
def test_F21_D8_all_hundred_gangs_of_the_published_comparison_complete(plane: Cluster) -> None:
    with data_folder() as data, Scheduler(plane.kubeconfig, data):
        result = eventloop.run(one(plane, "fairlead", 20, HOLD, NEVER))
    assert len(result.gangs) == 100
    assert sorted(result.ended) == sorted(gang.name for gang in result.gangs)
    assert result.pending == 0


@pytest.mark.timeout(600)
def test_F21_the_comparison_with_the_stock_scheduler_can_be_repeated(plane: Cluster) -> None:
    """Small. Whether kube-scheduler clogs is chance with so few gangs; that Fairlead completes all is not."""
    results = compare(plane, iterations=4, hold=HOLD, patience=3)
    assert len(results["fairlead"].ended) == 4 * len(SIZES)
    assert len(results["kube-scheduler"].ended) <= 4 * len(SIZES)
    told = rows(results)
    assert [row["scheduler"] for row in told] == ["kube-scheduler", "fairlead"]
    assert told[1]["completed"] == "20 of 20"
    assert all(float(told[1][f"mean s of {size}"]) > 0 for size in SIZES)
