"""Reconcilers: (state, now) -> commands, without memory of their own. Imported by `runtime`; no I/O."""
