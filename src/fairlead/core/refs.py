"""What a command says of the object that it is about.

Called by the reconcilers in `control` and by `core.state`.
"""

from fairlead.model.command import ObjectRef
from fairlead.model.owner import Owner
from fairlead.model.pod import Pod


def of_pod(pod: Pod) -> ObjectRef:
    """The pod with its version: whoever writes too late must fail (a bind carries the version, too)."""
    return ObjectRef("Pod", pod.namespace, pod.name, pod.uid, pod.version)


def of_owner(owner: Owner) -> ObjectRef:
    """The owner at whatever version: others write its status all the time."""
    return ObjectRef(owner.kind, owner.namespace, owner.name, owner.uid)
