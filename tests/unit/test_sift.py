"""What is sifted out fits nowhere; what fits somewhere is never sifted out."""

import random

import numpy as np
import pytest

from fairlead.core.inventory import Vector, how_many
from fairlead.core.sift import fitting, peaks


def vector(*amounts: int) -> Vector:
    pairs = tuple((i, a) for i, a in enumerate(amounts) if a)
    rows, values = [i for i, _ in pairs], [a for _, a in pairs]
    return Vector(np.array(rows, dtype=np.int64), np.array(values, dtype=np.int64), pairs)


def test_peaks_are_the_nodes_that_no_other_surpasses():
    free = np.array([[4, 1, 3, 4], [0, 5, 3, 0]])
    assert sorted(map(tuple, peaks(free).T.tolist())) == [(1, 5), (3, 3), (4, 0)]


@pytest.mark.parametrize("nodes", [1, 7, 400])
@pytest.mark.parametrize("resources", [1, 2, 4])
def test_every_request_is_judged_as_by_looking_at_each_node(nodes: int, resources: int):
    chance = random.Random(nodes * 10 + resources)
    free = np.array([[chance.randint(-2, 40) for _ in range(nodes)] for _ in range(resources)])
    vectors = [vector(*(chance.randint(0, 45) for _ in range(resources))) for _ in range(1_500)]
    told = fitting(free, vectors)
    truth = np.array([bool((how_many(free, one) > 0).any()) for one in vectors])
    assert not (truth & ~told).any()
    # Only the last peak, which sums up what is left, may promise too much.
    assert peaks(np.maximum(free, 0)).shape[1] > 64 or (told == truth).all()


def test_what_nobody_asks_for_may_be_overcommitted():
    free = np.array([[3, 1], [-5, -1]])
    assert fitting(free, [vector(3, 0), vector(4, 0), vector(1, 1)]).tolist() == [True, False, False]
