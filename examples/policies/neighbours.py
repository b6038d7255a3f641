"""Who may share a node: jobs that slow each other down are kept apart.

An example of a policy function that chooses nodes, see docs/policies.md. The label `app` says what a job is;
SLOWER says how much longer it takes beside another one, as somebody has measured it.
"""

from collections.abc import Iterator

import numpy as np

from fairlead.model.outside import Decision, Start, View, Waiting

SLOWER = {("io", "io"): 2.0, ("io", "net"): 1.6, ("cpu", "cpu"): 1.3, ("cpu", "io"): 1.05}
"""The pair in order of the alphabet; 1.0 for all others."""
BEARABLE = 1.5


def neighbours(view: View) -> Iterator[Decision]:
    """In the order of the queue; each pod goes where those that are there slow it down least."""
    free = view.free.copy()
    there: list[list[str]] = [[] for _ in view.nodes.names]
    for running in view.running:
        for held in running.held:
            for node in held.nodes:
                there[node].append(running.labels.get("app", ""))
    for group in view.waiting:
        chosen = place(view, free, there, group)
        if chosen is not None:
            yield Start(group.id, chosen)


def place(view: View, free: np.ndarray, there: list[list[str]], group: Waiting) -> tuple[int, ...] | None:
    """A node for each of its pods, taken from `free`; None, and nothing is taken, if one would suffer."""
    left, with_us = free.copy(), [list(apps) for apps in there]
    app, chosen = group.labels.get("app", ""), list[int]()
    for task in group.tasks:
        amounts = np.array(task.amounts)
        for _ in range(task.count):
            fit = view.feasible[task.feasible] & (left >= amounts[:, None]).all(
                axis=0, where=amounts[:, None] > 0
            )
            nodes = [(pain(app, with_us[node]), node) for node in np.flatnonzero(fit).tolist()]
            worst, node = min(nodes, default=(BEARABLE, -1))
            if worst >= BEARABLE:
                return None
            left[:, node] -= amounts
            with_us[node].append(app)
            chosen.append(node)
    free[:], there[:] = left, with_us
    return tuple(chosen)


def pain(app: str, others: list[str]) -> float:
    """How much longer it takes beside the worst of these."""
    return max([SLOWER.get((min(app, each), max(app, each)), 1.0) for each in others], default=1.0)
