"""Queue policies as two numbers each: all of them are one function of these (`core.cycle`).

Read by `core.cycle` and `core.engine`. What a user may choose is `model.settings.POLICIES`; a policy stands
here first and there once its every start is proven.
"""

from typing import NamedTuple


class Lookahead(NamedTuple):
    """How many waiting groups are promised a start, and whether a promise is kept from plan to plan.

    A promise that is not kept is laid anew in each cycle, from the running work alone.
    """

    depth: int
    keep: bool = False


DEPTH: dict[str, Lookahead] = {"fcfs": Lookahead(0), "easy": Lookahead(1)}


def lookahead(policy: str) -> Lookahead:
    """The numbers of a policy by its name; an unknown name is a mistake of the caller's."""
    return DEPTH[policy]
