"""What recording costs: pods per second with the ledger and a recorder beside the scheduler, and without.

Run: python -m bench.live.recorded [--nodes 1000] [--pods 2000] [--pairs 5]. Each pair is one round of
`bench.live` with `fairlead scheduler --ledger` and `fairlead recorder` on the same database, and one with the
scheduler alone, taking turns in who is first. Bound of the issue: the median of the pairs' ratios is at least
0.9. All of it shares two cores with the API server, so the recorder's watch and its database cost the
scheduler time.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Generator
from functools import partial
from pathlib import Path

import psycopg

from bench.live import processes
from bench.live.__main__ import Contender, Result, one_round
from bench.live.processes import Running, ended
from bench.report import report
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up
from fairlead.runtime import eventloop
from fairlead.store.embedded import EmbeddedServer

BOUND = 0.9
QUIET = ("--pod-events", "off")


@contextlib.contextmanager
def recorded(cluster: Cluster) -> Generator[Running]:
    """A scheduler that writes its ledger, and a recorder that writes into the same database."""
    with processes.fairlead(cluster, options=(*QUIET, "--ledger")) as running:
        assert running.data is not None
        command = [str(Path(sys.executable).parent / "fairlead"), "recorder"]
        command += ["--kubeconfig", str(cluster.kubeconfig), "--data-dir", str(running.data)]
        command += ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:18499"]
        with ended(subprocess.Popen(command, stderr=subprocess.DEVNULL)):
            _wait("http://127.0.0.1:18499/readyz")
            yield running
            _rows(running.data)


def _wait(url: str) -> None:
    deadline = time.monotonic() + processes.READY_WITHIN
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise SystemExit("fairlead recorder did not get ready")


def _rows(data: Path) -> None:
    """Says what was written, so that nobody compares with a recorder that did nothing."""
    query = "SELECT source, count(*) FROM fairlead.change GROUP BY 1 ORDER BY 1"
    with psycopg.connect(EmbeddedServer(data).url) as conn:
        found = ", ".join(f"{source} {many:,}" for source, many in conn.execute(query).fetchall())
    print(f"  rows: {found}", flush=True)


ON = Contender("with ledger and recorder", "fairlead", recorded, False, {})
OFF = Contender("scheduler alone", "fairlead", partial(processes.fairlead, options=QUIET), False, {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    name = f"bench-{uuid.uuid4().hex[:6]}"
    pairs: list[tuple[Result, Result]] = []
    try:
        cluster = bring_up(UpOptions(name=name, nodes=options.nodes))
        cluster.stop("kwok")
        for number in range(options.pairs):
            turn = (ON, OFF) if number % 2 else (OFF, ON)
            got = {each.name: eventloop.run(one_round(cluster, each, options.pods)) for each in turn}
            pairs.append((got[ON.name], got[OFF.name]))
            on, off = pairs[-1]
            print(f"pair {number + 1}: {on.rate:.0f} and {off.rate:.0f} pods/s", flush=True)
    finally:
        bring_down(name)
    ratios = [on.rate / off.rate for on, off in pairs]
    median = statistics.median(ratios)
    rows = [
        {
            "": each,
            "pods/s": f"{statistics.median(pair[i].rate for pair in pairs):.0f}",
            "rounds": " ".join(f"{pair[i].rate:.0f}" for pair in pairs),
            "p99 s": f"{statistics.median(pair[i].p99 for pair in pairs):.2f}",
            "scheduler cpu ms/pod": f"{pairs[-1][i].usage.cpu * 1e3 / options.pods:.2f}",
            "ratio": "1" if i else f"{median:.2f} (≥ {BOUND}: {'held' if median >= BOUND else 'MISSED'})",
        }
        for i, each in enumerate((ON.name, OFF.name))
    ]
    command = f"python -m bench.live.recorded --nodes {options.nodes} --pods {options.pods}"
    told = " ".join(f"{ratio:.2f}" for ratio in ratios)
    report("live, recorded", f"{command} --pairs {options.pairs}", rows, f"Ratio of each pair: {told}.")


if __name__ == "__main__":
    main()
