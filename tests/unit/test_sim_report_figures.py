"""Figures of simulations: who is drawn where, means and peaks over time, pictures of many jobs."""

import base64
import random
import re
import zlib
from itertools import pairwise

import numpy as np
import pytest
from sim_results import SECOND, job, result, small

from fairlead.draw import svg
from fairlead.sim import figure, figure_gantt, figure_time, figure_width
from fairlead.sim.workload import Result

WORDS = figure.Words("a <b> & c", "sub", [], [["measure", "easy"], ["wait", "1s*"]], ["said"])


def crowd(jobs: int, capacity: int = 64, seed: int = 7) -> Result:
    """Many jobs, started one after the other as soon as there is room."""
    draw = random.Random(seed)
    running: list[tuple[int, int]] = []
    rows, now = [], 0
    for n in range(jobs):
        procs, run = draw.randint(1, capacity), draw.randint(10, 5_000)
        while sum(p for _, p in running) + procs > capacity:
            running.sort()
            now = max(now, running.pop(0)[0])
        running.append((now + run, procs))
        rows.append(
            job(f"j{n}", max(now - draw.randint(0, 900), 0), now, now + run, procs, backfilled=n % 3 == 0)
        )
    return result(*rows, capacity=capacity)


def test_no_processor_has_two_jobs_at_once():
    shown = crowd(400)
    pieces = figure_gantt.pieces(shown)
    assert max(piece.high for piece in pieces) <= shown.capacity
    for procs in range(shown.capacity):
        mine = sorted((p.row.start, p.end) for p in pieces if p.low <= procs < p.high)
        assert all(before[1] <= after[0] for before, after in pairwise(mine))
    width = {row.job_id: 0 for row in shown.rows}
    for piece in pieces:
        width[piece.row.job_id] += piece.high - piece.low
    assert width == {row.job_id: row.procs for row in shown.rows}


def test_a_job_that_finds_no_hole_is_scattered():
    shown = result(
        job("a", 0, 0, 10, 1), job("b", 0, 0, 50, 1), job("c", 0, 0, 10, 1), job("d", 0, 10, 30, 3)
    )
    assert [(p.row.job_id, p.low, p.high) for p in figure_gantt.pieces(shown)][3:] == [
        ("d", 0, 1),
        ("d", 2, 4),
    ]


def test_few_jobs_are_drawn_each_with_its_title():
    page = figure.page([small()], WORDS)
    assert page.count('class="bar"') == 3
    assert "waited 90 s" in page
    assert "data:image" not in page


def test_many_jobs_are_one_picture_and_the_page_stays_small():
    shown = crowd(figure_gantt.MOST_DRAWN + 500)
    page = figure.page([shown], WORDS)
    data = re.search(r"data:image/png;base64,([^\"]+)", page)
    assert data is not None
    png = base64.b64decode(data[1])
    assert png.startswith(b"\x89PNG")
    body = png[png.index(b"IDAT") + 4 : png.index(b"IEND") - 8]
    assert len(zlib.decompress(body)) == (924 + 1) * 64
    assert len(page) < 400_000


def test_the_same_result_gives_the_same_bytes():
    assert figure.page([crowd(300)], WORDS) == figure.page([crowd(300)], WORDS)
    assert figure.drawing([crowd(300)], WORDS) == figure.drawing([crowd(300)], WORDS)


def test_names_are_never_markup():
    page = figure.page([result(job("<script>", 0, 0, 100_000, 4))], WORDS)
    assert "<script>" not in page
    assert "a &lt;b&gt; &amp; c" in page


def test_cells_hold_what_is_used():
    shown = result(job("a", 0, 0, 100, 2), job("b", 0, 50, 100, 2, backfilled=True))
    times = svg.Times(0, 100 * SECOND)
    found = figure_gantt._coverage(figure_gantt.pieces(shown), times, 4)
    assert found.sum(axis=(1, 2)) == pytest.approx([924 * 2, 924])


def test_means_and_peaks_of_stretches():
    at, values = np.array([0.0, 10.0, 15.0, 20.0]), np.array([4.0, 8.0, 0.0, 2.0])
    found = figure_time.stretches(at, values, 0, 40, 2)
    assert found.mean == pytest.approx([(40 + 40) / 20, 2.0])
    assert found.peak == pytest.approx([8.0, 2.0])


@pytest.mark.parametrize(
    ("most", "found"), [(0, [0]), (1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (100, [0, 20, 40, 60, 80, 100])]
)
def test_ticks_are_round(most: float, found: list[float]):
    assert svg.ticks(most, 5) == found


def test_slowdown_has_a_box_per_width_and_policy():
    panel = figure_width.panel([small("fcfs"), small("easy")])
    assert panel.body.count('class="median"') == 4
    assert "easy, 3–4 processors: 2 jobs" in panel.body


def test_a_simulation_without_a_single_start_has_a_page_as_well():
    shown = result(job("a", 0, -1, -1), complete=False)
    assert "Who ran when" in figure.page([shown], WORDS)
    assert figure.drawing([result()], WORDS).startswith("<svg")


def test_a_machine_that_is_nearly_idle_is_drawn_as_far_as_it_is_used():
    def page(capacity: int) -> str:
        low = result(job("a", 0, 0, 100, 2), policy="low", capacity=capacity)
        return figure.page([low, result(job("a", 0, 0, 100, 3), policy="high", capacity=capacity)], WORDS)

    assert page(1000).count("The machine has 1,000; those above were never in use.") == 2
    assert page(1000).count(">0.2 %<") == 2
    assert "never in use" not in page(30) and page(30).count(">100 %<") == 2


def test_there_is_no_half_of_a_job():
    times = svg.Times(0, 130 * SECOND)
    _, queue = figure_time.panels(small(), times, 1)
    assert ">1</text>" in queue.body
    assert ">0.5<" not in queue.body
