"""The middle of the demo: submits the examples, shows how they fare, and tells what came of them.

Called by `cli.demo_run`. On a terminal it draws one live table, elsewhere a line per change. Submits with
kubectl, as a user would, and asks the scheduler's API. Must not start or end anything but pods.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live

from fairlead.cli import ask, demo_view, tables
from fairlead.cli.ask import Where
from fairlead.cli.demo_items import ORDER, SERVICES, Item, Standing, of_job, standing
from fairlead.cli.errors import CliError
from fairlead.localcluster import Cluster
from fairlead.model.view import NodePage
from fairlead.runtime import address

PAUSE = 0.25
STUCK = 180.0


class Show:
    """One run of the examples on a cluster with a running scheduler."""

    def __init__(self, cluster: Cluster, data: Path, examples: Path, items: list[Item]) -> None:
        self._cluster, self._examples, self._items = cluster, examples, items
        found = address.read(data)
        self._where = Where(server=found.url if found else "")
        self._console: Console = tables.console()
        self._begun = time.monotonic()
        self._changed = self._begun
        self._states: dict[tuple[str, str], str] = {}
        self._standings = [Standing(item) for item in items]
        self._nodes: NodePage | None = None
        self._live: Live | None = None

    def run(self, check: Callable[[], None]) -> bool:
        """Submit all, watch until all is settled, stop the services; whether all came out as it should."""
        print(f"submitting {len(ORDER)} examples with kubectl apply", file=sys.stderr)
        if self._console.is_terminal:
            with Live(console=self._console, auto_refresh=False, transient=True) as live:
                self._live = live
                self._play(check)
                self._live = None
        else:
            self._play(check)
        self._console.print()
        tables.show(self._console, demo_view.summary(self._standings))
        return all(
            each.state == ("stopped" if each.item.service else each.item.expected) for each in self._standings
        )

    def _play(self, check: Callable[[], None]) -> None:
        for example in ORDER:
            self._kubectl("apply", "-f", str(self._examples / example))
            self._look(check)
        self._until(check, lambda: all(each.settled for each in self._standings))
        # Services end when somebody ends them.
        self._kubectl("delete", "--wait=false", "-f", str(self._examples / SERVICES))
        services = [i for i, each in enumerate(self._standings) if each.item.service]
        self._until(check, lambda: all(self._standings[i].state == "stopped" for i in services))

    def _until(self, check: Callable[[], None], done: Callable[[], bool]) -> None:
        while True:
            self._look(check)
            if done():
                return
            if time.monotonic() - self._changed > STUCK:
                raise CliError(f"nothing has changed for {STUCK:.0f} s; {self._stuck()}")
            time.sleep(PAUSE)

    def _stuck(self) -> str:
        left = [
            f"{each.item.name} {each.state or 'not seen'}" for each in self._standings if not each.settled
        ]
        return f"still open: {', '.join(left)}"

    def _kubectl(self, *arguments: str) -> None:
        command = [self._cluster.kubectl, "--kubeconfig", str(self._cluster.kubeconfig), *arguments]
        run = subprocess.run(command, capture_output=True, text=True, check=False, start_new_session=True)
        if run.returncode != 0:
            raise CliError(f"kubectl {' '.join(arguments)}: {run.stderr.strip()}")

    # -- one look -----------------------------------------------------------------------------------

    def _look(self, check: Callable[[], None]) -> None:
        check()
        page = ask.queue(self._where, ended=True, namespace="default", limit=0)
        self._nodes = ask.nodes(self._where)
        fresh = [
            standing(item, page.groups, page.as_of) if item.ours else of_job(item, self._job(item))
            for item in self._items
        ]
        seconds = time.monotonic() - self._begun
        for each in fresh:
            key = (each.item.example, each.item.name)
            if self._states.get(key, "") != each.state:
                self._states[key] = each.state
                self._changed = time.monotonic()
                if not self._console.is_terminal:
                    print(demo_view.line(each, seconds), flush=True)
        self._standings = fresh
        if self._live is not None:
            size = self._console.size
            picture = demo_view.frame(
                fresh, seconds, self._nodes, self._cluster.name, size.width, size.height
            )
            self._live.update(picture, refresh=True)

    def _job(self, item: Item) -> dict[str, Any] | None:
        answer = self._cluster.client.get(f"/apis/batch/v1/namespaces/default/jobs/{item.name}")
        return answer.json() if answer.ok else None
