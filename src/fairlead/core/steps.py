"""Long work as a generator: each `yield` is a place where the caller may do something else.

Made wherever work takes long where there is much: a plan, an audit. Run by `runtime.slices` between I/O, and
here in one go.
"""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]


def now(steps: Steps[T]) -> T:
    """The result, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
