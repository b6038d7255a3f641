"""What a filter says of every node: a code per node, and reasons for whoever asks.

Made by the plugins' functions, read by `core.filters.run` and by those who explain. A plugin gives
Rejections: masks with a code and a reason; where several hold on one node the gravest code counts and all
reasons are told.
"""

from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairlead.core.columns import Mask


class Code(IntEnum):
    """kube-scheduler's status codes in order of gravity; the labels are its own."""

    SUCCESS = 0
    UNSCHEDULABLE = 1
    """Preempting pods could help."""
    UNRESOLVABLE = 2
    ERROR = 3
    """The scheduling cycle fails."""

    @property
    def label(self) -> str:
        """As kube-scheduler writes it."""
        return ("Success", "Unschedulable", "UnschedulableAndUnresolvable", "Error")[self]


class Rejection(NamedTuple):
    """Nodes that are rejected for one reason."""

    mask: Mask
    code: Code
    reason: str


class Verdict:
    """The verdict of one plugin on all nodes."""

    def __init__(self, size: int, rejections: Sequence[Rejection] = ()) -> None:
        self._size = size
        self.rejections = tuple(each for each in rejections if each.mask.any())

    @cached_property
    def codes(self) -> NDArray[np.int8]:
        """[node] a Code; do not change it."""
        codes = np.zeros(self._size, dtype=np.int8)
        for mask, code, _ in self.rejections:
            np.maximum(codes, mask * np.int8(code), out=codes)
        return codes

    def code(self, row: int) -> Code:
        """The code of one node."""
        return Code(int(self.codes[row]))

    def reasons(self, row: int) -> tuple[str, ...]:
        """Why the node is rejected, sorted; () where it is accepted."""
        return tuple(sorted({each.reason for each in self.rejections if each.mask[row]}))
