"""A whole engine as bytes, and back: what a segment of the ledger begins with (`runtime.segmenting`).

Exact to the bit: what the restored engine is told next, it answers as the one that was saved would have.
Plans that were being made belong to it, so that they can be made again. Read back only through a list of
what may be in it: whoever can write to the database cannot run code here. Must not be trusted by another
version of the engine: its fields may differ (`runtime.version`).
"""

import io
import pickle
import zlib
from collections.abc import Mapping, Sequence
from copyreg import dispatch_table
from typing import Any

from fairlead.core.engine import Engine, Reconciler
from fairlead.core.rekey import rekey
from fairlead.core.snapshot import Snapshot
from fairlead.model.layout import NO_LAYOUT, Layout
from fairlead.model.preferences import NO_PREFERENCES, Preferences
from fairlead.model.rules import NO_RULES, Rules
from fairlead.runtime.shared import Shared

FORMAT = "fairlead-checkpoint/1"
_SINGLE: tuple[tuple[type, object, str], ...] = (
    (Preferences, NO_PREFERENCES, "NO_PREFERENCES"),
    (Rules, NO_RULES, "NO_RULES"),
    (Layout, NO_LAYOUT, "NO_LAYOUT"),
)
"""Objects of which there is one: others are compared with them by identity."""
_OURS = ("fairlead.model.", "fairlead.core.", "fairlead.control.")
_NAMES = {(type(each).__module__, name): each for _, each, name in _SINGLE}
_OTHERS = frozenset(
    [
        ("builtins", "set"),
        ("builtins", "frozenset"),
        ("builtins", "bytearray"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("collections", "deque"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
    ]
)


class CheckpointError(Exception):
    """These bytes are no checkpoint of this version; the text says why."""


class Restored:
    """An engine as it was, and the snapshots of the plans that were being made, by version, oldest first."""

    def __init__(self, engine: Engine, planning: dict[int, Snapshot]) -> None:
        self.engine, self.planning = engine, planning


def dump(engine: Engine, planning: Mapping[int, Snapshot]) -> bytes:
    """The engine between two batches. Takes a while where there is much: `runtime.forked` has the time."""
    fields = {name: value for name, value in vars(engine).items() if name != "reconcilers"}
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump((FORMAT, fields, dict(planning)))
    return zlib.compress(buffer.getbuffer(), 1)


def load(body: bytes, reconcilers: Sequence[Reconciler], shared: Shared) -> Restored:
    """The engine again. Shapes and wishes of its pods become those that stand for all equal ones in `shared`.

    Raises CheckpointError.
    """
    try:
        found: Any = _Unpickler(io.BytesIO(zlib.decompress(body))).load()
        format_, fields, planning = found
        if format_ != FORMAT:
            raise CheckpointError(f"a checkpoint of format {format_!r}, this version reads {FORMAT!r}")
        engine = Engine(fields["state"].settings, reconcilers)
        vars(engine).update(fields)
        rekey(engine.state, planning.values())
    except CheckpointError:
        raise
    except Exception as error:
        text = f"not a checkpoint of this version ({type(error).__name__}: {error})"
        raise CheckpointError(text) from error
    for pod in engine.state.pods.values():
        shared.add(pod.shape)
        shared.add(pod.wishes)
    return Restored(engine, planning)


class _Pickler(pickle.Pickler):
    """Names the objects of which there is one, instead of copying them."""

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.dispatch_table = dispatch_table.copy()
        for kind, single, name in _SINGLE:
            self.dispatch_table[kind] = lambda each, single=single, name=name: (
                name if each is single else each.__reduce_ex__(5)
            )


class _Unpickler(pickle.Unpickler):
    """Makes nothing but nouns, parts of the state, arrays and plain containers."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) in _NAMES:
            return _NAMES[module_name, global_name]
        if (module_name, global_name) in _OTHERS:
            return super().find_class(module_name, global_name)
        if module_name.startswith(_OURS) and "." not in global_name:
            found = super().find_class(module_name, global_name)
            if isinstance(found, type) and found.__module__ == module_name:
                return found
        raise CheckpointError(f"{module_name}.{global_name} may not be in a checkpoint")
