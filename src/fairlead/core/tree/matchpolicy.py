"""Which of the fitting vertices: the match policies by name, and as options.

Called by `core.tree.walk` and the command line. `high` and `low` rank by the pools' own ids; `node_centric`
ranks the node before what is below it; `node_exclusive` gives whole nodes; `stop_on_1_matches` takes the
first that fits, the emptiest subtrees first. Must not look at a tree.
"""

from msgspec import Struct

from fairlead.core.tree.columns import TreeError

NODE = "node"


class MatchPolicy(Struct, frozen=True):
    """How candidates are ranked and how far the search goes."""

    high: bool = True
    node_centric: bool = False
    node_exclusive: bool = False
    first: bool = False
    """Stop at the first that fits."""
    locality: bool = False
    """Prefer runs of neighbouring ids."""


POLICIES = {
    "first": MatchPolicy(node_centric=True, first=True),
    "firstnodex": MatchPolicy(node_centric=True, node_exclusive=True, first=True),
    "high": MatchPolicy(),
    "low": MatchPolicy(high=False),
    "hinode": MatchPolicy(node_centric=True),
    "lonode": MatchPolicy(high=False, node_centric=True),
    "hinodex": MatchPolicy(node_centric=True, node_exclusive=True),
    "lonodex": MatchPolicy(high=False, node_centric=True, node_exclusive=True),
    "locality": MatchPolicy(locality=True),
}

_OPTIONS = {"node_centric": "node_centric", "node_exclusive": "node_exclusive", "stop_on_1_matches": "first"}


def match_policy(text: str) -> MatchPolicy:
    """The policy of a name, or of options: `policy=low node_centric=true`. Raises TreeError."""
    if text in POLICIES:
        return POLICIES[text]
    chosen: dict[str, bool] = {}
    for word in text.split():
        option, _, value = word.partition("=")
        if option == "policy" and value in ("high", "low"):
            chosen["high"] = value == "high"
        elif option in _OPTIONS and value in ("true", "false"):
            chosen[_OPTIONS[option]] = value == "true"
        else:
            known = ", ".join(POLICIES)
            raise TreeError(f"unknown match policy {word!r}; known: {known}, or policy=high|low with options")
    if "high" not in chosen:
        raise TreeError(f"match policy {text!r}: say policy=high or policy=low")
    return MatchPolicy(**chosen)
