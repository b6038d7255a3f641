"""The nouns: frozen structs and the Event and Command unions.

Everything else imports this package; it imports nothing of Fairlead, does no I/O and has no behaviour
beyond validation.

Values are made bottom-up and never changed, so they cannot form cycles: the garbage collector need not
walk them (`gc=False`), which matters when fifty thousand pods are known.
"""
