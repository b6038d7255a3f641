"""The verbs: reduce, match, plan, verify. Deterministic and without I/O; imports only model and NumPy."""
