"""Errors that a user can cause and mend. The command line prints them as one line, without a traceback."""


class ConfigError(Exception):
    """A setting that cannot be used; the message says what, where, and what to do."""
