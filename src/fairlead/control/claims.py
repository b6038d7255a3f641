"""Bind claims that wait for their first consumer, before their pod is bound: kube-scheduler's PreBind.

Called by `control.binds` for what is due. Kubernetes has no unbind, so no member of a start is bound before
the claims of all its members are; until then they are kept in `core.surroundings` and looked at again when
one of their claims or volumes changes. Where nothing can come of it, the intent is marked for the ladder.
"""

from collections.abc import Sequence

from fairlead.core.assume import assume, claims_of, done, failed
from fairlead.core.live import Intent
from fairlead.core.refs import of_pod
from fairlead.core.state import State
from fairlead.core.surroundings import Choice
from fairlead.model.command import Announce, BindClaim, Command, ObjectRef
from fairlead.model.event import BindError
from fairlead.model.group import Why
from fairlead.model.pod import Pod
from fairlead.model.storage import Claim, PersistentVolume

PATIENCE = 600_000
"""kube-scheduler's bindTimeout: a start whose claims are not bound by then is taken back."""
AGAIN = 10_000
"""A request that nothing has come of is repeated after this time."""

Due = Sequence[tuple[Intent, Pod]]


def wake_held(state: State) -> None:
    """Look again at those whose claims have been silent for long."""
    for held in state.surroundings.held.values():
        if held.again_at <= state.now:
            state.to_bind.update(held.pods)


def hold(state: State, due: Due) -> list[Command]:
    """Take those out of `to_bind` whose start waits for claims; what is to be done about these claims."""
    held = state.surroundings.held
    grants: dict[str, list[tuple[Intent, Pod]]] = {
        intent.grant: [] for intent, pod in due if pod.shape.rules.volumes or intent.grant in held
    }
    for intent, pod in due if grants else ():
        if intent.grant in grants:
            grants[intent.grant].append((intent, pod))
    commands: list[Command] = []
    for grant, pairs in grants.items():
        commands += _of_grant(state, grant, pairs)
    return commands


def _of_grant(state: State, grant: str, due: Due) -> list[Command]:
    around = state.surroundings
    commands: list[Command] = []
    late = grant in around.held and around.held[grant].since + PATIENCE <= state.now
    waiting: list[tuple[Intent, Choice]] = []
    refused = False
    for intent, pod in due:
        why = _wrong(state, intent, pod)
        left = [] if why else _left(state, pod)
        if left and late:
            names = ", ".join(choice.claim[1] for choice in left)
            why = f"claims not bound within {PATIENCE // 1000} s: {names}"
        if why:
            refused = True
            commands.append(_refuse(state, intent, pod, why))
        else:
            waiting += [(intent, choice) for choice in left]
    if not (refused or waiting):
        around.release(grant)
        return []
    for intent, _ in due:
        state.to_bind.pop(intent.pod, None)
        held = around.hold(grant, intent.pod, state.now)
        held.again_at = state.now + AGAIN
        held.claims.update({choice.claim: None for _, choice in waiting})
        state.wake(held.again_at, intent.group)
    if not refused:
        for intent, choice in waiting:
            commands += _ask(state, intent, choice)
    return commands


def _wrong(state: State, intent: Intent, pod: Pod) -> str:
    """Why the pod cannot have its claims on its node; "" if it has them or may get them."""
    if not pod.shape.rules.volumes:
        return ""
    for name in claims_of(pod):
        choice = state.surroundings.choices.get(name)
        why = failed(state, choice) if choice is not None else ""
        if why:
            return why
    return assume(state, pod, intent.node)


def _left(state: State, pod: Pod) -> list[Choice]:
    """What was decided of its claims and is not done yet."""
    choices = state.surroundings.choices
    return [choices[name] for name in claims_of(pod) if name in choices and not done(state, name)]


def _refuse(state: State, intent: Intent, pod: Pod, why: str) -> Announce:
    intent.error = BindError.REFUSED
    state.touch(intent.group)
    state.wake(state.now, intent.group)
    return Announce(of_pod(pod), Why.BACKOFF, f"not bound to {intent.node}: {why}", warning=True)


def _ask(state: State, intent: Intent, choice: Choice) -> list[Command]:
    """The request that writes the choice down, unless that is seen already or has just been sent."""
    around = state.surroundings
    claim = around.all(Claim)[choice.claim]
    if choice.written or claim.volume:
        return []
    ref = ObjectRef("PersistentVolumeClaim", *choice.claim, *around.record(Claim, choice.claim))
    volume, by_controller, version = None, True, ref.version
    if choice.volume:
        name = ("", choice.volume)
        volume = ObjectRef("PersistentVolume", *name, *around.record(PersistentVolume, name))
        by_controller, version = around.all(PersistentVolume)[name].claim is None, volume.version
    if choice.sent_version == version and state.now < choice.sent_at + AGAIN:
        return []
    choice.sent_at, choice.sent_version = state.now, version
    return [BindClaim(intent.grant, intent.pod, intent.node, ref, volume, by_controller)]
