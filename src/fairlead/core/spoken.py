"""What constraints speak of: the label keys that decide how one pod's presence matters to another's.

Kept by `core.state`, told by `core.reduce` of every pod, asked by `core.line` when a request is made. Pods
that differ only in labels that no selector mentions are alike, so a thousand members with a label of their
own each stay one class; and while nobody has such constraints, labels and namespaces tell nothing apart.
"""

from typing import cast

from msgspec import structs

from fairlead.core.taste import of_others
from fairlead.model.pod import Pod, Shape
from fairlead.model.rules import EPHEMERAL, Rules

_KEPT = 16_384


class Spoken:
    """Grows and never shrinks: to forget a key would only merge classes that are few anyway."""

    def __init__(self) -> None:
        self.keys: dict[str, None] = {}
        self.active = False
        """True once any pod had a required pod affinity, pod anti-affinity or spread constraint."""
        self._heard: dict[int, Rules] = {}
        self._alike: dict[object, Pod] = {}

    def hear(self, shape: Shape) -> bool:
        """Take in what a pod of this shape asks. Returns whether more matters now than did before."""
        rules = shape.rules
        if not (rules.affinity or rules.anti_affinity or rules.spread) or id(rules) in self._heard:
            return False
        if len(self._heard) > _KEPT:
            self._heard.clear()
        self._heard[id(rules)] = rules  # kept, so that its id stays taken
        before = (self.active, len(self.keys))
        self.active = True
        terms = (*rules.affinity, *rules.anti_affinity, *rules.spread)
        self.keys.update(dict.fromkeys(e.key for term in terms for e in term.selector or ()))
        return before != (self.active, len(self.keys))

    def like(self, pod: Pod, shape: Shape) -> Pod | None:
        """All that matters of the pod beside its shape, one pod for all that are alike; None if nothing does.

        `shape` is the pod's own, or the one equal to it that stands for all. It has no uid, unless a volume
        of the pod's own hangs on that.
        """
        rules = shape.rules
        if not (self.active or rules.volumes or rules.features or of_others(pod.wishes)):
            return None
        labels = {key: pod.labels[key] for key in self.keys if key in pod.labels}
        own = any(volume.kind == EPHEMERAL for volume in rules.volumes)
        key = (id(shape), pod.namespace, tuple(labels.items()), pod.uid if own else "")
        known = self._alike.get(key)
        if known is None or known.shape is not shape:
            if len(self._alike) > _KEPT:
                self._alike.clear()
            known = self._alike[key] = Pod(
                uid=pod.uid if own else "",
                namespace=pod.namespace,
                name=pod.name if own else "",
                version=0,
                shape=shape,
                labels=labels,
            )
        return known

    def rekey(self) -> None:
        """What is kept under identities is found under those of this process (`core.rekey`)."""
        self._heard = {id(rules): rules for rules in self._heard.values()}
        alike = cast("dict[tuple[object, ...], Pod]", self._alike)
        self._alike = {(id(pod.shape), *key[1:]): pod for key, pod in alike.items()}


def placed(pod: Pod, node: str) -> Pod:
    """The pod as it would be on that node."""
    return structs.replace(pod, node=node)
