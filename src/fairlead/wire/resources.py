"""How much a pod takes from its node: the amounts kube-scheduler counts, exact and rounded once.

Called by `wire.pod` on a cache miss. Pure. Must not use floats, and must not round before the
sum is complete.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType

from fairlead.model.pod import Amounts
from fairlead.model.quantity import ceiling, exact
from fairlead.model.rules import ALL_ADDRESSES, EVERY_ADDRESS
from fairlead.wire.structs import Container, ContainerPort, Quantities, Resources

Sums = dict[str, Fraction]

StatusRequests = tuple[Quantities, Quantities]
"""What the kubelet reports of one container (or of the pod): actuated requests, allocated resources."""


def is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def read(quantities: Quantities) -> Sums:
    return {name: exact(text) for name, text in quantities.items()}


def add(total: Sums, more: Mapping[str, Fraction]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, Fraction(0)) + value


def highest(total: Sums, other: Mapping[str, Fraction]) -> None:
    for name, value in other.items():
        if name not in total or value > total[name]:
            total[name] = value


def effective(spec: Quantities, status: StatusRequests | None, infeasible: bool) -> Sums:
    """Requests under in-place resize: nothing is given back before the kubelet says so.

    A resize that the kubelet calls infeasible is never going to happen, so the wish does not count.
    """
    if status is None:
        return read(spec)
    total = read(status[0])
    highest(total, read(status[1]))
    if not infeasible:
        highest(total, read(spec))
    return total


def container_sums(
    containers: Iterable[Container],
    inits: Iterable[Container],
    statuses: Mapping[str, StatusRequests],
    infeasible: bool,
    default: Mapping[str, Fraction] = MappingProxyType({}),
) -> Sums:
    """The larger of what runs in the end and what any init container needs while it runs.

    Sidecars stay, so each later init container runs beside those started before it. `default` is what a
    container counts that asks for none of a resource.
    """
    running: Sums = {}
    for container in containers:
        own = effective(container.resources.requests, statuses.get(container.name), infeasible)
        add(running, {**default, **own})
    sidecars: Sums = {}
    starting: Sums = {}
    for container in inits:
        if is_sidecar(container):
            own = effective(container.resources.requests, statuses.get(container.name), infeasible)
            own = {**default, **own}
            add(running, own)
            add(sidecars, own)
            highest(starting, sidecars)
        else:
            # The kubelet reports no actuated resources that count for a container that ends.
            moment = {**default, **read(container.resources.requests)}
            add(moment, sidecars)
            highest(starting, moment)
    highest(running, starting)
    return running


def pod_level(name: str) -> bool:
    """Resources that may be given for the pod as a whole, and then replace the containers' sum."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def apply_pod_level(
    sums: Sums, resources: Resources | None, status: StatusRequests | None, infeasible: bool
) -> None:
    if resources is None:
        return
    own = effective(resources.requests, status, infeasible)
    for name in resources.requests:
        if pod_level(name):
            sums[name] = own.get(name, Fraction(0))


def host_ports(containers: Iterable[Container], inits: Iterable[Container]) -> Iterable[ContainerPort]:
    """Ports of all that stays."""
    for container in containers:
        yield from container.ports
    for container in inits:
        if is_sidecar(container):
            yield from container.ports


def amounts(sums: Sums, ports: Iterable[ContainerPort] = ()) -> Amounts:
    """Rounded up, sorted, without zeros; with the pod itself and its host ports."""
    result = {name: ceiling(name, value) for name, value in sums.items()}
    result["pods"] = 1
    for port in ports:
        if port.host_port:
            name = f"port:{port.protocol or 'TCP'}/{port.host_port}"
            if port.host_ip in ("", ALL_ADDRESSES):
                result[name] = EVERY_ADDRESS
            elif result.get(name) != EVERY_ADDRESS and f"{name}@{port.host_ip}" not in result:
                result[name] = result.get(name, 0) + 1
                result[f"{name}@{port.host_ip}"] = 1
    return tuple(sorted((name, value) for name, value in result.items() if value))
