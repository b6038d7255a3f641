"""The demo: a cluster, a scheduler and all the examples, from nothing and back to nothing.

Called by `cli.demo`. Whatever happens on the way, Ctrl-C and SIGTERM too, what was started is ended before
the command is, but for --keep. The scheduler bears the cluster's mark, so that `fairlead cluster down` ends
it as well. Must not look at the scheduler's inside: it asks the API like everybody.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import typer
from msgspec import Struct

from fairlead.cli.demo_items import folder, read
from fairlead.cli.demo_show import Show
from fairlead.cli.errors import CliError
from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_down, bring_up, list_clusters, process
from fairlead.localcluster.progress import Progress
from fairlead.localcluster.state import ProcessRecord
from fairlead.localcluster.up import Interrupted, signals_raise, signals_wait
from fairlead.runtime import address
from fairlead.store.embedded import running_postmaster

PREFIX = "demo-"
LEAST = 8
TOO_BIG = 20
READY_PATIENCE = 120.0
ENDING_GRACE = 20.0
LOG_LINES = 15


class Kept(Struct, frozen=True):
    """What a later `--down` has to know; it lies in the cluster's folder."""

    pid: int
    started: int
    data: str


@contextmanager
def ended_if_broken(name: str, progress: Progress) -> Generator[None]:
    """Where what is done within breaks off, Ctrl-C and SIGTERM too: the demo of this name is ended first."""
    try:
        with signals_raise():
            yield
    except Interrupted as stop:
        with signals_wait():
            progress.say(f"interrupted by {signal.Signals(stop.number).name}: cleaning up")
            end(name, progress)
        raise typer.Exit(128 + stop.number) from None
    except BaseException:
        with signals_wait():
            end(name, progress)
        raise


def run(nodes: int, node_cpu: int, keep: bool) -> None:
    """The whole demo; ends the command with 1 where an example did not come out as it says."""
    _check(nodes, node_cpu)
    examples = folder()
    items = read(examples)
    progress = Progress()
    begun = time.monotonic()
    name = f"{PREFIX}{secrets.token_hex(3)}"
    shape = NodeShape(cpu=str(node_cpu), memory="64Gi")
    options = UpOptions(name=name, nodes=nodes, shape=shape, kube_scheduler=True)
    with ended_if_broken(name, progress):
        progress.say(f"bringing up a control plane with {nodes} nodes of {node_cpu} cpu ({name})")
        cluster = bring_up(options, progress)
        progress.say("starting Fairlead with its own PostgreSQL")
        scheduler = Scheduler(cluster)
        scheduler.start(progress)
        show = Show(cluster, scheduler.data, examples, items)
        fine = show.run(scheduler.check)
    if keep:
        _say_how_to_go_on(cluster, scheduler)
    else:
        with signals_wait():
            end(name, progress)
        _say_where_to_look(time.monotonic() - begun)
    if not fine:
        raise CliError("not every example came out as it should: see the table")


def down() -> None:
    """End every demo there is, kept or left behind."""
    progress = Progress()
    names = [cluster.name for cluster in list_clusters() if cluster.name.startswith(PREFIX)]
    for name in names:
        end(name, progress)
    if not names:
        progress.say("no demo is running")


def end(name: str, progress: Progress) -> None:
    """End a demo's scheduler, its database and its cluster, and remove their files."""
    with progress.step(f"end {name}"):
        found = next((cluster for cluster in list_clusters() if cluster.name == name), None)
        if found is not None:
            _end_scheduler(found)
        bring_down(name, progress)


