"""Progress for steps that take longer than a blink, always on stderr.

Called by `up`, `down` and the builder of binaries. stdout stays free: its last line is the kubeconfig's path.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console

PLAIN_INTERVAL = 10.0


class Progress:
    """A spinner with seconds on a terminal; elsewhere one line per step and one more every ten seconds."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False)

    def say(self, text: str) -> None:
        """One line that stays."""
        # Unbroken: where this is no terminal there is no width to fit into.
        self.console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Generator[Step]:
        """Show `title` while the block runs, then how long it took."""
        step = Step(title)
        finished = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(step, finished), daemon=True)
        ticker.start()
        try:
            yield step
        finally:
            finished.set()
            ticker.join()
        self.say(f"  {step.title} ({step.seconds():.1f} s)")

    def _tick(self, step: Step, finished: threading.Event) -> None:
        if self.console.is_terminal:
            with self.console.status(step.line()) as status:
                while not finished.wait(0.5):
                    status.update(step.line())
            return
        self.say(f"  {step.title} ...")
        while not finished.wait(PLAIN_INTERVAL):
            self.say(f"  {step.line()}")


class Step:
    """A running step; its owner may set `note` at any time, from any thread."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.note = ""
        self._begun = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def line(self) -> str:
        note = f", {self.note}" if self.note else ""
        return f"{self.title} ... {self.seconds():.0f} s{note}"
