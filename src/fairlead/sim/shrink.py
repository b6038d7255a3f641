"""A failing story made small: what is left out of it is not needed for the failure.

Delta debugging over operations and faults: ever smaller pieces are left out as long as the same invariant
breaks; then pauses and numbers are made plain. Called by `fairlead simulate --faults` and by tests. The same
story gives the same answer, unless `enough` ends it before.
"""

from collections.abc import Callable

from fairlead.core.engine import Engine
from fairlead.sim.faults import Decision
from fairlead.sim.fuzz import Story, Told, kind_of, play
from fairlead.sim.ops import Op

Piece = Op | Decision


def shrink(story: Story, engine: type[Engine] = Engine, enough: Callable[[], bool] = lambda: False) -> Story:
    """The smallest story found that breaks what this one breaks; `enough` is asked before each try."""
    return _Shrinker(story, engine, enough).small()


class _Shrinker:
    def __init__(self, story: Story, engine: type[Engine], enough: Callable[[], bool]) -> None:
        self.story, self.engine, self.enough = story, engine, enough
        self.kind = kind_of(self._play(story).wrong)
        self.over = False

    def small(self) -> Story:
        pieces: list[Piece] = [*self.story.decisions, *self.story.ops]
        before: list[Piece] = []
        while pieces != before and not self.over:
            before = pieces
            pieces = self._without(pieces)
            pieces = self._plainer(pieces)
        return self._made(pieces)

    def _play(self, story: Story) -> Told:
        return play(story, self.engine)

    def _made(self, pieces: list[Piece]) -> Story:
        return self.story._replace(
            ops=tuple(each for each in pieces if isinstance(each, Op)),
            decisions=tuple(each for each in pieces if isinstance(each, Decision)),
        )

    def _fails(self, pieces: list[Piece]) -> bool:
        if self.over or self.enough():
            self.over = True
            return False
        return kind_of(self._play(self._made(pieces)).wrong) == self.kind

    def _without(self, pieces: list[Piece]) -> list[Piece]:
        """Leave out halves, quarters … at last single pieces, from the end: what is late matters least."""
        size = max(len(pieces) // 2, 1)
        while True:
            end = len(pieces)
            while end > 0:
                less = pieces[: max(end - size, 0)] + pieces[end:]
                if self._fails(less):
                    pieces = less
                end -= size
            if size == 1 or self.over:
                return pieces
            size //= 2

    def _plainer(self, pieces: list[Piece]) -> list[Piece]:
        """Shorter pauses and smaller numbers, one at a time."""
        for i in range(len(pieces)):
            for field in ("pause", "a", "b", "c"):
                piece = pieces[i]
                if not isinstance(piece, Op):
                    break
                for value in range(getattr(piece, field)):
                    tried: list[Piece] = [*pieces]
                    tried[i] = piece._replace(**{field: value})
                    if self._fails(tried):
                        pieces = tried
                        break
        return pieces
