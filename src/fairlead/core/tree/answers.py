"""Answers that hold until something changes: what did not fit now, and what could ever fit.

Owned by `core.tree.graph`. While jobs only come, what did not fit does not fit: so a request is not tried
twice in a cycle. That is kept only of requests of which it is certain. Must not match anything.
"""

from collections.abc import Sequence

from fairlead.model.jobspec import SLOT, Jobspec, Resource

_MOST = 4096


class Answers:
    """By request; a request that was asked long ago may be forgotten."""

    def __init__(self) -> None:
        self._busy: dict[tuple[Jobspec, int], None] = {}
        self._ever: dict[Jobspec, bool] = {}

    def busy(self, jobspec: Jobspec, now: int) -> bool:
        """Whether it is known that the request does not fit at this instant."""
        return bool(self._busy) and (jobspec, now) in self._busy

    def ever(self, jobspec: Jobspec) -> bool | None:
        """Whether it could fit with everything free and up; None if it is not known."""
        return self._ever.get(jobspec)

    def was_busy(self, jobspec: Jobspec, now: int) -> None:
        """It did not fit now."""
        if _certain(jobspec.resources):
            if len(self._busy) >= _MOST:
                self._busy.clear()
            self._busy[jobspec, now] = None

    def was_ever(self, jobspec: Jobspec, fits: bool) -> None:
        """It could fit, or could not."""
        if len(self._ever) >= _MOST:
            self._ever.clear()
        self._ever[jobspec] = fits

    def freed(self) -> None:
        """Something may be free that was not."""
        self._busy.clear()


def _certain(resources: Sequence[Resource], in_slot: bool = False) -> bool:
    """Whether less that is free can never fit more.

    Not so for slots that take as much as there is, nor for slots side by side, which are tried one by one.
    """
    return sum(each.type == SLOT for each in resources) < 2 and all(
        not (in_slot and each.count.min != each.count.max)
        and _certain(each.children, in_slot or each.type == SLOT)
        for each in resources
    )
