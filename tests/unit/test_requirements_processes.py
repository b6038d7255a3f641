"""F20: the engine places work that has nothing to do with Kubernetes: processes, and jobs of a log."""

import subprocess
import sys
from collections import deque
from pathlib import Path

from msgspec import structs
from test_engine import node, pod

from fairlead.control import RECONCILERS
from fairlead.core.cycle import plan_now
from fairlead.core.engine import Engine
from fairlead.model import command as cmd
from fairlead.model import event as ev
from fairlead.model.group import Outcome
from fairlead.model.pod import Pod, PodPhase
from fairlead.model.settings import Settings

WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
_BLOCKED = """
import sys

class Closed:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("fairlead.kube", "fairlead.store", "fairlead.api", "fairlead.app", "aiohttp",
                            "psycopg", "starlette", "uvicorn")):
            raise ImportError(f"{name} is not for the simulator")

sys.meta_path.insert(0, Closed())
"""
_LOG = """
import pathlib
from fairlead.model.settings import Settings, single
from fairlead.sim.inputs import load
from fairlead.sim.play import play

result = play(load(pathlib.Path(sys.argv[1]), procs=4), Settings(queues=single("easy"), pace=0))
print([(row.job_id, row.start, row.end, row.outcome) for row in result.rows])
"""
_CORE = """
import fairlead.core.engine, fairlead.core.cycle, fairlead.core.views, fairlead.control
print(sorted({name.split(".")[1] for name in sys.modules if name.startswith("fairlead.")}))
"""


class Shell:
    """A small scheduler: a unit of work is a process, the node is this machine with two seats."""

    def __init__(self) -> None:
        self.engine = Engine(Settings(pace=0), RECONCILERS)
        self.version, self.now, self.most = 1, 1_000, 0
        self.scripts: dict[str, list[str]] = {}
        self.work: dict[str, Pod] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.inbox: deque[ev.Event] = deque([ev.StoreReady(1), ev.NodeSeen(node("here", cpu=2))])
        self.inbox += [ev.Synced(source) for source in self.engine.state.settings.sources]

    def submit(self, name: str, *argv: str, group: str = "", size: int = 0) -> None:
        self.scripts[name] = list(argv)
        self._seen(pod(name, group=group, size=size))

    def _seen(self, unit: Pod) -> None:
        self.version += 1
        self.work[unit.uid] = structs.replace(unit, version=self.version)
        self.inbox.append(ev.PodSeen(self.work[unit.uid]))

    def run(self) -> None:
        """Until nothing runs and nothing is left to tell."""
        while self.inbox or self.running:
            self.now += 1
            events = [ev.Tick(self.now), *self.inbox]
            self.inbox.clear()
            for command in self.engine.learn(events):
                self._perform(command)
            if not self.inbox and self.running:
                self._wait_for_one()

    def _perform(self, command: cmd.Command) -> None:
        match command:
            case cmd.Propose():
                self.inbox.append(ev.PlanProposed(plan_now(command.snapshot)))
            case cmd.RecordAllocations():
                self.inbox.append(ev.AllocationsRecorded(command.plan))
            case cmd.Bind():
                self.running[command.pod] = subprocess.Popen(
                    [sys.executable, "-c", *self.scripts[command.pod]]
                )
                self.most = max(self.most, len(self.running))
                self.inbox.append(ev.Bound(command.pod, command.grant, command.node))
                unit = structs.replace(self.work[command.pod], node=command.node, phase=PodPhase.RUNNING)
                self._seen(unit)
            case _:
                pass

    def _wait_for_one(self) -> None:
        name, process = next(iter(self.running.items()))
        failed = process.wait(timeout=200)
        del self.running[name]
        phase = PodPhase.FAILED if failed else PodPhase.SUCCEEDED
        self._seen(structs.replace(self.work[name], phase=phase))


def test_F20_processes_of_this_machine_are_queued_started_and_counted(tmp_path: Path):
    shell = Shell()
    for name in "abc":
        shell.submit(name, WRITE, str(tmp_path / name), name)
    for name in ("left", "right"):
        shell.submit(name, WRITE, str(tmp_path / name), name, group="pair", size=2)
    shell.submit("wrong", "raise SystemExit(3)")
    shell.run()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        name: name for name in ("a", "b", "c", "left", "right")
    }
    assert shell.most == 2
    outcomes = {group.name: group.outcome for group in shell.engine.state.groups.values()}
    assert outcomes == dict.fromkeys(("a", "b", "c", "pair"), Outcome.COMPLETED) | {"wrong": Outcome.FAILED}


def python(script: str, *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", _BLOCKED + script, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_F20_jobs_of_a_log_are_played_where_nothing_of_kubernetes_can_be_imported(tmp_path: Path):
    """Four processors under easy: the third job overtakes the second, which is too wide, and ends in time."""
    jobs = ["job_id,submit,run,procs,estimate", "1,0,100,3,100", "2,1,50,4,50", "3,2,90,1,90"]
    log = tmp_path / "small.workload.csv"
    log.write_text("\n".join([*jobs, ""]), encoding="utf-8")
    rows = [("1", 0, 100_000), ("2", 100_000, 150_000), ("3", 2_000, 92_000)]
    assert python(_LOG, str(log)) == str([(*row, "completed") for row in rows])


def test_F20_the_engine_needs_nothing_but_its_own_packages():
    assert python(_CORE) == str(["control", "core", "model"])
