"""`fairlead demo`: options in, `cli.demo_run` called.

Registered by `cli.main`. Imports next to nothing, so that help stays quick. Must not hold any logic.
"""

from typing import Annotated

import typer


def demo(
    nodes: Annotated[int, typer.Option(help="How many nodes the cluster has: at least 8.")] = 8,
    node_cpu: Annotated[int, typer.Option(help="cpu of each node: 8 to 19; one example is too big.")] = 8,
    keep: Annotated[bool, typer.Option("--keep", help="Leave cluster and scheduler running.")] = False,
    down: Annotated[bool, typer.Option("--down", help="End what earlier demos left running.")] = False,
) -> None:
    """See it work: a cluster on this machine, Fairlead, and all the examples, in about a minute.

    Real etcd, API server and controllers on free ports of the loopback; the nodes are simulated, so that
    nothing else runs on your machine. All is gone when the command ends, unless --keep is given.
    The very first start builds the control plane with Go, which takes minutes.
    """
    from fairlead.cli import demo_run

    if down:
        demo_run.down()
    else:
        demo_run.run(nodes, node_cpu, keep)
