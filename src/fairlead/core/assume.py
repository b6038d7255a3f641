"""What is decided of claims that wait for their first consumer, and what has become of it.

Called by `core.verify` for each pod that is granted a node, so that the next pod of a plan finds its volume
taken, and by `control.claims` before the pod is bound; `core.story` asks what is waited for. Decides by
`core.filters.binding`, keeps it in `core.surroundings`. Doing it twice changes nothing.
"""

from fairlead.core.filters.binding import decide
from fairlead.core.filters.cluster import Cluster
from fairlead.core.filters.pods import PodIndex
from fairlead.core.filters.volumes import claim_name
from fairlead.core.live import Group
from fairlead.core.state import State
from fairlead.core.surroundings import Choice, Name
from fairlead.model.pod import Pod
from fairlead.model.rules import CLAIM, EPHEMERAL
from fairlead.model.storage import Claim, PersistentVolume


def claims_of(pod: Pod) -> list[Name]:
    """The claims that stand behind the pod's volumes, by namespace and name."""
    return [
        (pod.namespace, claim_name(pod, volume))
        for volume in pod.shape.rules.volumes
        if volume.kind in (CLAIM, EPHEMERAL)
    ]


def assume(state: State, pod: Pod, node: str) -> str:
    """Decide how the pod's claims are bound if it goes to this node; from now on that counts as done.

    Returns why it may not go there, "" if it may. A claim that was decided on before, also for another pod,
    stays as it is: whether its volume is right for this pod is seen when it is bound.
    """
    around = state.surroundings
    row = state.inventory.rows.get(node)
    if row is None:
        return f"there is no node {node}"
    names = claims_of(pod)
    pending = {
        name: choice for name in names if (choice := around.choices.get(name)) and not done(state, name)
    }
    found = decide(_cluster(state), pod, row, pending)
    if isinstance(found, str):
        return found
    for choice in pending.values():
        around.choose(pod.uid, choice)
    for claim, volume in reversed(found):  # of a claim that is mounted twice the first volume counts
        name = (claim.namespace, claim.name)
        around.choose(pod.uid, Choice(name, volume.name if volume is not None else "", node))
    return ""


def done(state: State, name: Name) -> bool:
    """Whether the claim is bound and its volume is known."""
    claim = state.surroundings.all(Claim).get(name)
    if claim is None or not (claim.volume and claim.bound):
        return False
    return ("", claim.volume) in state.surroundings.all(PersistentVolume)


def failed(state: State, choice: Choice) -> str:
    """Why nothing will come of the choice any more; "" while something may."""
    around = state.surroundings
    claim = around.all(Claim).get(choice.claim)
    if claim is None or claim.deleting:
        return f"claim {choice.claim[1]} is gone"
    if claim.volume:
        return ""
    if not choice.volume:
        if claim.selected_node == choice.node or not (choice.written or claim.selected_node):
            return ""
        if claim.selected_node:
            return f"claim {claim.name} is to be made for node {claim.selected_node} now"
        return f"no volume could be made for claim {claim.name} on node {choice.node}"
    volume = around.all(PersistentVolume).get(("", choice.volume))
    if volume is None or volume.deleting:
        return f"volume {choice.volume} is gone"
    if volume.claim is None:
        return f"volume {choice.volume} was taken away from claim {claim.name}" if choice.written else ""
    if volume.claim[:2] != choice.claim or volume.claim[2] not in ("", claim.uid):
        return f"volume {choice.volume} belongs to claim {volume.claim[0]}/{volume.claim[1]} now"
    return ""


def waited_for(state: State, group: Group) -> list[str]:
    """The claims, by name, that must be bound before the group's pods are."""
    held = state.surroundings.held
    grants = dict.fromkeys(
        intent.grant for uid in group.pods if (intent := state.intents.get(uid)) is not None
    )
    return [name for grant in grants if grant in held for _, name in held[grant].claims]


def _cluster(state: State) -> Cluster:
    """All that the decision looks at; good until the next event."""
    inventory = state.inventory
    return Cluster(inventory, PodIndex(inventory.rows), {}, state.surroundings.present, inventory.classes())
