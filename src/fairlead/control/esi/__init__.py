"""Reconcilers of external schedulers: testbeds honest, outside plans and batch jobs driven. No I/O."""

from fairlead.control.esi.drive import drive, rest
from fairlead.control.esi.noting import note
from fairlead.control.esi.placing import place
from fairlead.core.engine import Reconciler

ESI: tuple[Reconciler, ...] = (note, place, drive, rest)
"""In the order the engine runs them; all return at once where nothing of external schedulers has changed."""
