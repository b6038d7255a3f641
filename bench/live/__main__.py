"""Pods per second from the first create to the last bind, on one control plane, rounds interleaved.

Run: python -m bench.live [--nodes 1000] [--pods 2000] [--rounds 3]. Bounds of the issue, as ratios of
medians of the same run: gangs of 10 with per-pod Events off at least 0.8 of the null scheduler and 1.5 of
kube-scheduler; single pods at least 0.75 and 1.3 with Events off, and 0.6 of null with them on.
The nodes are KWOK's, but it is stopped once they are there: on two cores its work and its status writes
per pod (a second write to each) would be most of what is measured. `--kubelets` lets it run.
"""

import argparse
import asyncio
import contextlib
import pathlib
import statistics
import tempfile
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from bench.live import account, load, processes
from bench.report import report
from fairlead.kube.client import ApiClient
from fairlead.kube.config import load as load_kubeconfig
from fairlead.localcluster import Cluster, UpOptions, bring_down, bring_up
from fairlead.runtime import eventloop

Starter = Callable[..., contextlib.AbstractContextManager[processes.Running]]
"""(cluster, kubeconfig=...) -> a running scheduler."""
GANG = 10


class Contender(NamedTuple):
    name: str
    scheduler: str
    start: Starter
    gangs: bool
    bounds: dict[str, float]


CONTENDERS = (
    Contender("null", "null", processes.null, False, {}),
    Contender("kube-scheduler", "default-scheduler", processes.kube_scheduler, False, {}),
    Contender(
        "fairlead, gangs of 10",
        "fairlead",
        partial(processes.fairlead, options=("--pod-events", "off")),
        True,
        {"null": 0.8, "kube-scheduler": 1.5},
    ),
    Contender(
        "fairlead, singles",
        "fairlead",
        partial(processes.fairlead, options=("--pod-events", "off")),
        False,
        {"null": 0.75, "kube-scheduler": 1.3},
    ),
    Contender(
        "fairlead, singles, pod Events",
        "fairlead",
        partial(processes.fairlead, options=("--pod-events", "on")),
        False,
        {"null": 0.6},
    ),
)


def pods_for(contender: Contender, run: str, count: int) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = []
    for i in range(count):
        # The same labels for everybody, but under keys that mean something only where gangs are measured:
        # what the API server has to store and send must not differ.
        prefix = "fairlead.dev" if contender.gangs else "nobodys.dev"
        labels = {f"{prefix}/group": f"{run}-{i // GANG}", f"{prefix}/group-size": str(GANG)}
        pods.append(load.pod(f"{run}-{i:05d}", contender.scheduler, run, labels))
    return pods


class Result(NamedTuple):
    rate: float
    p50: float
    p99: float
    usage: processes.Usage
    writes: float
    """API writes per pod besides its creation: the bind, Events, conditions, the fake kubelet's."""


async def one_round(cluster: Cluster, contender: Contender, count: int) -> Result:
    """A fresh scheduler process, one load, everything deleted again."""
    run = f"b{uuid.uuid4().hex[:8]}"
    client = ApiClient(load_kubeconfig(cluster.kubeconfig), connections=96, request_timeout=60)
    try:
        with contender.start(cluster) as running:
            await asyncio.sleep(1)
            before, written = running.usage(), await load.writes(client)
            sample = await load.run_load(client, run, pods_for(contender, run, count))
            after, total = running.usage(), await load.writes(client)
        await load.clear(client, run)
    finally:
        await client.close()
    used = processes.Usage(
        after.cpu - before.cpu, after.rss, after.store_cpu - before.store_cpu, after.store_rss
    )
    at = sample.latencies
    writes = (total - written) / count - 1
    return Result(count / sample.seconds, at[len(at) // 2], at[len(at) * 99 // 100], used, writes)


def row(contender: Contender, results: list[Result], medians: dict[str, float], count: int) -> dict[str, str]:
    rate = medians[contender.name]
    verdicts: list[str] = []
    for reference, bound in contender.bounds.items():
        if reference in medians:
            ratio = rate / medians[reference]
            sign = "held" if ratio >= bound else "MISSED"
            verdicts.append(f"{ratio:.2f} × {reference} (≥ {bound}: {sign})")
    last = results[-1].usage
    return {
        "scheduler": contender.name,
        "pods/s": f"{rate:.0f}",
        "rounds": " ".join(f"{r.rate:.0f}" for r in results),
        "p50 s": f"{statistics.median(r.p50 for r in results):.2f}",
        "p99 s": f"{statistics.median(r.p99 for r in results):.2f}",
        "cpu ms/pod": f"{last.cpu * 1e3 / count:.2f}",
        "store ms/pod": f"{last.store_cpu * 1e3 / count:.2f}",
        "writes/pod": f"{statistics.median(r.writes for r in results):.2f}",
        "MiB": f"{last.rss >> 20}+{last.store_rss >> 20}",
        "ratios": ", ".join(verdicts),
    }


def measure(cluster: Cluster, contenders: list[Contender], pods: int, rounds: int) -> list[dict[str, str]]:
    results: dict[str, list[Result]] = {c.name: [] for c in contenders}
    for number in range(rounds):
        for contender in contenders:
            result = eventloop.run(one_round(cluster, contender, pods))
            results[contender.name].append(result)
            print(f"round {number + 1}: {contender.name}: {result.rate:.0f} pods/s", flush=True)
    medians = {name: statistics.median(r.rate for r in each) for name, each in results.items()}
    return [row(c, results[c.name], medians, pods) for c in contenders]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="a part of the contenders' names")
    parser.add_argument("--kubelets", action="store_true", help="let the fake kubelets run the pods too")
    parser.add_argument("--service-account", action="store_true", help="Fairlead with a plain account")
    options = parser.parse_args()
    chosen = [c for c in CONTENDERS if options.only in c.name]
    name = f"bench-{uuid.uuid4().hex[:6]}"
    try:
        cluster = bring_up(UpOptions(name=name, nodes=options.nodes, kube_scheduler=True))
        cluster.stop("kube-scheduler")
        if not options.kubelets:
            cluster.stop("kwok")
        with tempfile.TemporaryDirectory() as folder:
            if options.service_account:
                path = str(account.make(cluster, pathlib.Path(folder)))
                chosen = [with_account(c, path) for c in chosen]
            rows = measure(cluster, chosen, options.pods, options.rounds)
    finally:
        bring_down(name)
    command = f"python -m bench.live --nodes {options.nodes} --pods {options.pods} --rounds {options.rounds}"
    title = "live"
    if options.kubelets:
        command, title = f"{command} --kubelets", f"{title}, kubelets writing too"
    if options.service_account:
        command, title = f"{command} --service-account", f"{title}, plain service account"
    report(title, command, rows)


def with_account(contender: Contender, kubeconfig: str) -> Contender:
    """The same contender with another kubeconfig, if it is Fairlead."""
    if contender.scheduler != "fairlead":
        return contender
    return contender._replace(start=partial(contender.start, kubeconfig=kubeconfig))


if __name__ == "__main__":
    main()
