"""The phases of a group and the moves between them. A move that is not here is a bug and raises.

       complete            plan accepted          all members bound
HELD ───────────► QUEUED ───────────────► STARTING ───────────────► RUNNING ──► ENDED
  ▲ ◄─ member lost ─┘ ▲ ◄── ladder step 1 ──┘ │                        │
  │                   └─ nodes joined ─ ENDED(rejected)                 │
  └──────────────── everything evicted, or its owner suspended ◄───────┘

Any phase may move to ENDED when nothing of the group is left. A group that others start, by binding its
members themselves, moves to STARTING from wherever it waits, be it rejected.
"""

from fairlead.model.group import Phase

MOVES: dict[Phase, tuple[Phase, ...]] = {
    Phase.HELD: (Phase.QUEUED, Phase.STARTING, Phase.ENDED),
    Phase.QUEUED: (Phase.HELD, Phase.STARTING, Phase.ENDED),
    Phase.STARTING: (Phase.HELD, Phase.QUEUED, Phase.RUNNING, Phase.ENDED),
    Phase.RUNNING: (Phase.HELD, Phase.QUEUED, Phase.ENDED),
    Phase.ENDED: (Phase.HELD, Phase.QUEUED, Phase.STARTING),
}


def may_move(old: Phase, new: Phase) -> bool:
    """Whether the table has this move."""
    return new in MOVES[old]
