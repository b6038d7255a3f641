"""A graph with numbered jobs: what all of Fluxion's services match on.

Made by the command line, used by `api.rpc.fluxion`. Every operation runs to its end before the next one
begins, so calls that come at once never get the same vertices. Time stands still, as in `fairlead
resource-query`: what is granted is held until it is cancelled. Must not know messages.
"""

from collections.abc import Callable

from fairlead.core.tree.columns import Tree, TreeError
from fairlead.core.tree.graph import Graph, Op, Outcome
from fairlead.core.tree.matchpolicy import NODE
from fairlead.model.jobspec import Jobspec
from fairlead.wire import jgf


class Unloaded(Exception):
    """There is no graph yet."""


class Unknown(Exception):
    """There is no such job."""


class Matcher:
    """The graph in use, or none until a client brings one."""

    def __init__(self, make: Callable[[Tree, str], Graph], graph: Graph | None = None) -> None:
        """`make` turns a tree and the name of a match policy (empty: the server's) into a graph."""
        self._make = make
        self._graph: Graph | None = None
        self._next = 1
        self.names: dict[int, str] = {}
        """What the nodes are called, by vertex."""
        if graph is not None:
            self._use(graph)

    @property
    def graph(self) -> Graph:
        """Raises Unloaded."""
        if self._graph is None:
            raise Unloaded("there is no graph yet: call Init with one, or start the server with --graph FILE")
        return self._graph

    def load(self, text: str, policy: str) -> None:
        """Another graph, as JGF, and no jobs. Raises TreeError and changes nothing."""
        self._use(self._make(Tree(jgf.read(text)), policy))

    def match(self, jobspec: Jobspec, op: Op) -> Outcome:
        """Match a request; the numbers of jobs are those of a session of resource-query. Raises TreeError."""
        outcome = self.graph.match(jobspec, op, self._next)
        if op is not Op.satisfiability:
            self._next += 1
        return outcome

    def cancel(self, id_: int) -> None:
        """Give back all that a job holds. Raises Unknown."""
        graph = self.graph
        try:
            graph.cancel(id_)
        except TreeError:
            raise Unknown(f"there is no job {id_}; it may have been cancelled before") from None

    async def jgf(self, whole: bool) -> str:
        """The graph as a client would load it: as fine as it was given, whatever is asked for."""
        del whole
        return jgf.whole(self.graph.tree)

    def _use(self, graph: Graph) -> None:
        self._graph, self._next = graph, 1
        self.names = node_names(graph.tree)


def node_names(tree: Tree) -> dict[int, str]:
    """Vertex -> name. Graphs made by fluxnetes hold it as the basename and add a number for Fluxion."""
    pools = {v: tree.pools[v] for v in map(int, tree.of_type(NODE))}
    basenames = {pool.basename for pool in pools.values()}
    if NODE in basenames or len(basenames) < len(pools):
        return {v: pool.name for v, pool in pools.items()}
    return {v: pool.basename for v, pool in pools.items()}
