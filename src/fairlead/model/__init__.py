"""The nouns: frozen structs and the Event and Command unions.

Everything else imports this package; it imports nothing of Fairlead, does no I/O and has no behaviour
beyond validation.
"""
