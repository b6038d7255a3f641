"""Reconcilers: (state, touched groups) -> commands, without memory of their own. No I/O."""

from fairlead.control.binds import inspect, release
from fairlead.control.enforce import enforce
from fairlead.control.estimates import foretell
from fairlead.control.ladder import climb
from fairlead.control.telling import tell
from fairlead.core.engine import Reconciler

RECONCILERS: tuple[Reconciler, ...] = (inspect, climb, release, enforce, tell, foretell)
"""In the order the engine runs them: failed starts are dealt with before binds go out, words come last."""
