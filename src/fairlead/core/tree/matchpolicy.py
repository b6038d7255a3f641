"""Which of the fitting vertices: the match policies by name, and as options.

Called by `core.tree.walk` and the command line. `high` and `low` rank by the pools' own ids; `node_centric`
ranks the node before what is below it; `node_exclusive` gives whole nodes; `stop_on_1_matches` takes the
first that fits, the emptiest subtrees first. `bestfit`, `pack` and `spread` rank by how full subtrees are,
then by low ids; Fluxion has none of these. Must not look at a tree.
"""

from msgspec import Struct
from msgspec.structs import replace

from fairlead.core.tree.columns import TreeError

NODE = "node"
BESTFIT, PACK, SPREAD = "bestfit", "pack", "spread"


class MatchPolicy(Struct, frozen=True):
    """How candidates are ranked and how far the search goes."""

    high: bool = True
    node_centric: bool = False
    node_exclusive: bool = False
    first: bool = False
    """Stop at the first that fits."""
    locality: bool = False
    """Touch as few racks, nodes, sockets as can be (`core.tree.near`)."""
    load: str = ""
    """bestfit, pack or spread: how full a subtree is counts before ids do (`core.tree.load`)."""


POLICIES = {
    "first": MatchPolicy(node_centric=True, first=True),
    "firstnodex": MatchPolicy(node_centric=True, node_exclusive=True, first=True),
    "high": MatchPolicy(),
    "low": MatchPolicy(high=False),
    "hinode": MatchPolicy(node_centric=True),
    "lonode": MatchPolicy(high=False, node_centric=True),
    "hinodex": MatchPolicy(node_centric=True, node_exclusive=True),
    "lonodex": MatchPolicy(high=False, node_centric=True, node_exclusive=True),
    "locality": MatchPolicy(high=False, locality=True),
    BESTFIT: MatchPolicy(high=False, node_centric=True, load=BESTFIT),
    PACK: MatchPolicy(high=False, node_centric=True, load=PACK),
    SPREAD: MatchPolicy(high=False, node_centric=True, load=SPREAD),
}

_BY_OPTION = ("high", "low", BESTFIT, PACK, SPREAD)
_OPTIONS = {"node_centric": "node_centric", "node_exclusive": "node_exclusive", "stop_on_1_matches": "first"}


def match_policy(text: str) -> MatchPolicy:
    """The policy of a name, or of options: `policy=low node_centric=true`. Raises TreeError."""
    if text in POLICIES:
        return POLICIES[text]
    policy: MatchPolicy | None = None
    chosen: dict[str, bool] = {}
    for word in text.split():
        option, _, value = word.partition("=")
        if option == "policy" and value in _BY_OPTION:
            policy = POLICIES[value]
        elif option in _OPTIONS and value in ("true", "false"):
            chosen[_OPTIONS[option]] = value == "true"
        else:
            known, bases = ", ".join(POLICIES), "|".join(_BY_OPTION)
            raise TreeError(f"unknown match policy {word!r}; known: {known}, or policy={bases} with options")
    if policy is None:
        raise TreeError(f"match policy {text!r}: say policy=high or policy=low")
    if policy.load and chosen.get("first"):
        raise TreeError(f"match policy {text!r}: what stops at the first match cannot rank by load")
    return replace(policy, **chosen)
