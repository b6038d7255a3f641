"""Reconcilers of external schedulers: testbeds honest, outside plans and batch jobs driven. No I/O."""
