"""Taking the snapshot that a cycle works on: what is copied, and who is in it.

Called by `core.engine` when a cycle is due. Where nothing has become free since the last plan, only those
are in it whom that plan has not seen: the others were refused, and nothing speaks for them now. Where sums
decide who fits (`Pool`) the running work is summed up, else it is told node by node.
"""

from collections.abc import Iterable
from operator import itemgetter

from fairlead.core.census import crowd_of, taste_of
from fairlead.core.inventory import Inventory, how_many
from fairlead.core.labels import constraints
from fairlead.core.outline import Need
from fairlead.core.policy import lookahead
from fairlead.core.running import ends, releases
from fairlead.core.snapshot import Pool, Promise, Request, Snapshot
from fairlead.core.state import State
from fairlead.model.group import Why
from fairlead.model.settings import Settings

_REQUEST = itemgetter(2)


def take(state: State, freed: bool) -> Snapshot:
    """Copy what a plan needs.

    `inventory.vectors` is shared, not copied: it only grows, and every waiting request's vector was
    resolved when the request was made (`core.line`), so the columns here are wide enough.
    """
    inventory, settings = state.inventory, state.settings
    fresh = [each for gid in state.fresh for each in state.waiting[gid]]
    if freed:
        waiting = tuple(map(_REQUEST, state.line))
    else:
        due = [each for gid in state.due_now if gid not in state.fresh for each in state.waiting.get(gid, ())]
        waiting = tuple(sorted([*fresh, *due], key=itemgetter(1)))
    ahead = any(lookahead(queue).depth for queue in settings.queues)
    crowd = crowd_of(state)
    taste = taste_of(state)
    state.around_at = state.surroundings.version
    pool = None if crowd is not None else _pool(state, ahead)
    classes = inventory.classes()
    n, r = len(inventory), len(inventory.resources)
    return Snapshot(
        version=state.version,
        epoch=state.epoch,
        now=state.now,
        settings=settings,
        names=classes.names,
        capacity=inventory.capacity[:r, :n].copy(),
        free=inventory.free[:r, :n].copy(),
        classes=classes,
        vectors=inventory.vectors,
        resources=dict(inventory.resources),
        waiting=waiting,
        fresh=tuple(fresh),
        running=releases(state) if ahead and _tells_nodes(pool, settings) else (),
        freed=freed,
        promises=_promises(state),
        heads=tuple(state.heads.items()),
        depths=() if freed else tuple(_depths(state)),
        pool=pool,
        possible=inventory.possible,
        crowd=crowd,
        taste=taste,
    )


def columns(inventory: Inventory, waiting: tuple[Request, ...], settings: Settings, now: int) -> Snapshot:
    """The inventory as it is, and who waits for it; nothing runs and nothing is promised."""
    n, r = len(inventory), len(inventory.resources)
    return Snapshot(
        version=1,
        epoch=1,
        now=now,
        settings=settings,
        names=inventory.classes().names,
        capacity=inventory.capacity[:r, :n].copy(),
        free=inventory.free[:r, :n].copy(),
        classes=inventory.classes(),
        vectors=inventory.vectors,
        resources=dict(inventory.resources),
        waiting=waiting,
        possible=inventory.possible,
    )


def _tells_nodes(pool: Pool | None, settings: Settings) -> bool:
    """Whether a cycle needs to know where what runs is."""
    return pool is None or (pool.slot is not None and settings.advise)


def _promises(state: State) -> tuple[Promise, ...]:
    found: list[Promise] = []
    for gid, reserve in state.promises.items():
        requests = state.waiting.get(gid)
        if requests:
            found.append(Promise(requests[0], reserve.start, reserve.nodes, reserve.reason))
    return tuple(found)


def _depths(state: State) -> Iterable[tuple[str, int, int]]:
    """Per queue how many wait that a plan has looked at, and how many are promised a start.

    Those that wait for nodes which are not there, or for pods and claims, do not count among the first.
    """
    if len(state.settings.queues) == 1 and not state.settings.queues[0].looks:
        name = state.settings.queues[0].name
        return [(name, len(state.line) - len(state.fresh), len(state.promises))]
    seen = {queue.name: [0, 0] for queue in state.settings.queues}
    for gid, requests in state.waiting.items():
        count = seen.get(requests[0].queue)
        if count is not None and gid not in state.fresh:
            count[0] += state.groups[gid].reason.why not in (Why.NODES_DOWN, Why.BLOCKED)
            count[1] += gid in state.promises
    return [(name, waits, promised) for name, (waits, promised) in seen.items()]


def _pool(state: State, ahead: bool) -> Pool | None:
    """The machine as sums, if they decide: it has one node, or everybody uses and wants slots of one size."""
    inventory = state.inventory
    if len(inventory) == 1:
        return _one_node(state, ahead)
    if not inventory or len(inventory.uses) > 1 or not state.wanted or state.confined:
        return None
    amounts = next(iter(state.wanted.values()))[0].requests
    if inventory.uses and amounts not in inventory.uses:
        return None
    classes = inventory.classes()
    for shape, _ in state.wanted.values():
        if shape.requests != amounts or not classes.now(constraints(shape)).all():
            return None
    slot = inventory.vector(amounts)
    n, r = len(inventory), len(inventory.resources)
    free = int(how_many(inventory.free[:r, :n], slot).sum())
    found = ends(state) if ahead else []
    if found is None:  # work without an end has a place of its own
        return None
    return Pool((), (free,), tuple([(until, ((0, load[-1][1]),)) for until, load in found]), {}, slot)


def _one_node(state: State, ahead: bool) -> Pool:
    """Resources that are plenty for all who wait need not be looked at."""
    inventory = state.inventory
    count = len(state.line)
    free: list[int] = inventory.free[:, 0].tolist()
    rows = tuple([row for row, most in state.peak.items() if free[row] < most * count])
    sums: list[tuple[int, Need]] = []
    if ahead:
        place = {row: k for k, row in enumerate(rows)}
        sums = [
            (until, tuple([(place[row], amount) for row, amount in load if row in place]))
            for until, load in ends(state, all_of_them=False) or ()
        ]
    return Pool(rows, tuple([free[row] for row in rows]), tuple(sums), inventory.needs.setdefault(rows, {}))
