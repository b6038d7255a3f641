"""`fairlead esi demo`: ESI's evaluation on a real API server, from nothing and back to nothing.

Called by `cli.esi`; `make demo-esi` is the same. Four nodes, two Testbeds enrolled over REST, three jobs, and
examples/esi/scheduler.py until it knows how every pair of jobs gets on and has placed all jobs once. What it
started it ends as `cli.demo_run` does. Must not look at the scheduler's inside: it asks REST like everybody.
"""

import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

import typer

from fairlead.cli import ask, words
from fairlead.cli.ask import Where
from fairlead.cli.demo_items import folder
from fairlead.cli.demo_run import PREFIX, Scheduler, end, ended_if_broken
from fairlead.cli.errors import CliError
from fairlead.localcluster import Cluster, NodeShape, UpOptions, bring_up
from fairlead.localcluster.progress import Progress
from fairlead.localcluster.up import signals_wait

NODES = 4
SHAPE = NodeShape(cpu="2", memory="8Gi")
BEDS = (("scheduler-slots", 3), ("profiler-slots", 1))
PAUSE = 0.25
READY = 60.0
"""Seconds until Testbeds have their slots and jobs are ready."""
STUCK = 180.0
ENDING = 20.0


def run(rounds: int, keep: bool) -> None:
    """The whole demo; CliError where it does not come out as it should."""
    progress, begun = Progress(), time.monotonic()
    name = f"{PREFIX}{secrets.token_hex(3)}"
    with ended_if_broken(name, progress):
        progress.say(f"bringing up a control plane with {NODES} nodes ({name})")
        cluster = bring_up(UpOptions(name=name, nodes=NODES, shape=SHAPE), progress)
        demo = _Demo(cluster, progress)
        demo.prepare()
        demo.play(rounds)
    if keep:
        typer.echo(f"\nexport KUBECONFIG={cluster.kubeconfig}\nexport FAIRLEAD_SERVER={demo.url}")
        typer.echo("fairlead esi jobs\nfairlead demo --down    # ends it all")
        return
    with signals_wait():
        end(name, progress)
    typer.echo(f"\nall is gone again, after {time.monotonic() - begun:.0f} s; docs/esi-algorithms.md goes on")


