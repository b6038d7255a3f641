"""The settings of an engine: all that a plan may depend on besides events.

Composed by `fairlead.app` from the command line; part of a recording's first line, so that a replay
runs under the same ones.
"""

from msgspec import Struct

POLICIES = ("fcfs",)
MATCHES = ("first", "pack", "spread")


class Settings(Struct, frozen=True, omit_defaults=True):
    """All times in milliseconds. `sources` are those that must be in before anything is planned.

    `pace` is the least time between two cycles, `recovery` how long a half-bound group is completed
    forward before the ladder's last step, `request_timeout` the life of one API request, `lasting`
    how long a state must last before anything is written about it.
    """

    policy: str = "fcfs"
    match: str = "first"
    scheduler: str = "fairlead"
    sources: tuple[str, ...] = ("pods", "nodes", "owners", "store")
    pace: int = 50
    recovery: int = 15_000
    request_timeout: int = 10_000
    lasting: int = 5_000
    retention: int = 7 * 24 * 3600 * 1000
