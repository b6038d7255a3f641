"""Reconcilers: (state, touched groups) -> commands, without memory of their own. No I/O."""

from fairlead.control.binds import inspect, release
from fairlead.control.enforce import enforce
from fairlead.control.esi import ESI
from fairlead.control.estimates import foretell
from fairlead.control.ladder import climb
from fairlead.control.races import give_way
from fairlead.control.telling import tell
from fairlead.core.engine import Reconciler

ACTING: tuple[Reconciler, ...] = (inspect, climb, give_way, release, enforce)
"""Those on whom anything but words depends: enough where nobody listens."""
RECONCILERS: tuple[Reconciler, ...] = (*ACTING, *ESI, tell, foretell)
"""In the order the engine runs them: failed starts are dealt with before binds go out, words come last."""
