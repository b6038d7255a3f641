"""NodeResourcesFit and NodePorts: what a node has only so much of. Called by `core.filters.run`.

Amounts are the inventory's; here they are only worded as kube-scheduler does. Ports are looked up among the
pods, for an address decides there.
"""

from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.verdict import Code, Rejection
from fairlead.model.pod import Pod
from fairlead.model.rules import ALL_ADDRESSES, HostPort


def node_resources_fit(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """Every resource that is short; UNRESOLVABLE where even the empty node has too little of it."""
    inventory, size = cluster.inventory, len(cluster)
    found: list[Rejection] = []
    for name, amount in pod.shape.requests:
        if name.startswith("port:"):  # NodePorts looks at these
            continue
        ((resource, _),) = inventory.vector(((name, amount),)).pairs
        short = inventory.free[resource, :size] < amount
        if name == "pods":
            found.append(Rejection(short, Code.UNSCHEDULABLE, "Too many pods"))
            continue
        never = short & (inventory.capacity[resource, :size] < amount)
        found.append(Rejection(never, Code.UNRESOLVABLE, f"Insufficient {name}"))
        found.append(Rejection(short & ~never, Code.UNSCHEDULABLE, f"Insufficient {name}"))
    return found


def node_ports(cluster: Cluster, pod: Pod) -> list[Rejection]:
    """Host ports that a pod on the node has taken."""
    mask = cluster.nothing()
    for port in pod.shape.rules.ports:
        mask[_users(cluster, port)] = True
    reason = "node(s) didn't have free ports for the requested pod ports"
    return [Rejection(mask, Code.UNSCHEDULABLE, reason)]


def _users(cluster: Cluster, port: HostPort) -> list[int]:
    """Node rows where the port is in use; all addresses conflict with each, each with itself and with all."""
    used = cluster.pods.ports.get((port.protocol, port.port), {})
    addresses = list(used) if port.ip == ALL_ADDRESSES else [ALL_ADDRESSES, port.ip]
    return [row for ip in addresses for row in cluster.pods.rows_of(used.get(ip, {}))]
