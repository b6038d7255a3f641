"""Metrics under kube-scheduler's names, with `fairlead_` in the place of `scheduler_`.

Held by `runtime.metrics`, fed by `runtime.reports`: dashboards and alerts made for kube-scheduler need the
other prefix and no more. What Fairlead tells beyond that has names of its own. Pods are counted as there,
though here whole groups are attempted.
"""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_ATTEMPT = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192)
_QUEUED = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84)
_LONG = (*_QUEUED, 327.68, 655.36, 1310.72, 2621.44, 5242.88)
_MOST_ATTEMPTS = 15


class KubeMetrics:
    """The names of kube-scheduler 1.36 that mean something here; `profile` is the schedulerName."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pending = Gauge(
            "fairlead_pending_pods",
            "Pods that wait: active, backoff, unschedulable, gated.",
            ["queue"],
            registry=registry,
        )
        self._attempts = Counter(
            "fairlead_schedule_attempts",
            "Attempts to place a pod, by the result: scheduled, unschedulable, error.",
            ["profile", "result"],
            registry=registry,
        )
        self._attempt = Histogram(
            "fairlead_scheduling_attempt_duration_seconds",
            "One attempt, which is one planning cycle: from the snapshot to the plan.",
            ["profile", "result"],
            buckets=_ATTEMPT,
            registry=registry,
        )
        self._algorithm = Histogram(
            "fairlead_scheduling_algorithm_duration_seconds",
            "What of it was work.",
            buckets=_ATTEMPT,
            registry=registry,
        )
        self._whole = Histogram(
            "fairlead_pod_scheduling_sli_duration_seconds",
            "From a pod's group being complete until the pod was seen bound.",
            ["attempts"],
            buckets=_LONG,
            registry=registry,
        )
        self._tries = Histogram(
            "fairlead_pod_scheduling_attempts",
            "Starts that a pod needed until it was bound.",
            buckets=(1, 2, 4, 8, 16),
            registry=registry,
        )

    def attempted(self, profile: str, result: str, pods: int) -> None:
        """So many pods came to this result."""
        self._attempts.labels(profile, result).inc(pods)

    def planned(self, profile: str, result: str, seconds: float, worked: float) -> None:
        """A cycle took so long from end to end, and so much of it was work."""
        self._attempt.labels(profile, result).observe(seconds)
        self._algorithm.observe(worked)

    def bound(self, milliseconds: int, attempts: int, pods: int) -> None:
        """So many pods of a group were bound, so long after it was complete."""
        label = str(attempts) if attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
        for _ in range(pods):
            self._whole.labels(label).observe(max(milliseconds, 0) / 1000)
            self._tries.observe(attempts)

    def pending(self, pods: Mapping[str, int]) -> None:
        """How many wait where, right now."""
        for place, count in pods.items():
            self._pending.labels(place).set(count)
