"""How long it takes to place pods that mind each other: 1,000 on 5,000 nodes, as singles and as one gang.

Run: python -m bench.company [--nodes N] [--pods P]. The reference beside it asks all filters anew for each
pod (`core.filters.run`), as a scheduler does that takes one pod at a time. Both must place as many.
"""

import argparse
import time

from bench.report import report
from fairlead.core.crowd import Company, Crowd
from fairlead.core.filters.cluster import Cluster, cluster_of
from fairlead.core.filters.run import feasible, verdicts
from fairlead.core.inventory import Inventory
from fairlead.core.match import Matcher
from fairlead.core.picture import columns
from fairlead.core.snapshot import Draft, Request, Task
from fairlead.core.spoken import placed
from fairlead.model.node import Node
from fairlead.model.pod import Pod, Shape
from fairlead.model.rules import PodTerm, Rules, Spread
from fairlead.model.selector import Expression, Operator
from fairlead.model.settings import Settings

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ALIKE = (Expression("app", Operator.IN, ("x",)),)
KINDS = {
    "a node each": Rules(anti_affinity=(PodTerm(HOST, ALIKE),)),
    "spread over zones": Rules(spread=(Spread(ZONE, ALIKE),)),
    "spread over nodes": Rules(spread=(Spread(HOST, ALIKE),)),
    "in one zone": Rules(affinity=(PodTerm(ZONE, ALIKE),)),
}


def inventory(nodes: int) -> Inventory:
    made = Inventory()
    for i in range(nodes):
        labels = {HOST: f"n{i}", ZONE: f"z{i % 10}"}
        made.put(Node(f"n{i}", f"n{i}", 1, (("cpu", 32_000), ("pods", 110)), labels=labels))
    return made


def ours(machines: Inventory, like: Pod, pods: int, gang: bool) -> float:
    """Seconds for all of them."""
    machines.vector(like.shape.requests)
    uids = [tuple(f"p{i}" for i in range(pods))] if gang else [(f"p{i}",) for i in range(pods)]
    wanted = tuple(
        Request(f"g{i}", (0, 0, i, ""), (Task(like.shape, each, like),), False, 0)
        for i, each in enumerate(uids)
    )
    view = columns(machines, wanted, Settings(), 1_000)
    begun = time.perf_counter()
    crowd = Crowd(cluster_of(machines, []), [like])
    matcher = Matcher(Draft(view), "first", Company(crowd))
    done = sum(matcher.place(request) is not None for request in wanted)
    taken = time.perf_counter() - begun
    assert done == len(wanted), f"only {done} of {len(wanted)} were placed"
    return taken


def anew(machines: Inventory, like: Pod, pods: int) -> float:
    """Seconds if all filters are asked about all nodes for each pod."""
    cluster: Cluster = cluster_of(machines, [])
    begun = time.perf_counter()
    for i in range(pods):
        mask = feasible(cluster, verdicts(cluster, like))
        row = int(mask.argmax())
        assert mask[row], f"only {i} of {pods} were placed"
        pod = placed(Pod(f"p{i}", "default", f"p{i}", 1, like.shape, labels=like.labels), f"n{row}")
        cluster.pods.add(pod)
        machines.hold(pod.uid, pod.node, pod.shape.requests)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=1_000)
    options = parser.parse_args()
    rows: list[dict[str, str]] = []
    for name, rules in KINDS.items():
        shape = Shape((("cpu", 1_000), ("pods", 1)), rules=rules)
        like = Pod("", "default", "", 0, shape, labels={"app": "x"})
        singles = ours(inventory(options.nodes), like, options.pods, gang=False)
        gang = ours(inventory(options.nodes), like, options.pods, gang=True)
        plain = anew(inventory(options.nodes), like, options.pods)
        rows.append(
            {
                "pods want": name,
                "singles µs/pod": f"{singles / options.pods * 1e6:.0f}",
                "gang µs/pod": f"{gang / options.pods * 1e6:.0f}",
                "filters anew µs/pod": f"{plain / options.pods * 1e6:.0f}",
                "ratio singles": f"{plain / singles:.0f}",
                "ratio gang": f"{plain / gang:.0f}",
            }
        )
    report("company", f"python -m bench.company --nodes {options.nodes} --pods {options.pods}", rows)


if __name__ == "__main__":
    main()
