"""Thousands of groups through one scheduler process (bench/soak.py; ten thousand there, three here).

Its memory does not grow with what has ended, and neither does the database.
"""

from collections.abc import Iterator

import pytest
from bench.soak import GROWTH, NODES, SHAPE, measure

from conftest import unique_name
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
GROUPS, FIRST = 3000, 600


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    name = unique_name()
    try:
        yield bring_up(UpOptions(name=name, nodes=NODES, shape=SHAPE))
    finally:
        bring_down(name)


@pytest.mark.timeout(900)
def test_F8_B7_thousands_of_groups_leave_neither_memory_nor_rows_behind(plane: Cluster) -> None:
    result = measure(plane, GROUPS, FIRST)
    print(result)
    assert (result.completed, result.failed) == (GROUPS, 0)
    assert result.growth <= GROWTH
    assert result.rows <= GROUPS // 10
