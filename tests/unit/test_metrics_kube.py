"""Metrics that are called as kube-scheduler's are, and count what those count."""

from collections.abc import Sequence
from unittest import mock

import pytest
from policy_support import busy, under

from fairlead.core.engine import Engine
from fairlead.core.pending import pending_pods
from fairlead.model.command import Command
from fairlead.model.event import Event
from fairlead.model.settings import Settings
from fairlead.runtime.metrics import Metrics
from fairlead.runtime.reports import Reports
from fairlead.sim import play
from fairlead.sim.scenario import parse, run

KUBE = {
    "scheduler_pending_pods": ("queue",),
    "scheduler_schedule_attempts_total": ("profile", "result"),
    "scheduler_scheduling_attempt_duration_seconds": ("profile", "result"),
    "scheduler_scheduling_algorithm_duration_seconds": (),
    "scheduler_pod_scheduling_sli_duration_seconds": ("attempts",),
    "scheduler_pod_scheduling_attempts": (),
}
"""Names and labels as kube-scheduler 1.36 has them (pkg/scheduler/metrics/metrics.go)."""


class Watched(Engine):
    """An engine beside which the reports are made that a scheduler makes."""

    metrics: Metrics
    pending: dict[str, int]

    def __init__(self, settings: Settings, reconcilers=()) -> None:  # type: ignore[no-untyped-def]
        super().__init__(settings, reconcilers)
        Watched.metrics, Watched.pending = Metrics(), {}
        self._reports = Reports(self, Watched.metrics)

    def learn(self, events: Sequence[Event]) -> list[Command]:
        self._reports.cycle(0.003, 0)
        commands = super().learn(events)
        self._reports.batch(events, commands, 0.001)
        for place, count in pending_pods(self.state).items():
            Watched.pending[place] = max(Watched.pending.get(place, 0), count)
        return commands


def value(name: str, **labels: str) -> float:
    return Watched.metrics.registry.get_sample_value(name, labels) or 0.0


def test_F30_metrics_have_the_names_and_labels_of_kube_scheduler():
    metrics = Metrics()
    metrics.kube.attempted("fairlead", "scheduled", 2)
    metrics.kube.planned("fairlead", "scheduled", 0.1, 0.05)
    metrics.kube.bound(1_000, 1, 2)
    metrics.render({}, {}, True, {"active": 3})
    found: dict[str, tuple[str, ...]] = {}
    for metric in metrics.registry.collect():
        for sample in metric.samples:
            name = sample.name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
            found[name] = tuple(sorted(set(sample.labels) - {"le"}))
    assert {name: found.get(name.replace("scheduler_", "fairlead_", 1)) for name in KUBE} == KUBE


def test_F30_they_count_pods_attempts_and_how_long_all_of_it_took():
    with mock.patch.object(play, "Engine", Watched):
        found = play.play(busy(30, nodes=32), under(None))
    pods = sum(row.procs for row in found.rows)
    assert value("fairlead_schedule_attempts_total", profile="fairlead", result="scheduled") == pods
    assert value("fairlead_schedule_attempts_total", profile="fairlead", result="unschedulable") > 0
    assert value("fairlead_pod_scheduling_sli_duration_seconds_count", attempts="1") == pods
    waits = sum((row.start - row.submit) / 1000 * row.procs for row in found.rows)
    told = value("fairlead_pod_scheduling_sli_duration_seconds_sum", attempts="1")
    assert told == pytest.approx(waits) and waits > 0
    assert value("fairlead_pod_scheduling_attempts_sum") == pods
    cycles = sum(
        value("fairlead_scheduling_attempt_duration_seconds_count", profile="fairlead", result=result)
        for result in ("scheduled", "unschedulable")
    )
    assert cycles == found.cycles == value("fairlead_scheduling_algorithm_duration_seconds_count")
    assert Watched.pending["active"] > 0 and Watched.pending["unschedulable"] > 0


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ("00:00 submit a 2x cpu=4 for 60m -> start a n0-n1", "active"),
        ("00:00 submit a 9x cpu=4 for 60m -> reject a", "unschedulable"),
    ],
)
def test_F30_pending_pods_are_where_kube_scheduler_would_have_them(lines: str, place: str):
    with mock.patch("fairlead.sim.world.Engine", Watched):
        run(parse(f"cluster 2 nodes cpu=4\n{lines}\n", "here"))
    assert Watched.pending[place] > 0