class _Demo:
    """A cluster, and what is done on it."""

    def __init__(self, cluster: Cluster, progress: Progress) -> None:
        self._cluster, self._progress = cluster, progress
        self._examples = folder() / "esi"
        self._scheduler: Scheduler | None = None
        self._seen: dict[str, str] = {}
        self._begun = self._changed = time.monotonic()

    @property
    def url(self) -> str:
        return self._scheduler.url if self._scheduler is not None else ""

    def prepare(self) -> None:
        """Custom resources, Fairlead, Testbeds with their nodes, jobs."""
        from fairlead.wire.crds import files

        self._progress.say("applying ESI's custom resources and examples/esi/*.yaml")
        self._kubectl("apply", "-f", "-", text="---\n".join(files().values()))
        self._kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        self._apply("priorities.yaml")
        self._progress.say("starting Fairlead with its own PostgreSQL: fairlead scheduler --esi")
        self._scheduler = Scheduler(self._cluster, "--esi", "--insecure-esi")
        self._scheduler.start(self._progress)
        self._apply("testbeds.yaml")
        self._until("Testbeds to be known", lambda: len(self._get("testbeds")) == len(BEDS))
        for bed, count in BEDS:
            found = self._do("node-set-up", name=bed, count=count)
            names = ", ".join(each["name"] for each in found["nodes"])
            self._say(f"Testbed {bed}: {names}")
        self._apply("jobs.yaml")
        self._until("slots and jobs to be ready", self._ready)

    def play(self, rounds: int) -> None:
        """The example scheduler until it has seen enough."""
        example = self._examples / "scheduler.py"
        arguments = ["-p", BEDS[1][0], "-s", BEDS[0][0], "--rounds", str(rounds)]
        self._say(f"examples/esi/scheduler.py {self.url} {' '.join(arguments)}")
        with signals_wait():
            process = subprocess.Popen(
                [sys.executable, "-u", str(example), self.url, *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                start_new_session=True,
            )  # fmt: skip
        try:
            self._watch(process)
        finally:
            _end(process)
        if process.returncode != 0:
            raise CliError(f"the example scheduler ended with {process.returncode}")
        self._check(rounds)

    # -- inside --------------------------------------------------------------------------------------

    def _ready(self) -> bool:
        beds, jobs = self._get("testbeds"), self._get("jobs")
        slots = {bed["name"]: sum(map(len, bed["slotsByNode"].values())) for bed in beds}
        return (
            all(slots.get(bed) == 2 * count for bed, count in BEDS)
            and len(jobs) == 3
            and all(job["state"] == "ReadyState" for job in jobs.values())
        )

    def _watch(self, process: "subprocess.Popen[str]") -> None:
        """Its words and what changes, line by line, until it ends."""
        self._changed = time.monotonic()
        reading = threading.Thread(target=self._pass_on, args=(process,), daemon=True)
        reading.start()
        while process.poll() is None:
            self._look()
            if time.monotonic() - self._changed > STUCK:
                raise CliError(f"nothing has changed for {STUCK:.0f} s: {self._seen or 'nothing was posted'}")
            time.sleep(PAUSE)
        reading.join(ENDING)

    def _pass_on(self, process: "subprocess.Popen[str]") -> None:
        for line in process.stdout or ():
            self._say(line.rstrip()) if ": " in line else typer.echo(line.rstrip())

    def _look(self) -> None:
        if self._scheduler is not None:
            self._scheduler.check()
        for each in self._get("schedulings"):
            stages = ", ".join(f"{job['name']} {job['state']}" for job in each["jobStatus"])
            text = f"{each['state']}{f' ({stages})' if stages else ''}"
            if self._seen.get(each["name"]) != text:
                self._seen[each["name"]] = text
                self._say(f"  {each['name']}: {text}")

    def _check(self, rounds: int) -> None:
        jobs = self._get("jobs")
        for name, job in jobs.items():
            rows: list[dict[str, str]] = job["externalScheduler"].get("profiler") or [{}]
            if set(rows[0]) != set(jobs) - {name}:
                raise CliError(f"{name} was not measured beside every other job: {rows[0]}")
        if left := self._get("schedulings"):
            raise CliError(f"Schedulings are left: {', '.join(each['name'] for each in left)}")
        runs = sum(len(job["scheduledEvents"]) for job in jobs.values())
        plans = words.counted(rounds, "plan")
        typer.echo(f"\nevery pair is measured, {plans} of all jobs completed: {runs} runs, none is left")

    def _say(self, text: str) -> None:
        self._changed = time.monotonic()
        typer.echo(f"{self._changed - self._begun:6.1f} s  {text}")

    def _until(self, what: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + READY
        while not done():
            if time.monotonic() > deadline:
                raise CliError(f"waited {READY:.0f} s in vain for {what}")
            time.sleep(PAUSE)

    def _get(self, path: str) -> Any:
        return ask.esi(Where(server=self.url), f"/external/{path}")

    def _do(self, verb: str, **query: object) -> Any:
        return ask.esi(Where(server=self.url), f"/debug/{verb}?{urlencode(query)}", method="POST")

    def _apply(self, file: str) -> None:
        self._kubectl("apply", "-f", str(self._examples / file))

    def _kubectl(self, *arguments: str, text: str = "") -> None:
        command = [self._cluster.kubectl, "--kubeconfig", str(self._cluster.kubeconfig), *arguments]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, start_new_session=True
        )
        if done.returncode != 0:
            raise CliError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")


def _end(process: "subprocess.Popen[str]") -> None:
    """Interrupted, it takes back what it posted."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(ENDING)
    if process.poll() is None:
        process.kill()
        process.wait()
