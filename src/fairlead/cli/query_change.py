"""The lines of resource-query that change jobs or the graph other than by a match.

Called by `cli.query_session`, which turns TreeErrors into one line. Must not match requests.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from fairlead.core.tree.columns import TreeError
from fairlead.model.idset import idset
from fairlead.wire import jgf, rv1
from fairlead.wire.files import text as file_text

if TYPE_CHECKING:
    from fairlead.cli.query_session import Session

RULE = "INFO: ============================="
_READERS = ("jgf", "jgf_shorthand", "rv1exec")
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}")


class Change:
    """The commands, over the session they belong to."""

    def __init__(self, session: "Session") -> None:
        self.session = session

    def cancel(self, words: list[str]) -> None:
        """`cancel ID`."""
        session, id_ = self.session, _number(words[0])
        try:
            session.graph.cancel(id_)
        except TreeError as error:
            session.error(str(error), "cancel: ERROR: ")
            return
        self._cancelled(id_)
        if words[1:] == ["stats"]:
            self._stats("CANCEL")

    def partial_cancel(self, words: list[str]) -> None:
        """`partial-cancel ID READER FILE`."""
        session, id_, reader = self.session, _number(words[0]), words[1]
        if reader not in _READERS:
            raise TreeError(f"unsupported reader {reader}")
        content = file_text(Path(words[2]))
        job = session.graph.bookings.jobs.get(id_)
        if job is None:
            raise TreeError(f"nonexistent job {id_}")
        if job.reserved:
            raise TreeError("reservations not currently supported by partial cancel")
        try:
            if reader == "rv1exec":
                all_ = session.graph.release_ranks(id_, rv1.ranks(content))
            else:
                all_ = session.graph.release(id_, self._vertices(content))
        except TreeError:
            raise TreeError(f"error encountered while removing job {id_}") from None
        if all_:
            self._cancelled(id_)
        if words[3:] == ["stats"]:
            self._stats("PARTIAL CANCEL")

    def update(self, words: list[str]) -> None:
        """`update allocate|reserve READER FILE ID AT SECONDS`; in shorthand a vertex means all below it."""
        mode, reader, file = words[0], words[1], words[2]
        id_, at, seconds = (_number(word) for word in words[3:])
        session = self.session
        if mode not in ("allocate", "reserve"):
            raise TreeError(f"unknown subcmd {mode}")
        if reader not in _READERS:
            raise TreeError(f"unsupported reader {reader}")
        if id_ in session.graph.bookings.jobs:
            raise TreeError("existing Jobid")
        if at < 0 or seconds <= 0:
            raise TreeError(f"invalid time ({at}, {seconds})")
        content = file_text(Path(file))
        graph = session.graph
        if reader == "rv1exec":
            chosen = rv1.allocation(content, graph.tree)
        else:
            chosen = [
                graph.vertex(path) for path, metadata in jgf.paths(content) if metadata.get("exclusive")
            ]
            if reader == "jgf_shorthand":
                chosen = [below for v in chosen for below in range(v, int(graph.tree.end[v]))]
        job = graph.reinstate(id_, graph.closure(chosen), at, seconds, at > 0)
        session.show(job)
        session.remember(job, file)

    def attach(self, words: list[str]) -> None:
        """`attach FILE`."""
        self.session.graph.attach(jgf.read(file_text(Path(words[0])), self.session.graph.tree))

    def remove(self, words: list[str]) -> None:
        """`remove PATH true`, `remove RANKS false`."""
        graph = self.session.graph
        before = set(graph.bookings.jobs)
        if words[1] == "true":
            if words[0] not in graph.tree.by_path:
                raise TreeError(f"can't remove subgraph: there is no {words[0]}")
            graph.remove([graph.vertex(words[0])])
        elif words[1] == "false":
            graph.remove(graph.of_ranks(_ranks(words[0])))
        else:
            raise TreeError("invalid path boolean input")
        for id_ in before - set(graph.bookings.jobs):
            self._cancelled(id_)

    def set_property(self, words: list[str]) -> None:
        """`set-property PATH NAME=VALUE`."""
        name, equals, value = words[1].partition("=")
        if not (name and equals and value):
            self.session.say("Incorrect input format. ")
            self.session.say("Please use `set-property <resource> PROPERTY=VALUE`.")
            return
        v = self.session.graph.tree.by_path.get(words[0])
        if v is None:
            self.session.say(f"Couldn't find path {words[0]} in resource graph.")
        else:
            self.session.graph.set_property(v, name, value)

    def remove_property(self, words: list[str]) -> None:
        """`remove-property PATH NAME`."""
        v = self._vertex(words[0])
        if v is not None:
            self.session.graph.set_property(v, words[1], None)

    def get_property(self, words: list[str]) -> None:
        """`get-property PATH`."""
        v = self._vertex(words[0])
        if v is None:
            return
        pool = self.session.graph.tree.pools[v]
        if not pool.properties:
            self.session.say(f"No properties were found for {words[0]} (vtx's uniq_id={pool.uniq_id}).")
        for name in sorted(pool.properties):
            self.session.say(f"{name}={pool.properties[name]}")

    def set_status(self, words: list[str]) -> None:
        """`set-status PATH up|down`."""
        v = self._vertex(words[0])
        if v is None:
            return
        if words[1] not in ("up", "down"):
            raise TreeError("unrecognized status")
        self.session.graph.set_up(v, words[1] == "up")

    def get_status(self, words: list[str]) -> None:
        """`get-status PATH`."""
        v = self._vertex(words[0])
        if v is not None:
            self.session.say(f"{words[0]} is {'up' if self.session.graph.tree.up[v] else 'down'}")

    # -- inside --------------------------------------------------------------------------------------

    def _vertex(self, path: str) -> int | None:
        v = self.session.graph.tree.by_path.get(path)
        if v is None:
            self.session.say(f"Could not find path {path} in resource graph.")
        return v

    def _vertices(self, content: str) -> list[int]:
        """The vertices of a JGF, which must know the graph's ranks."""
        graph = self.session.graph
        found: list[int] = []
        for path, metadata in jgf.paths(content):
            v = graph.vertex(path)
            if metadata.get("rank", -1) != int(graph.tree.rank[v]):
                raise TreeError(f"{path} has another rank in the graph")
            found.append(v)
        return found

    def _cancelled(self, id_: int) -> None:
        known = self.session.jobs.get(id_)
        if known is not None:
            known.state = "CANCELED"

    def _stats(self, what: str) -> None:
        """Fluxion's lines about its walk; nothing is walked here, so its counts are 0."""
        for line in (RULE, f'INFO: {what} PREORDER COUNT="0"', f'INFO: {what} POSTORDER COUNT="0"', RULE):
            self.session.say(line)


def _number(word: str) -> int:
    if not _WHOLE.fullmatch(word):
        raise TreeError(f"{word!r:.60} is not a number")
    return int(word)


def _ranks(word: str) -> set[int]:
    try:
        return set(idset(word))
    except ValueError as error:
        raise TreeError(f"failed to decode ranks: {error}") from None
