"""Figures as SVG and pages of them, written by hand: text that is small and the same each time.

Used by `sim` for simulations and by `recorder` for what was recorded. Must know neither.
"""
