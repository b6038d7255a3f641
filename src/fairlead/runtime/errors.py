"""Errors that a user can cause and mend, and refusals by a cluster. Printed as one line, no traceback."""


class ConfigError(Exception):
    """A setting that cannot be used; the message says what, where, and what to do."""


class ClusterError(Exception):
    """A cluster refused what a door asked of it, or did not answer. `status` is as HTTP has it (503: nobody
    answered); the text is the API server's own, for people."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status
