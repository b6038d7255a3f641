"""What a pod on the wire asks of other pods, of ports and of volumes -> the Rules that filters look at. Pure.

Called by `wire.pod` on a cache miss, and in part by `wire.storage`. Raises ValueError for an operator that
does not exist.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import astuple

from fairlead.model.rules import ALL_ADDRESSES, NO_RULES, HostPort, PodTerm, Rules, Spread, Volume
from fairlead.model.selector import Expression, Operator, Selector
from fairlead.wire.structs import (
    Affinity,
    Container,
    ContainerPort,
    LabelSelector,
    NodeRequirement,
    NodeTerm,
    PodAffinity,
    VolumeSource,
    WirePodTerm,
    WireSpread,
    WireVolume,
)

HARD = "DoNotSchedule"
RESTART_ALL = "RestartAllContainersOnContainerExits"
USERNS_ON_HOST = "UserNamespacesHostNetworkSupport"
KINDS = tuple(name for name in WireVolume.__struct_fields__ if name != "name")
"""Kinds of volumes that filters look at."""


def selector(wire: LabelSelector | None) -> Selector:
    """The expressions of a label selector; both of its halves must hold."""
    if wire is None:
        return None
    pairs = [Expression(key, Operator.IN, (value,)) for key, value in wire.match_labels.items()]
    return tuple(sorted({*pairs, *(_expression(each) for each in wire.match_expressions)}))


def node_term(wire: NodeTerm) -> tuple[Expression, ...]:
    """A conjunction over a node's labels and fields."""
    labels = [_expression(each, field=False) for each in wire.match_expressions]
    fields = [_expression(each, field=True) for each in wire.match_fields]
    return tuple(sorted(labels + fields))


def _expression(wire: NodeRequirement, field: bool = False) -> Expression:
    return Expression(wire.key, Operator(wire.operator), tuple(sorted(wire.values)), field)


def looked_at(volumes: Iterable[WireVolume]) -> list[WireVolume]:
    """The volumes that filters look at; names of the others differ from pod to pod and say nothing."""
    return [each for each in volumes if astuple(each).count(None) < len(KINDS)]


def kind_of(volume: WireVolume) -> str:
    """Which kind of source the volume has; "" if none that filters look at."""
    return next((kind for kind in KINDS if getattr(volume, kind) is not None), "")


def match_labels(spread: Iterable[WireSpread], labels: Mapping[str, str]) -> dict[str, str]:
    """Those of a pod's labels that its spread constraints name in matchLabelKeys."""
    return {key: labels[key] for each in spread for key in each.match_label_keys if key in labels}


def rules(
    containers: list[Container],
    inits: list[Container],
    affinity: Affinity | None,
    spread: Iterable[WireSpread],
    labels: Mapping[str, str],
    volumes: Iterable[WireVolume],
    userns_on_host: bool,
) -> Rules:
    """`labels` are those that `match_labels` found."""
    lasting = [*(each for each in inits if each.restart_policy == "Always"), *containers]
    made = Rules(
        ports=tuple(sorted({_port(port) for each in lasting for port in each.ports if port.host_port > 0})),
        affinity=_terms(affinity and affinity.pod_affinity),
        anti_affinity=_terms(affinity and affinity.pod_anti_affinity),
        spread=tuple(spread_rule(each, labels) for each in spread if each.when_unsatisfiable == HARD),
        volumes=tuple(_volume(each) for each in volumes),
        features=tuple(_features([*containers, *inits], userns_on_host)),
    )
    return NO_RULES if made == NO_RULES else made  # one object, which encoders then leave out


def _port(wire: ContainerPort) -> HostPort:
    return HostPort(wire.host_port, wire.protocol or "TCP", wire.host_ip or ALL_ADDRESSES)


def _terms(wire: PodAffinity | None) -> tuple[PodTerm, ...]:
    if wire is None:
        return ()
    return tuple(pod_term(each) for each in wire.requiredDuringSchedulingIgnoredDuringExecution)


def pod_term(wire: WirePodTerm) -> PodTerm:
    """A term as it is written: whose namespace it is about is decided where it is used."""
    return PodTerm(
        wire.topology_key,
        selector(wire.label_selector),
        tuple(sorted(wire.namespaces)),
        selector(wire.namespace_selector),
    )


def spread_rule(wire: WireSpread, labels: Mapping[str, str]) -> Spread:
    """`labels` are those of the pod, or at least those that matchLabelKeys name."""
    chosen = selector(wire.label_selector)
    if chosen is not None:
        own = [Expression(key, Operator.IN, (labels[key],)) for key in wire.match_label_keys if key in labels]
        chosen = tuple(sorted({*chosen, *own}))
    return Spread(
        wire.topology_key,
        chosen,
        wire.max_skew,
        1 if wire.min_domains is None else wire.min_domains,
        wire.node_affinity_policy != "Ignore",
        wire.node_taints_policy == "Honor",
    )


def _volume(wire: WireVolume) -> Volume:
    kind = kind_of(wire)
    source: object = getattr(wire, kind)
    if not isinstance(source, VolumeSource):
        return Volume(kind, wire.name)
    pool = (source.pool or "rbd") if kind == "rbd" else ""
    return Volume(kind, source_id(kind, source), source.read_only, pool, tuple(source.monitors))


def source_id(kind: str, source: VolumeSource) -> str:
    """What tells volumes of this kind apart."""
    ids = {
        "persistentVolumeClaim": source.claim_name,
        "gcePersistentDisk": source.pd_name,
        "azureDisk": source.disk_uri,
        "iscsi": source.iqn,
        "rbd": source.image,
    }
    return ids.get(kind, source.volume_id)


def _features(containers: Iterable[Container], userns_on_host: bool) -> Iterator[str]:
    actions = {rule.action for each in containers for rule in each.restart_policy_rules}
    if "RestartAllContainers" in actions:
        yield RESTART_ALL
    if userns_on_host:
        yield USERNS_ON_HOST
