"""Dictionaries keyed by identity get the identities of this process: what a restored state needs.

Called by `runtime.checkpoint` once a state is read back. Whoever keeps something under `id(...)` in the state
or in a snapshot keeps the object itself beside it, and is named here; who is not is found by
tests/property/test_replay_checkpoint.py. Must not change anything else.
"""

from collections.abc import Iterable
from typing import cast

from fairlead.core.line import kind_key
from fairlead.core.snapshot import Snapshot, Task
from fairlead.core.state import State


def rekey(state: State, snapshots: Iterable[Snapshot] = ()) -> None:
    """The state of another process, and the snapshots it was planning from, as if they had been made here."""
    state.wanted = {id(shape): (shape, count) for shape, count in state.wanted.values()}
    state.likes = {id(like): (like, count) for like, count in state.likes.values()}
    state.narrowed = {
        (id(shape), partition): (shape, made) for (_, partition), (shape, made) in state.narrowed.items()
    }
    state.tailored = {
        (id(shape), places, home): (shape, made)
        for (_, places, home), (shape, made) in state.tailored.items()
    }
    state.spoken.rekey()
    kinds = cast("dict[tuple[object, ...], tuple[int, tuple[Task, ...]]]", state.kinds)
    state.kinds = {kind_key(key[:-1], tasks): (number, tasks) for key, (number, tasks) in kinds.items()}
    for snapshot in snapshots:
        if snapshot.crowd is not None:
            snapshot.crowd.rekey()
