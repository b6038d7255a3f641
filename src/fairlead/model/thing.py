"""What surrounds pods and nodes: the union of all objects that filters look at beside these.

Carried by `ThingSeen` events, kept by `core.surroundings`. A thing has no uid and no version (the event has),
so two that are equal mean the same to every filter. Its tag is its Kubernetes kind.
"""

from msgspec import Struct

from fairlead.model.storage import (
    Attachment,
    Capacity,
    Claim,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    StorageClass,
)


class Namespace(Struct, frozen=True, gc=False, omit_defaults=True, tag="Namespace"):
    """core/v1 Namespace: its labels are what namespace selectors select."""

    name: str
    labels: dict[str, str] = {}


class DeviceClass(Struct, frozen=True, gc=False, omit_defaults=True, tag="DeviceClass"):
    """resource.k8s.io/v1 DeviceClass. `resource` is the extended resource that it backs, "" if none."""

    name: str
    resource: str = ""


Thing = (
    Namespace
    | Claim
    | PersistentVolume
    | StorageClass
    | CsiNode
    | CsiDriver
    | Capacity
    | Attachment
    | DeviceClass
)

THINGS = (
    Namespace,
    Claim,
    PersistentVolume,
    StorageClass,
    CsiNode,
    CsiDriver,
    Capacity,
    Attachment,
    DeviceClass,
)


def kind_of(thing: type[Thing] | Thing) -> str:
    """The Kubernetes kind, as `Listed` names it."""
    return str(thing.__struct_config__.tag)
