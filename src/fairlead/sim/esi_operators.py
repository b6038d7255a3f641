"""The operators of a simulated cluster: applications become pods, run as long as company lets them, and end.

Used by `sim.esi_world`. An application gets its pods after a delay, runs once all of them run, and is done
when its work is; who else has pods on its nodes makes that work take longer (`RunTimes`). It can be told to
fail or to get stuck. Statuses have the words of the real operators. Must not look at the engine.
Deterministic; times in milliseconds.
"""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct, structs

from fairlead.model.batchjob import AppKind
from fairlead.model.pod import Pod, PodPhase
from fairlead.sim.cluster import Cluster
from fairlead.sim.esi_objects import Manifest, Objects, owner_of, ref_of
from fairlead.sim.esi_pods import pods

OPERATOR_DELAY = 100
"""Until an operator has seen an application."""
DRIVER_DELAY = 400
"""From then until its driver has asked for executors."""
END_DELAY = 200
"""How long a pod takes to go when its application goes or is done."""
RUN_TIME = 10_000


class RunTimes(Struct):
    """How long an application of a job runs: `alone`, and `beside` another one for the whole of its time.

    Beside several it takes as much longer as all of them make it; on several nodes the slowest counts.
    """

    alone: dict[str, int] = {}
    beside: dict[tuple[str, str], int] = {}
    default: int = RUN_TIME

    def of(self, job: str, company: Iterable[Iterable[str]]) -> int:
        """`company`: for each of its nodes the other jobs that run there."""
        alone = self.alone.get(job, self.default)
        slower = [sum(self.beside.get((job, other), alone) - alone for other in each) for each in company]
        return max(alone + max(slower, default=0), 1)


class _App:
    """One application: its pods, and how much of its work is left (1 at its start)."""

    def __init__(self, uid: str, kind: str, job: str) -> None:
        self.uid, self.kind, self.job = uid, kind, job
        self.pods: dict[str, None] = {}
        self.running = self.done = False
        self.left, self.since, self.takes = 1.0, 0, 0
        self.turn = 0
        """Counts the ends that were foreseen; only the last one holds."""


