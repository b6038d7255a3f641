"""The versions of a kind began anew: everything of it is learned again, whatever its version was.

Called by `core.reduce`, whose part this is for `Rewound`. So it is after the API server's database was
restored from a backup: what was seen after the backup may come back as it was then, with a lower version, or
after it was deleted. Must not drop anything: the list that follows says what is there.
"""

from msgspec.structs import replace

from fairlead.core import things
from fairlead.core.esi import feed
from fairlead.core.state import State
from fairlead.model import event as ev


def rewound(state: State, event: ev.Rewound) -> None:
    state.tombstones.clear()  # who was deleted since the backup is there again
    if event.kind == "Pod":
        state.pods.update({uid: replace(pod, version=-1) for uid, pod in state.pods.items()})
        _doubt_binds(state)
    elif event.kind == "Node":
        state.inventory.forget_versions()
    elif event.kind in things.KINDS:
        state.surroundings.forget_versions(event.kind)
    elif event.kind in feed.TAGS:
        feed.rewound(state, event.kind)
    else:
        state.owners.update(
            {
                uid: replace(owner, version=-1)
                for uid, owner in state.owners.items()
                if owner.kind == event.kind
            }
        )


def _doubt_binds(state: State) -> None:
    """A bind that the API server had said yes to may be undone: without a sight of it, it is repeated."""
    for intent in state.intents.values():
        if intent.acknowledged:
            intent.acknowledged, intent.doubtful = False, True
            intent.not_before = state.now + state.settings.request_timeout
            state.to_bind[intent.pod] = None
            state.wake(intent.not_before, intent.group)
