"""One BatchJob at its step, and the questions that its machine asks of what there is.

Used by `control.esi.batchjob` alone. Each question is answered from the engine's state as it is now; the only
thing that one of them leaves behind is when to ask again. Must not change anything else.
"""

from msgspec import structs

from fairlead.control.esi import apps
from fairlead.control.esi.claims import void
from fairlead.control.esi.terms import Round, retries, when
from fairlead.control.esi.writing import created
from fairlead.core.esi.table import Verdict
from fairlead.model.application import Application, AppState
from fairlead.model.batchjob import BatchJob, BatchJobStatus, JobState
from fairlead.model.esi import RESET, TESTBED_LABEL, SlotState
from fairlead.model.pod import Pod


class Run:
    """One BatchJob at its step. `status` is what it is to be."""

    def __init__(self, round: Round, job: BatchJob) -> None:
        self.round, self.job, self.esi = round, job, round.esi
        self.status = round.esi.job_status(job.uid)

    @property
    def app(self) -> Application | None:
        """Its application, if it is there."""
        if self.status.application:
            return self.esi.apps.get(self.status.application)
        found = self.esi.app(self.job)
        return found if found is not None and found.batch_job == self.job.uid else None

    @property
    def pods(self) -> list[Pod]:
        """What lives of its application, drivers, too. Who is in another namespace only claims to."""
        found = self.esi.pods_of
        uids = {**found.get(self.job.uid, {}), **found.get(self.status.application, {})}
        pods = [pod for uid in uids if (pod := self.round.state.pods.get(uid)) is not None and not pod.ended]
        return [pod for pod in pods if pod.namespace == self.job.namespace]

    def change(self, **fields: object) -> BatchJobStatus:
        return structs.replace(self.status, **fields)


def always(_: Run) -> bool:
    return True


def wrong(run: Run) -> bool:
    return bool(why_wrong(run.round, run.job))


def why_wrong(round: Round, job: BatchJob) -> str:
    """Why it can never run; "" if it can."""
    return verdict(round, job).problem


def verdict(round: Round, job: BatchJob) -> Verdict:
    """Specs are long: each is read once."""
    found = round.esi.verdicts.get(job.uid)
    if found is None or not (found.job is job or _runs_alike(found.job, job)):
        found = Verdict(job, job.problem or apps.why_not(job), apps.account(job))
        round.esi.verdicts[job.uid] = found
    return found


def _runs_alike(one: BatchJob, other: BatchJob) -> bool:
    """Whether they say the same of the application: claims move a spec, too."""
    a, b = one.spec, other.spec
    if a is None or b is None or one.problem != other.problem:
        return False
    return (a.spark_spec, a.flink_spec, a.fairlead) == (b.spark_spec, b.flink_spec, b.fairlead)


def stray(run: Run) -> bool:
    """An application is there though none was asked for: a request of long ago has arrived."""
    return run.app is not None


def repaired(run: Run) -> bool:
    return not wrong(run)


def released(run: Run) -> bool:
    return void(run.round, run.job, run.status)


def claim_is_void(run: Run) -> bool:
    status = run.status
    return bool(status.claimed_by or status.active_scheduling) and released(run)


def enqueued(run: Run) -> bool:
    """It is claimed; after a failure, it is to be tried again and the pause is over."""
    if not run.status.claimed_by or released(run):
        return False
    if not run.status.attempts:
        return True
    if not retries(run.round.owner(run.status), run.status):
        return False
    at = when(run.status.retry_at)
    if run.round.now < at:
        run.round.again(at)
        return False
    return True


def requested(run: Run) -> bool:
    return bool(run.status.places)


def all_gone(run: Run) -> bool:
    """Neither the application is there nor what lived of it: a new one of its name could mistake them for its
    own, and they would go into slots that are somebody else's by then. Nor is one still being created."""
    return run.app is None and not run.pods and not created(run.round, run.job.uid, run.job.name)


def displaced(run: Run) -> bool:
    """One of its slots is gone or taken before anything was started: it is to get others."""
    if run.status.application or run.app is not None or created(run.round, run.job.uid, run.job.name):
        return False
    table = run.esi.tables.get(run.esi.find("Testbed", run.status.slots))
    slots = table.slots if table is not None else {}
    return any(key not in slots or slots[key].state is not SlotState.FREE for key in run.status.places)


def vanished(run: Run) -> bool:
    return bool(run.status.application) and run.app is None


def failed(run: Run) -> bool:
    return bool(failure(run))


def failure(run: Run) -> str:
    """Why the application has failed or cannot be there; "" if neither."""
    app, job = run.app, run.job
    if app is not None:
        said = app.text or "its operator says no more"
        return f"the application has failed: {said}" if app.state is AppState.FAILED else ""
    refusal = run.esi.failures.get((str(job.kind), job.namespace, job.name))
    if refusal is not None and refusal.verb == "create":
        return f"the {job.kind} {job.name} cannot be created: {refusal.text}"
    other = run.esi.app(job)
    if other is not None and not other.deleting:
        return (
            f"there is a {job.kind} {job.name} that is not this BatchJob's: delete it, or name one otherwise"
        )
    return ""


def kept(run: Run) -> str:
    """Why its application is not gone: the cluster does not delete it, or its pods live on; else ""."""
    app, job = run.app, run.job
    if app is None:
        live = sorted(pod.name for pod in run.pods)
        more = f" and {len(live) - 1} more" if len(live) > 1 else ""
        return f"pod {live[0]}{more} of its application has not ended yet" if live else ""
    refusal = run.esi.failures.get((str(job.kind), job.namespace, job.name))
    if app.deleting or refusal is None or refusal.verb != "delete":
        return ""
    return f"the {job.kind} {job.name} cannot be deleted: {refusal.text}"


def completed(run: Run) -> bool:
    app = run.app
    return app is not None and app.state is AppState.COMPLETED


def placed(run: Run) -> bool:
    """Some of its executors are there, and all of these have a node."""
    pods = [pod for pod in run.pods if TESTBED_LABEL in pod.labels]
    return run.app is not None and bool(pods) and all(pod.node for pod in pods)


def runs(run: Run) -> bool:
    app = run.app
    return app is not None and app.state is AppState.RUNNING


def retried(run: Run) -> bool:
    return not released(run) and retries(run.round.owner(run.status), run.status)


def reset(run: Run) -> bool:
    """Its user wants it to begin anew, and it has failed."""
    failed = run.status.state is JobState.FAILED_SUBMISSION or run.status.attempts > 0
    return failed and wish(run.job) not in ("", run.status.reset)


def wish(job: BatchJob) -> str:
    return job.annotations.get(RESET, "")
