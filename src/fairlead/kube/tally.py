"""What the watches counted, as Prometheus metrics.

Made by `kube.port` over the counts that `kube.watch` keeps by name; read when somebody asks for /metrics.
"""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

COUNTED = {
    "events": "Events that the watches have told.",
    "errors": "Times that a list or a watch failed and was tried again.",
    "silences": "Watches opened anew because nothing came for too long.",
    "relists": "Times that a kind was listed anew because its version was too old or its server's went back.",
    "rewinds": "Times that a kind was learned anew because its versions had gone back.",
    "unreadable": "Objects and lines that could not be read, each time that they came.",
}


class Tally(Collector):
    """The counts of `stats`, as they are at the moment; what is not there has not happened."""

    def __init__(self, stats: Mapping[str, int]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        for name, words in COUNTED.items():
            found = self._stats.get(name, 0) or self._stats.get(f"watch_{name}", 0)
            yield CounterMetricFamily(f"fairlead_watch_{name}", words, value=found)