def _end_scheduler(cluster: Cluster) -> None:
    try:
        kept = msgspec.json.decode((cluster.files.folder / "demo.json").read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return
    process.end([ProcessRecord(kept.pid, kept.started)], ENDING_GRACE)
    # Only where the scheduler was killed: else it has ended its database itself.
    postmaster = running_postmaster(Path(kept.data) / "data")
    if postmaster is not None:
        record = ProcessRecord(postmaster, process.start_time(postmaster) or 0)
        process.send(record, signal.SIGINT)
        process.wait_gone([record], ENDING_GRACE)
        process.end([record], ENDING_GRACE)
    shutil.rmtree(kept.data, ignore_errors=True)


class Scheduler:
    """`fairlead scheduler` as a process of its own, with an embedded PostgreSQL in a folder of its own."""

    def __init__(self, cluster: Cluster, *options: str) -> None:
        self._cluster, self._options = cluster, options
        self._process: subprocess.Popen[bytes] | None = None
        self.log = cluster.files.log("fairlead-scheduler")
        # Not in the cluster's folder: as root the database runs as nobody, who may not enter a home.
        with signals_wait():  # what is made is also written down
            self.folder = Path(tempfile.mkdtemp(prefix="fairlead-demo-"))
            self.folder.chmod(0o711)
            self._write(Kept(0, 0, str(self.folder)))
        self.data = self.folder / "data"

    @property
    def url(self) -> str:
        found = address.read(self.data)
        return found.url if found else ""

    def start(self, progress: Progress) -> None:
        """Placing groups when it returns."""
        command = [sys.executable, "-m", "fairlead", "scheduler", "--data-dir", str(self.data)]
        command += ["--kubeconfig", str(self._cluster.kubeconfig), *self._options]
        environment = os.environ | {process.MARK: self._cluster.state.instance}
        with self.log.open("ab") as log, signals_wait():
            # A session of its own: Ctrl-C is for the demo, which ends it in good order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
                start_new_session=True,
            )  # fmt: skip
            pid = self._process.pid
            self._write(Kept(pid, process.start_time(pid) or 0, str(self.folder)))
        with progress.step("start the scheduler and its database"):
            self._wait_ready()

    def _write(self, kept: Kept) -> None:
        (self._cluster.files.folder / "demo.json").write_bytes(msgspec.json.encode(kept))

    def _wait_ready(self) -> None:
        from fairlead.cli import ask

        deadline = time.monotonic() + READY_PATIENCE
        reason = "it has not left its address"
        while time.monotonic() < deadline:
            self.check()
            try:
                if self.url:
                    page = ask.nodes(ask.Where(server=self.url))
                    if not page.warnings:
                        return
                    reason = "; ".join(page.warnings)
            except CliError as error:
                reason = str(error)
            time.sleep(0.1)
        raise CliError(f"the scheduler does not get ready: {reason}\n{self._last_words()}")

    def check(self) -> None:
        """An error with its last words if it has ended."""
        if self._process is not None and self._process.poll() is not None:
            raise CliError(f"the scheduler ended by itself\n{self._last_words()}")

    def _last_words(self) -> str:
        lines = self.log.read_text("utf-8", errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join(["the end of its log:", *(f"  {line:.300}" for line in lines)])


def _check(nodes: int, node_cpu: int) -> None:
    if nodes < LEAST:
        raise CliError(f"--nodes {nodes}: the examples need at least {LEAST}")
    if not LEAST <= node_cpu < TOO_BIG:
        raise CliError(
            f"--node-cpu {node_cpu}: give {LEAST} to {TOO_BIG - 1}, so that all examples fit but the one "
            "that is too big"
        )


def _say_how_to_go_on(cluster: Cluster, scheduler: Scheduler) -> None:
    program = Path(sys.argv[0]).name if Path(sys.argv[0]).name.startswith("fairlead") else "fairlead"
    print(
        f"""
Cluster and scheduler keep running. Use them with:

  export KUBECONFIG={cluster.kubeconfig}
  export FAIRLEAD_SERVER={scheduler.url}
  {program} queue --all
  {program} explain second
  {cluster.kubectl} apply -f examples/gang.yaml

The scheduler's log: {scheduler.log}
End all of it:       {program} demo --down"""
    )


def _say_where_to_look(seconds: float) -> None:
    print(
        f"""
All is gone again; it took {seconds:.0f} s. Where to look next:

  fairlead demo --keep      the same, and left running to play with
  examples/README.md        what was submitted, and what each of it shows
  fairlead queue --help     who waits and why; `explain` and `nodes` tell the rest
  README.md                 Fairlead beside a cluster of your own"""
    )
