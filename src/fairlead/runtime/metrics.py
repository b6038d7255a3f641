"""What the scheduler counts and measures, in Prometheus' text form.

One `Metrics` object per engine, made by the composition root; `runtime.loop` and the ports call its
plain methods, `api.source` renders it for /metrics. Lengths of time come in as milliseconds or seconds
as each method says, and go out in seconds. Must not decide anything, and must not cost more than a
counter's step per call.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

from fairlead import __version__
from fairlead.runtime.metrics_kube import KubeMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SHORT = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_LONG = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600)
_STAGES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 15, 60, 300, 3600, 24 * 3600)
_ERRORS = (-86_400, -14_400, -3600, -900, -300, -60, -5, -0.5, 0.5, 5, 60, 300, 900, 3600, 14_400, 86_400)
_SPANS = (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

prometheus_client.disable_created_metrics()


class Metrics:
    """A registry of its own, so that several schedulers can live in one test process."""

    def __init__(self) -> None:
        self.registry = r = CollectorRegistry()
        ProcessCollector(registry=r)
        self.kube = KubeMetrics(r)
        info = Gauge("fairlead_build_info", "Always 1; the label tells the version.", ["version"], registry=r)
        info.labels(__version__).set(1)
        self._plans = Counter("fairlead_plans", "Plans, by what became of them.", ["result"], registry=r)
        self._cycle = Histogram(
            "fairlead_cycle_duration_seconds", "From Propose to the plan.", buckets=_SHORT, registry=r
        )
        self._starts = Counter("fairlead_starts", "Groups granted a start.", registry=r)
        self._rejects = Counter("fairlead_rejections", "Groups called impossible.", registry=r)
        self._wait = Histogram(
            "fairlead_group_wait_seconds",
            "From the first sight of a group's first member to its start.",
            buckets=_LONG,
            registry=r,
        )
        self._forecast = Histogram(
            "fairlead_forecast_error_seconds",
            "How much later than promised a group was granted its start; below 0: earlier. By the first "
            "promise that it was made, and by the last.",
            ["promise"],
            buckets=_ERRORS,
            registry=r,
        )
        self._span = Histogram(
            "fairlead_group_span",
            "Over how many domains of a level (node, rack, zone …) a group spread at its start.",
            ["level"],
            buckets=_SPANS,
            registry=r,
        )
        self._stages = Histogram(
            "fairlead_stage_duration_seconds",
            "How long a group took to each stage of its start from the one before: complete (from its first "
            "member), planned (when the plan was begun), recorded (in the store), bound, started (all run).",
            ["stage"],
            buckets=_STAGES,
            registry=r,
        )
        self._groups = Gauge("fairlead_groups", "Groups now.", ["phase", "reason"], registry=r)
        self._resources = Gauge(
            "fairlead_resource_amount",
            "Capacity and free amount of all present nodes; cpu in milli-cores, else in whole units.",
            ["resource", "kind"],
            registry=r,
        )
        self._events = Counter("fairlead_events", "Events learned.", registry=r)
        self._batch = Histogram("fairlead_batch_events", "Events per batch.", buckets=_SIZES, registry=r)
        self._learn = Histogram(
            "fairlead_learn_duration_seconds", "One batch through the engine.", buckets=_SHORT, registry=r
        )
        self._set_aside = Counter(
            "fairlead_set_aside", "Objects left out because the engine tripped over them.", registry=r
        )
        self._races = Counter(
            "fairlead_races", "Nodes on which pods of others met ours and not all fit.", registry=r
        )
        self._audits_of(r)
        self._store_up = Gauge("fairlead_store_up", "1 while the store answers.", registry=r)
        self._pending = Gauge("fairlead_store_pending_records", "Records still to be written.", registry=r)
        self._leader = Gauge("fairlead_leader", "1 while this process leads: alone, always.", registry=r)
        self._leader.set(1)
        self._ready = Gauge("fairlead_ready", "1 while groups can be placed.", registry=r)

    def _audits_of(self, r: CollectorRegistry) -> None:
        self._audits = Counter("fairlead_audits", "Audits, by what came of them.", ["result"], registry=r)
        self._differences = Counter(
            "fairlead_audit_differences", "Differences that audits found.", ["kind"], registry=r
        )
        self._audit = Histogram(
            "fairlead_audit_duration_seconds",
            "From the first list to the report.",
            buckets=_SHORT,
            registry=r,
        )
        self._audit_age = Gauge(
            "fairlead_audit_age_seconds",
            "Since the last audit that could be made; NaN before any.",
            registry=r,
        )
        self._audited = math.nan

    # -- called by the loop and the ports ------------------------------------------------------------

    def learned(self, events: int, seconds: float) -> None:
        """A batch of events went through the engine."""
        self._events.inc(events)
        self._batch.observe(events)
        self._learn.observe(seconds)

    def planned(self, seconds: float, result: str = "accepted") -> None:
        """A plan came back: "accepted", "stale" (cut short) or "empty" (nothing to start)."""
        self._plans.labels(result).inc()
        self._cycle.observe(seconds)

    def granted(self, groups: int = 1) -> None:
        """Groups were granted a start."""
        self._starts.inc(groups)

    def rejected(self, groups: int = 1) -> None:
        """Groups were called impossible."""
        self._rejects.inc(groups)

    def waited(self, milliseconds: int) -> None:
        """A group started, so long after its first member was first seen; once per group."""
        self._wait.observe(max(milliseconds, 0) / 1000)

    def forecast(self, first: int, last: int) -> None:
        """A group started so much later (milliseconds; negative: earlier) than it was promised."""
        self._forecast.labels("first").observe(first / 1000)
        self._forecast.labels("last").observe(last / 1000)

    def stage(self, name: str, milliseconds: int) -> None:
        """A group that has started took so long to this stage; once per start and stage."""
        self._stages.labels(name).observe(max(milliseconds, 0) / 1000)

    def spans(self, span: Mapping[str, int]) -> None:
        """A group was granted nodes in so many domains of each level."""
        for level, count in span.items():
            self._span.labels(level).observe(count)

    def set_aside(self, objects: int) -> None:
        """Objects were left out, because the engine tripped over them."""
        self._set_aside.inc(objects)

    def raced(self, nodes: int) -> None:
        """On so many nodes more, pods of others met ours and not all fit."""
        self._races.inc(nodes)

    def store(self, up: bool, pending: int = 0) -> None:
        """Whether the store answers, and how many records wait to be written."""
        self._store_up.set(up)
        self._pending.set(pending)

    def audited(self, result: str, seconds: float, kinds: Iterable[str]) -> None:
        """An audit was made: "clean", "differences" or "failed", with the kind of each difference."""
        self._audits.labels(result).inc()
        for kind in kinds:
            self._differences.labels(kind).inc()
        if result != "failed":
            self._audit.observe(seconds)
            self._audited = time.monotonic()

    def leads(self, now: Callable[[], bool]) -> None:
        """One of several replicas: `now` says whether it is this one that leads."""
        self._leader.set_function(lambda: float(now()))

    # -- called when somebody asks -------------------------------------------------------------------

    def render(
        self,
        groups: Mapping[tuple[str, str], int],
        resources: Mapping[str, tuple[int, int]],
        ready: bool,
        pending: Mapping[str, int] = MappingProxyType({}),
    ) -> bytes:
        """The text for /metrics; `groups` by (phase, reason), `resources` to (capacity, free), `pending` pods
        by place."""
        self.kube.pending(pending)
        self._groups.clear()
        for (phase, reason), count in groups.items():
            self._groups.labels(phase, reason).set(count)
        for name, (capacity, free) in resources.items():
            self._resources.labels(name, "capacity").set(capacity)
            self._resources.labels(name, "free").set(free)
        self._ready.set(ready)
        self._audit_age.set(time.monotonic() - self._audited)
        return generate_latest(self.registry)
