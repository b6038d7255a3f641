"""What a pod would like of its node and its neighbours -> Preferences without amounts. Pure.

Called by `wire.pod` for every pod, so one template's pods share one object, and by `wire.preferences`. Wishes
that cannot be read are none; must not raise for anything an object may contain.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec import Struct

from fairlead.model.preferences import NO_PREFERENCES, Preferences, PreferredNodes, WeightedTerms
from fairlead.wire.rules import match_labels, node_term, pod_term, spread_rule
from fairlead.wire.structs import Affinity, NodeAffinity, PodAffinity, PodSpec, WireSpread

SOFT = "ScheduleAnyway"


class WishParts(Struct, array_like=True):
    """All that wishes without amounts depend on. Encoded, it is the key of the cache."""

    affinity: Affinity | None
    spread: list[WireSpread]
    labels: dict[str, str]
    images: list[str]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(WishParts).decode


def wishes(spec: PodSpec, labels: Mapping[str, str]) -> Preferences:
    """Those without amounts. What cannot be read is no wish."""
    try:
        return _wishes(_encode(parts(spec, labels)))
    except ValueError:
        return NO_PREFERENCES


def parts(spec: PodSpec, labels: Mapping[str, str]) -> WishParts:
    spread = spec.topology_spread_constraints
    containers = [*spec.init_containers, *(spec.containers or [])]
    named = match_labels(spread, labels) if spread else {}
    images = [_tagged(each.image) for each in containers] if any(each.image for each in containers) else []
    return WishParts(spec.affinity, spread, named, images)


@lru_cache(maxsize=16384)
def _wishes(key: bytes) -> Preferences:
    found = made(_decode(key))
    return NO_PREFERENCES if found == NO_PREFERENCES else found  # one object, which encoders then leave out


def made(parts: WishParts) -> Preferences:
    affinity, spread = parts.affinity, parts.spread
    soft = [spread_rule(each, parts.labels) for each in spread if each.when_unsatisfiable == SOFT]
    return Preferences(
        nodes=_nodes(affinity and affinity.node_affinity),
        affinity=_weighted(affinity and affinity.pod_affinity),
        anti_affinity=_weighted(affinity and affinity.pod_anti_affinity),
        spread=tuple(soft) if spread else None,
        images=tuple(parts.images),
    )


def _nodes(wire: NodeAffinity | None) -> PreferredNodes | None:
    terms = wire and wire.preferredDuringSchedulingIgnoredDuringExecution
    if terms is None:
        return None
    return tuple((each.weight, node_term(each.preference)) for each in terms if each.weight)


def _weighted(wire: PodAffinity | None) -> WeightedTerms:
    terms = wire.preferredDuringSchedulingIgnoredDuringExecution if wire else []
    return tuple((each.weight, pod_term(each.pod_affinity_term)) for each in terms)


def _tagged(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