class Operators:
    """All of them. `fail`, `stuck`: what becomes of the next application of a job."""

    def __init__(self, cluster: Cluster, objects: Objects, run_times: RunTimes) -> None:
        self._cluster, self._objects, self.run_times = cluster, objects, run_times
        self._apps: dict[str, _App] = {}
        self._of_pod: dict[str, str] = {}
        self._made = 0
        self.failing: dict[str, list[int]] = {}
        """Job -> after which time of running its next applications fail, each; -1: it is never submitted."""
        self.stuck: dict[str, None] = {}
        """Jobs whose applications get no pods."""

    # -- what happens to applications ----------------------------------------------------------------

    def created(self, raw: Manifest) -> None:
        uid = raw["metadata"]["uid"]
        owner = self._objects.by_uid(owner_of(raw))
        self._apps[uid] = _App(uid, raw["kind"], ref_of(owner or raw).name)
        self._cluster.at(OPERATOR_DELAY, lambda: self._submit(uid))

    def gone(self, uid: str) -> None:
        """The application is deleted; its pods go after it."""
        app = self._apps.pop(uid, None)
        if app is not None:
            self._end_pods(app)
            self._look_again()

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Called for every pod of the cluster, whoever changed it."""
        pod = new or old
        app = self._apps.get(self._of_pod.get(pod.uid, "")) if pod is not None else None
        if pod is None or app is None or app.done:
            return
        if new is None or new.phase is PodPhase.FAILED:
            self._of_pod.pop(pod.uid)
            app.pods.pop(pod.uid, None)
            self._cluster.at(DRIVER_DELAY, lambda: self._bring(app.uid))
        elif not app.running and all(self._runs(uid) for uid in app.pods):
            self._run(app)
        self._look_again()

    # -- an application's life -----------------------------------------------------------------------

    def _submit(self, uid: str) -> None:
        app = self._apps.get(uid)
        if app is None:
            return
        if self.failing.get(app.job, [0])[0] < 0:
            self.failing[app.job].pop(0)
            self._clean(app.job)
            app.done = True
            self._say(app, "submission failed", "cannot submit: no such image")
            return
        self._say(app, "submitted")
        if app.job not in self.stuck:
            self._cluster.at(DRIVER_DELAY, lambda: self._bring(uid))

    def _bring(self, uid: str) -> None:
        """Pods that are wanted and not there."""
        app, raw = self._apps.get(uid), self._objects.by_uid(uid)
        if app is None or raw is None or app.done or app.job in self.stuck:
            return
        wanted = list(pods(raw))
        for pod in wanted[len(app.pods) :]:
            self._made += 1
            name = f"{raw['metadata']['name']}-exec-{self._made}"
            app.pods[name] = None
            self._of_pod[name] = uid
            self._cluster.pod(structs.replace(pod, uid=name, name=name, version=0))
        if not wanted:
            self._run(app)

    def _run(self, app: _App) -> None:
        app.running, app.since = True, self._cluster.now
        self._say(app, "running")
        failing = self.failing.get(app.job)
        if failing:
            after = failing.pop(0)
            self._clean(app.job)
            self._cluster.at(after, lambda: self._fail(app))
        self._foresee(app)

    def _clean(self, job: str) -> None:
        if not self.failing.get(job, [0]):
            del self.failing[job]

    def _look_again(self) -> None:
        """Someone came to or left a node: work goes on at another pace."""
        for app in self._apps.values():
            if app.running and not app.done and self._length(app) != app.takes:
                self._foresee(app)

    def _foresee(self, app: _App) -> None:
        now = self._cluster.now
        if app.takes:
            app.left = max(app.left - (now - app.since) / app.takes, 0.0)
        app.since, app.takes = now, self._length(app)
        app.turn += 1
        turn = app.turn
        self._cluster.at(round(app.left * app.takes), lambda: self._complete(app, turn))

    def _length(self, app: _App) -> int:
        company: dict[str, dict[str, None]] = {}
        for uid in app.pods:
            pod = self._cluster.pods.get(uid)
            if pod is not None and pod.node:
                company.setdefault(pod.node, {})
        for other in self._apps.values():
            for uid in other.pods if other is not app and other.running and not other.done else ():
                pod = self._cluster.pods.get(uid)
                if pod is not None and pod.node in company and not pod.ended:
                    company[pod.node][other.job] = None
        return self.run_times.of(app.job, company.values())

    def _complete(self, app: _App, turn: int) -> None:
        if app.uid in self._apps and not app.done and turn == app.turn:
            app.done = True
            self._say(app, "completed")
            self._finish(app, PodPhase.SUCCEEDED)

    def _fail(self, app: _App) -> None:
        if app.uid in self._apps and not app.done:
            app.done = True
            self._say(app, "failed", "driver container failed with ExitCode: 1")
            self._finish(app, PodPhase.FAILED)

    def _finish(self, app: _App, phase: PodPhase) -> None:
        for uid in app.pods:
            self._cluster.change(uid, phase=phase)
        if app.kind not in (AppKind.JOB, AppKind.JOB_SET):  # pods of Jobs stay until their Job goes
            self._end_pods(app)
        self._look_again()

    def _end_pods(self, app: _App) -> None:
        for uid in app.pods:
            self._of_pod.pop(uid, None)
            if uid in self._cluster.pods and not self._cluster.pods[uid].ended:
                self._cluster.change(uid, deleting=True)
            self._cluster.at(END_DELAY, lambda uid=uid: self._cluster.pod_gone(uid))
        app.pods = {}

    def _runs(self, uid: str) -> bool:
        pod = self._cluster.pods.get(uid)
        return pod is not None and pod.phase is PodPhase.RUNNING

    def _say(self, app: _App, stage: str, error: str = "") -> None:
        status = STATUS[AppKind(app.kind)](stage, error, list(app.pods))
        self._objects.patch(app.uid, {"status": status}, "status")


# -- in the words of each operator -------------------------------------------------------------------


def _spark(stage: str, error: str, names: list[str]) -> Manifest:
    words = {"running": "RUNNING", "completed": "COMPLETED", "failed": "FAILED", "submitted": "SUBMITTED"}
    state: Manifest = {"state": words.get(stage, "SUBMISSION_FAILED")}
    if error:
        state["errorMessage"] = error
    shown = {"running": "RUNNING", "completed": "COMPLETED", "failed": "FAILED"}.get(stage, "PENDING")
    return {"applicationState": state, "executorState": dict.fromkeys(names, shown)}


def _flink(stage: str, error: str, _: list[str]) -> Manifest:
    words = {"running": "RUNNING", "completed": "FINISHED", "failed": "FAILED", "submitted": "RECONCILING"}
    failed = stage in ("failed", "submission failed")
    life = "FAILED" if failed else "STABLE" if stage in ("running", "completed") else "DEPLOYED"
    manager = "MISSING" if stage == "submission failed" else "READY" if stage != "submitted" else "DEPLOYING"
    status: Manifest = {"lifecycleState": life, "jobManagerDeploymentStatus": manager}
    status["jobStatus"] = {"state": words.get(stage, "FAILED")}
    if error:
        status["error"] = error
    return status


def _flink_cluster(stage: str, error: str, _: list[str]) -> Manifest:
    words = {"running": "Running", "completed": "Stopped", "submitted": "Creating"}
    part = {"running": "Ready", "completed": "Deleted"}.get(stage, "NotReady")
    job = {"running": "Running", "completed": "Succeeded", "submitted": "Pending"}.get(stage, "Failed")
    sets = {"jobManagerStatefulSet": {"state": part}, "taskManagerStatefulSet": {"state": part}}
    components: Manifest = {**sets, "job": {"state": job, "failureReasons": [error] if error else []}}
    return {"state": words.get(stage, "Failed"), "components": components}


def _job(stage: str, error: str, names: list[str]) -> Manifest:
    if stage in ("running", "submitted"):
        return {"active": len(names), "ready": len(names) if stage == "running" else 0}
    kind = "Complete" if stage == "completed" else "Failed"
    condition: Any = {"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": error}
    if stage == "completed":
        condition |= {"reason": "CompletionsReached", "message": "Reached expected number of succeeded pods"}
    return {"active": 0, "ready": 0, "succeeded": len(names), "conditions": [condition]}


def _job_set(stage: str, error: str, names: list[str]) -> Manifest:
    if stage in ("running", "submitted"):
        ready = int(stage == "running")
        return {"replicatedJobsStatus": [{"name": "workers", "ready": ready, "active": 1 if names else 0}]}
    kind = "Completed" if stage == "completed" else "Failed"
    condition = {"type": kind, "status": "True", "reason": "AllJobsCompleted", "message": error}
    return {"terminalState": kind, "conditions": [condition]}


STATUS = {
    AppKind.SPARK: _spark,
    AppKind.FLINK: _flink,
    AppKind.FLINK_CLUSTER: _flink_cluster,
    AppKind.JOB: _job,
    AppKind.JOB_SET: _job_set,
}
