"""One match: a jobspec's resources against the tree at one span of time, depth first.

Called by `core.tree.graph`. A vertex whose type the request names takes its best children; above the first
named vertex levels may be left out, below it none. A slot stands for some children of one vertex. The policy
`first` stops as soon as there is enough; the others rank all that fits. Must not change anything.
"""

from collections.abc import Sequence
from enum import Enum

from fairlead.core.tree import slots
from fairlead.core.tree.admission import Allowed
from fairlead.core.tree.bookings import Bookings, Held, holding
from fairlead.core.tree.columns import Tree
from fairlead.core.tree.counts import taken
from fairlead.core.tree.load import VertexLoad
from fairlead.core.tree.matchpolicy import NODE, MatchPolicy
from fairlead.core.tree.near import Near
from fairlead.core.tree.order import Order
from fairlead.core.tree.ranking import Findings, Group, Pick
from fairlead.model.jobspec import SLOT, Resource

_NODE_WEIGHT = 10_000


class Aim(Enum):
    """What the match is for."""

    now = "now"
    later = "later"
    ever = "ever"
    """Whether the tree could hold it at all: whoever holds what, and whatever is down."""


class Walk:
    """The match of one request at one span of time."""

    def __init__(
        self,
        tree: Tree,
        bookings: Bookings,
        policy: MatchPolicy,
        order: Order,
        *,
        aim: Aim,
        span: tuple[int, int],
        allowed: Allowed | None,
        flexible: bool = False,
    ) -> None:
        """`allowed` says of the vertices of some types whether the request may use them."""
        self.tree, self.bookings, self.policy, self.order = tree, bookings, policy, order
        self.aim, self.span, self.allowed, self.flexible = aim, span, allowed, flexible
        self.marks: dict[int, Pick] = {}
        self._above = 0
        self._up = tree.is_up
        self._load: VertexLoad | None = None
        self.near = Near(tree, order.leaf_types) if policy.locality else None
        self.visits = 0

    def select(self, resources: Sequence[Resource]) -> dict[int, Held] | None:
        """All that the best match takes, children before their parent; None if nothing fits."""
        self.marks.clear()
        self.weigh(resources)
        root = Findings()
        wants = [each for each in resources if each.type == self.tree.type[0]]
        exclusive = any(each.exclusive for each in wants)
        if not self._visit(0, resources, True, exclusive, root):
            return None
        size = self.tree.sizes[0]
        root.add(self.tree.type[0], Group(root.score, size, (Pick(0, size, exclusive),), True))
        if not self._take(0, root, resources):
            return None
        self._enforce(0, root)
        return self.held(resources)

    def weigh(self, resources: Sequence[Resource]) -> None:
        """Prepare to rank by how full subtrees are, if the policy does."""
        if self.policy.load:
            self._load = VertexLoad(self.policy.load, resources, self.order, self.tree, self._leaf_free)

    def mark(self, v: int, exclusive: bool) -> None:
        """Take a vertex that somebody else chose, and what is above it shared."""
        sizes, parent = self.tree.sizes, self.tree.parent
        while v > 0 and v not in self.marks:
            self.marks[v] = Pick(v, sizes[v], exclusive)
            v, exclusive = int(parent[v]), False

    def within(self, v: int, wanted: Resource, exclusive: bool) -> None:
        """Take the best below a vertex that somebody else chose."""
        self._visit(v, (wanted,), False, exclusive, Findings())

    # -- one vertex ----------------------------------------------------------------------------------

    def _visit(
        self, v: int, resources: Sequence[Resource], pristine: bool, exclusive: bool, to: Findings
    ) -> bool:
        """Whether the vertex can serve the resources; what it finds goes to `to` unless it chose itself."""
        type_ = self.tree.type[v]
        self.visits += 1
        named, slot = self._match(v, type_, resources)
        if named is None and slot is None and not pristine:
            return False
        if named is not None and named.exclusive:
            exclusive = True
        if not self._usable(v, type_, named, exclusive):
            return False
        factor = self._factor(v, type_)
        self._above += factor
        found = Findings()
        if slot is not None:
            slots.fill(self, v, slot, found)
        elif named is not None:
            self.explore(v, named.children, False, exclusive, found, 1)
        else:
            self.explore(v, resources, pristine, exclusive, found, 1)
        self._above -= factor
        if named is not None and not self._take(v, found, named.children):
            return False
        found.score = 1 + self._above + int(self.tree.id[v]) + 1
        if self._load is not None:
            found.score += self._load.of(v)
        if found.chosen:
            self._enforce(v, found)
        else:
            to.merge(found)
        to.score = found.score
        to.last_span = found.span if self.near is None else found.span + self.near.weight(v)
        return True

    def explore(
        self, v: int, wants: Sequence[Resource], pristine: bool, exclusive: bool, found: Findings, times: int
    ) -> None:
        """Look at the children: all of them, or (policy `first`) until there is enough `times` over."""
        tree = self.tree
        if not self.policy.first:
            for child in tree.children[v]:
                self._candidate(child, wants, pristine, exclusive, found)
            return
        enough = slots.Enough(wants, times)
        for child in self.order.children(v):
            if tree.type[child] in enough.types:
                continue
            if self._candidate(child, wants, pristine, exclusive, found) and enough.after(found):
                return

    def _candidate(
        self, child: int, wants: Sequence[Resource], pristine: bool, exclusive: bool, found: Findings
    ) -> bool:
        if not self._visit(child, wants, pristine, exclusive, found):
            return False
        type_, size = self.tree.type[child], self.tree.sizes[child]
        alone = exclusive or any(each.exclusive and each.type == type_ for each in wants)
        found.add(type_, Group(found.score, size, (Pick(child, size, alone),), span=found.last_span))
        return True

    def _match(
        self, v: int, type_: str, resources: Sequence[Resource]
    ) -> tuple[Resource | None, tuple[Resource, ...] | None]:
        """The resource that names this vertex, and the slots that its children can fill."""
        named: Resource | None = None
        slot: tuple[Resource, ...] = ()
        for each in resources:
            if each.type == type_:
                if named is not None or slot:
                    return None, None  # one vertex cannot serve two siblings of one type
                named = each
            elif each.type == SLOT:
                if named is not None or (slot and not self.flexible):
                    return None, None
                slot = (*slot, each)
        if named is not None:
            slot = tuple(each for each in named.children if each.type == SLOT)
            slot = slot if self.flexible else slot[-1:]
        there = self.order.child_types(v)
        if any(there.issuperset(part.type for part in each.children) for each in slot):
            return named, slot
        return named, None

    def _usable(self, v: int, type_: str, named: Resource | None, exclusive: bool) -> bool:
        """Whether status, constraint and bookings let the request use the vertex."""
        if self.aim is not Aim.ever and (not self._up[v] or not self._free(v)):
            return False
        if self.allowed is not None and type_ in self.allowed.types and not self.allowed(v):
            return False
        if named is None:
            return True
        if exclusive and named.exclusive is False:
            return False  # shared below something exclusive
        if not exclusive or self.aim is Aim.ever:
            return True
        if self.aim is Aim.now and self.bookings.in_use(v):
            return False
        return self.bookings.untouched(v, *self.span)

    def _free(self, v: int) -> bool:
        """Whether nobody holds the vertex exclusively then; work past its end still holds it now."""
        if self.aim is Aim.now and self.bookings.allocated(v):
            return False
        return self.bookings.free(v, *self.span)

    def _factor(self, v: int, type_: str) -> int:
        """What a node adds to the score of all below it, so that whole nodes are ranked first."""
        if type_ != NODE or not self.policy.node_centric:
            return 0
        uniq = int(self.tree.uniq_id[v]) % _NODE_WEIGHT
        own = (int(self.tree.id[v]) + 2) * _NODE_WEIGHT + abs(uniq - 1)
        return own if self._load is None else own + self._load.of(v)

    def _leaf_free(self, v: int) -> bool:
        """Whether a leaf is up and nobody's, nor anything that it is in."""
        if self.aim is Aim.ever:
            return True
        if not self._up[v] or (self.aim is Aim.now and self.bookings.in_use(v)):
            return False
        return self.bookings.untouched(v, *self.span) and all(map(self._free, self.tree.ancestors(v)))

    # -- choosing ------------------------------------------------------------------------------------

    def _take(self, v: int, found: Findings, wants: Sequence[Resource]) -> bool:
        """Choose the best of each below the vertex; whether there is enough."""
        for each in wants:
            count = taken(each.count, found.there.get(each.type, 0))
            if count == 0:
                return False
            if self.near is None:
                found.choose(each.type, count, self.policy.high)
            else:
                found.take(each.type, *self.near.choose(v, found.groups[each.type], count))
        return True

    def _enforce(self, v: int, found: Findings) -> None:
        """Mark what is chosen, and the vertices between it and the one that chooses."""
        parent, sizes = self.tree.parent, self.tree.sizes
        for group in found.taken():
            if group.root:
                continue
            for pick in group.picks:
                self.marks[pick.vertex] = pick
                above = int(parent[pick.vertex])
                while above != v and above not in self.marks:
                    self.marks[above] = Pick(above, sizes[above], False)
                    above = int(parent[above])

    # -- what is taken -------------------------------------------------------------------------------

    def held(self, resources: Sequence[Resource]) -> dict[int, Held] | None:
        """All vertices of the match; whole subtrees where the policy or the request gives whole ones."""
        wants = [each for each in resources if each.type == self.tree.type[0]]
        needs = max((taken(each.count, self.tree.sizes[0]) for each in wants), default=1)
        exclusive = any(each.exclusive for each in wants)
        whole = _exclusive_types(resources)
        if self.policy.node_exclusive:
            whole.add(NODE)
        held: dict[int, Held] = {}
        parents, marked = self.tree.parents, dict[int, list[int]]()
        for v in sorted(self.marks):
            marked.setdefault(parents[v], []).append(v)

        def emit(v: int, needs: int, exclusive: bool) -> bool:
            all_ = self.tree.type[v] in whole
            below = False
            if all_:
                self._whole(v, held)
            else:
                for child in marked.get(v, ()):
                    mark = self.marks[child]
                    below = emit(child, mark.needs, mark.exclusive) or below
            if below or exclusive or all_:
                held[v] = holding(needs, exclusive or all_)
                return True
            return False

        return held if emit(0, needs, exclusive) else None

    def _whole(self, v: int, held: dict[int, Held]) -> None:
        """Everything below a vertex, children before their parent."""
        sizes, below = self.tree.sizes, self.tree.children[v]
        leaves = isinstance(below, range)  # so are children of which none has any
        for child in below:
            if not leaves:
                self._whole(child, held)
            held[child] = holding(sizes[child], True)


def _exclusive_types(resources: Sequence[Resource]) -> set[str]:
    """Types that the request wants exclusively by its own words: these are given with all below them."""
    found: set[str] = set()
    for each in resources:
        if each.exclusive:
            found.add(each.type)
        found |= _exclusive_types(each.children)
    return found
