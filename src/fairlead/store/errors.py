"""The one exception of the store that a user may see.

Raised all over `store`; caught by the composition root and the command line, which print it as it is.
Its text is one line that says what is wrong, where, and what to do. Must not wrap programming errors.
"""


class StoreError(Exception):
    """Something a user can put right; the text is one clear line."""


class FencedError(Exception):
    """A newer leader exists: this process must not write any more. `epoch` is the newer one (0 = unknown)."""

    def __init__(self, epoch: int) -> None:
        super().__init__(f"fenced by epoch {epoch}")
        self.epoch = epoch
