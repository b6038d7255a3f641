"""Over how many nodes, racks and zones gangs spread, by match policy and by what they ask for.

Run: python -m bench.span [--nodes N] [--gangs G]. A cluster of racks of 64 nodes and zones of 16 racks is
filled at random; then gangs of unlike sizes come one after the other. The reference is `first`, the policy
that takes what comes. What was placed is checked: required racks are kept, nothing is over capacity.
"""

import argparse
import random
import statistics
import time

from bench.report import report
from fairlead.core import topology
from fairlead.core.inventory import Inventory
from fairlead.core.match import Matcher
from fairlead.core.picture import columns
from fairlead.core.snapshot import Draft, Request, Snapshot, Task
from fairlead.model.layout import NO_LAYOUT, Layout
from fairlead.model.node import Node
from fairlead.model.pod import Shape
from fairlead.model.settings import Settings

RACK, ZONE = "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"
NEAR = {
    "nothing": NO_LAYOUT,
    "a rack, if it can be": Layout(preferred=RACK),
    "one rack": Layout(required=RACK),
}


def machines(nodes: int) -> Inventory:
    """Whole nodes, two thirds of which somebody has, in blocks as jobs leave them."""
    chance = random.Random(5)
    made = Inventory()
    taken = 0
    for i in range(nodes):
        labels = {ZONE: f"z{i // 1024}", RACK: f"r{i // 64}"}
        made.put(Node(f"n{i}", f"n{i}", 1, (("cpu", 32_000), ("pods", 110)), labels=labels))
        if not taken:
            taken = chance.choice((0, 0, 1, 4, 9))
        else:
            taken -= 1
            made.hold(f"p{i}", f"n{i}", (("cpu", 32_000), ("pods", 1)))
    return made


def gangs(count: int, layout: Layout, shape: Shape) -> tuple[Request, ...]:
    chance = random.Random(6)
    made: list[Request] = []
    for i in range(count):
        uids = tuple(f"g{i}-{k}" for k in range(chance.choice((4, 8, 16, 24))))
        made.append(Request(f"g{i}", (0, 0, i, ""), (Task(shape, uids),), False, 0, layout=layout))
    return tuple(made)


def spans(view: Snapshot, policy: str) -> tuple[list[dict[str, int]], float]:
    """The span of each gang that was placed, and seconds per gang."""
    matcher = Matcher(Draft(view), policy)
    levels = topology.of(view.classes, view.settings.topology)
    rows = {name: row for row, name in enumerate(view.names)}
    found: list[dict[str, int]] = []
    begun = time.perf_counter()
    for request in view.waiting:
        placed = matcher.place(request)
        if placed is not None:
            at = [rows[place.node] for place in placed]
            found.append(levels.span(at))
            assert request.layout.required != RACK or found[-1]["rack"] == 1
    taken = time.perf_counter() - begun
    assert (matcher.draft.free >= 0).all(), "a node was given more than it has"
    return found, taken / len(view.waiting)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=4_096)
    parser.add_argument("--gangs", type=int, default=100)
    options = parser.parse_args()
    shape = Shape((("cpu", 32_000), ("pods", 1)))
    reference = 0.0
    rows: list[dict[str, str]] = []
    for policy in ("first", "pack", "spread", "locality"):
        for asked, layout in NEAR.items():
            inventory = machines(options.nodes)
            inventory.vector(shape.requests)
            view = columns(inventory, gangs(options.gangs, layout, shape), Settings(match=policy), 1_000)
            found, each = spans(view, policy)
            racks = statistics.mean(span["rack"] for span in found)
            reference = reference or racks
            rows.append(
                {
                    "match": policy,
                    "gangs ask for": asked,
                    "placed": f"{len(found)} of {options.gangs}",
                    "nodes": f"{statistics.mean(span['node'] for span in found):.1f}",
                    "racks": f"{racks:.2f}",
                    "zones": f"{statistics.mean(span['zone'] for span in found):.2f}",
                    "racks to first": f"{racks / reference:.2f}",
                    "ms a gang": f"{each * 1e3:.2f}",
                }
            )
    report("span", f"python -m bench.span --nodes {options.nodes} --gangs {options.gangs}", rows)


if __name__ == "__main__":
    main()
