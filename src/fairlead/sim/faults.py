"""What can go wrong in a simulated world, and decisions about it that can be written down and played again.

`sim.world` asks a `Faults` at each bind, transaction, delivery and so on; by itself nothing goes wrong.
`Decided` answers out of a list of decisions, "the 3rd bind: unknown, takes effect late", each of which can be
left out by itself: that is what `sim.shrink` does. Nothing here is random; `sim.fuzz` draws the decisions.
"""

from collections.abc import Iterable
from typing import NamedTuple

from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.pod import Pod

NEVER = -1


class Outage(NamedTuple):
    """A connection to the store that breaks in the middle of a commit; `length` in milliseconds."""

    length: int
    durable: bool
    """Whether the transaction is done all the same."""
    refused: bool = False
    """The connection holds, and the store says no."""


class Faults:
    """What goes wrong. The defaults: nothing. Subclasses override; times in milliseconds."""

    def bind(self, _: cmd.Bind) -> ev.BindError | None:
        """The error a bind ends with; None lets it succeed. UNKNOWN may still take effect."""
        return None

    def unknown_took_effect(self, _: cmd.Bind) -> bool:
        """Whether a bind of unknown outcome was carried out all the same."""
        return False

    def unknown_delay(self, _: cmd.Bind) -> int:
        """How long after its error a bind of unknown outcome arrives."""
        return 0

    def answer_delay(self, _: cmd.Bind) -> int:
        """How late the answer to a bind is heard."""
        return 0

    def plan_delay(self) -> int:
        """How late a plan arrives."""
        return 0

    def deliveries(self, _: ev.Event) -> tuple[int, ...]:
        """After which delays an event of a watch is delivered, each time anew; later ones may overtake it."""
        return (0,)

    def store_delay(self) -> int:
        """How much longer than usual the store takes."""
        return 0

    def outage(self, _: cmd.RecordAllocations) -> Outage | None:
        """Whether the connection breaks in the middle of this commit, or the store refuses it."""
        return None

    def source_delay(self, _: str) -> int:
        """How late "store", "nodes", "owners" or "pods" is heard by a process that starts."""
        return 0

    def eviction_fails(self, _: cmd.Evict) -> bool:
        """Whether an eviction comes to nothing."""
        return False

    def eviction_takes(self, _: cmd.Evict) -> int:
        """How long an evicted pod takes to end."""
        return 0

    def revocation_fails(self, _: cmd.Revoke) -> bool:
        """Whether a revocation comes to nothing."""
        return False

    def kubelet_refuses(self, _: Pod) -> bool:
        """Whether the kubelet fails the pod instead of running it."""
        return False


class Decision(NamedTuple):
    """The `number`-th time (from 1) that `kind` is asked about, this happens: a name out of EFFECTS."""

    kind: str
    number: int
    effect: str


BINDS: dict[str, tuple[ev.BindError, int]] = {
    "refused": (ev.BindError.REFUSED, NEVER),
    "changed": (ev.BindError.CHANGED, NEVER),
    "unknown-and-done": (ev.BindError.UNKNOWN, 0),
    "unknown-done-in-700": (ev.BindError.UNKNOWN, 700),
    "unknown-done-in-8000": (ev.BindError.UNKNOWN, 8_000),
    "unknown-done-in-25000": (ev.BindError.UNKNOWN, 25_000),
    "unknown-and-lost": (ev.BindError.UNKNOWN, NEVER),
}
"""Effect -> the answer, and when it takes effect all the same."""
DELIVERIES: dict[str, tuple[int, ...]] = {
    "late-1": (1,),
    "late-5": (5,),
    "late-60": (60,),
    "late-1500": (1_500,),
    "twice": (0, 0),
    "again-in-60": (0, 60),
    "again-in-1500": (0, 1_500),
}
OUTAGES: dict[str, Outage] = {
    "refused": Outage(0, False, refused=True),
    "lost-but-done": Outage(500, True),
    "lost-and-undone": Outage(500, False),
    "lost-but-done-for-20000": Outage(20_000, True),
    "lost-and-undone-for-20000": Outage(20_000, False),
}
_LATE = {"late-3": 3, "late-40": 40, "late-700": 700, "late-5000": 5_000}
EFFECTS: dict[str, tuple[str, ...]] = {
    "bind": tuple(BINDS),
    "answer": tuple(_LATE),
    "plan": tuple(_LATE),
    "watch": tuple(DELIVERIES),
    "store": tuple(_LATE),
    "commit": tuple(OUTAGES),
    "source": tuple(_LATE),
    "evict": ("fails", *_LATE),
    "revoke": ("fails",),
    "kubelet": ("refuses",),
}
"""What is asked about -> what may happen."""


class Decided(Faults):
    """Answers from decisions; `off` ends all of them. Counts each kind of question from 1."""

    def __init__(self, decisions: Iterable[Decision]) -> None:
        self.off = False
        self._effects = {(each.kind, each.number): each.effect for each in decisions}
        self._asked: dict[str, int] = {}
        self._done = NEVER

    def decide(self, kind: str) -> str:
        """What happens this time; "" for nothing."""
        self._asked[kind] = number = self._asked.get(kind, 0) + 1
        return "" if self.off else self._effects.get((kind, number), "")

    def bind(self, _: cmd.Bind) -> ev.BindError | None:
        error, self._done = BINDS.get(self.decide("bind"), (None, NEVER))
        return error

    def unknown_took_effect(self, _: cmd.Bind) -> bool:
        return self._done != NEVER

    def unknown_delay(self, _: cmd.Bind) -> int:
        return max(self._done, 0)

    def answer_delay(self, _: cmd.Bind) -> int:
        return _LATE.get(self.decide("answer"), 0)

    def plan_delay(self) -> int:
        return _LATE.get(self.decide("plan"), 0)

    def deliveries(self, _: ev.Event) -> tuple[int, ...]:
        return DELIVERIES.get(self.decide("watch"), (0,))

    def store_delay(self) -> int:
        return _LATE.get(self.decide("store"), 0)

    def outage(self, _: cmd.RecordAllocations) -> Outage | None:
        return OUTAGES.get(self.decide("commit"))

    def source_delay(self, _: str) -> int:
        return _LATE.get(self.decide("source"), 0)

    def eviction_fails(self, _: cmd.Evict) -> bool:
        self._evict = self.decide("evict")
        return self._evict == "fails"

    def eviction_takes(self, _: cmd.Evict) -> int:
        return _LATE.get(self._evict, 0)

    def revocation_fails(self, _: cmd.Revoke) -> bool:
        return self.decide("revoke") == "fails"

    def kubelet_refuses(self, _: Pod) -> bool:
        return self.decide("kubelet") == "refuses"
