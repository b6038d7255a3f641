"""What is asked of the cluster for external schedulers: statuses, what specs show of them, objects, Events.

Called by `control.esi`: `flush` at the end of each run, the others by whoever wants an object there or gone.
A write that was sent is remembered in `Esi.sent` until it is seen, so that the same is not asked for with
each event; it is sent again when the object was seen anew and is still different, or after `AGAIN`. At most
one write of an object's part is on its way, so the budget of requests is the cluster's own pace. Must not
decide what is true.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import structs

from fairlead.control.esi.terms import Round, reference
from fairlead.core.esi.table import Sent, Status
from fairlead.model.batchjob import BatchJob, BatchJobStatus, CreationRequest, JobState
from fairlead.model.command import Announce, CreateObject, DeleteObject, ObjectRef, PatchObject
from fairlead.model.esi import CLAIM_LABELS, CLAIMS, LONGEST_LABEL, Ref, Testbed
from fairlead.model.scheduling import Scheduling

AGAIN = 10_000
_REQUESTED = (JobState.SUBMITTED, JobState.SCHEDULED, JobState.RUNNING, JobState.COMPLETED)


def flush(run: Round) -> None:
    """Ask for every write of which the cluster does not show the outcome."""
    esi = run.esi
    _forget_old(run)
    for testbed in esi.testbeds.values():
        if not testbed.deleting:
            _status(run, testbed, testbed.status)
            _claims(run, testbed)
    for job in esi.jobs.values():
        if not job.deleting:
            _status(run, job, job.status)
            _projected(run, job)
    for scheduling in esi.schedulings.values():
        if not scheduling.deleting:
            _status(run, scheduling, scheduling.status)


def asks(run: Round, maker: str, name: str) -> bool:
    """Whether it is time to ask for this object, which is made from the object with uid `maker`."""
    return _send(run, (maker, f"create {name}"), "", 0)


def create(run: Round, made: Mapping[str, Any]) -> None:
    """Let there be this object, if `asks` says that it is time."""
    meta = made["metadata"]
    run.commands.append(CreateObject(made["kind"], meta["namespace"], meta["name"], _json(made)))


def created(run: Round, maker: str, name: str) -> bool:
    """Whether it has been asked for and may still come to be."""
    sent = run.esi.sent.get((maker, f"create {name}"))
    if sent is not None:
        run.again(sent.at + AGAIN)
    return sent is not None


def forget(run: Round, maker: str, name: str) -> None:
    """What was asked to be created is there, or was refused."""
    run.esi.sent.pop((maker, f"create {name}"), None)


def delete(run: Round, ref: ObjectRef, grace: int | None = None) -> None:
    """Let the object with this uid go."""
    if _send(run, (ref.uid, "delete"), "", 0):
        run.commands.append(DeleteObject(ref, grace))


def announce(run: Round, scheduling: Scheduling, reason: str, note: str, warning: bool = False) -> None:
    """One Kubernetes Event about a Scheduling."""
    run.commands.append(Announce(reference(scheduling), reason, note, warning, "State Change"))


def _send(run: Round, key: tuple[str, str], what: str, version: int) -> bool:
    """Whether it is to be asked for now: not if it was, and nothing has come of it yet."""
    sent = run.esi.sent.get(key)
    if sent is not None and version <= sent.version and run.now < sent.at + AGAIN:
        run.again(sent.at + AGAIN)
        return False
    run.esi.sent[key] = Sent(what, version, run.now)
    run.again(run.now + AGAIN)
    return True


def _forget_old(run: Round) -> None:
    sent = run.esi.sent
    for key in [key for key, each in sent.items() if run.now >= each.at + AGAIN]:
        del sent[key]


# -- statuses --------------------------------------------------------------------------------------------


def _status(run: Round, thing: Testbed | BatchJob | Scheduling, seen: Status) -> None:
    wanted = run.esi.status.get(thing.uid)
    key = (thing.uid, "status")
    if wanted is None or wanted is seen or wanted == seen:
        if wanted is not None:
            run.esi.status[thing.uid] = seen  # next time they are the same at a glance
        run.esi.sent.pop(key, None)
        return
    if _send(run, key, "", thing.version):
        body = {"status": _whole(wanted, seen)}
        run.commands.append(PatchObject(reference(thing), _json(body), "status"))


def _whole(wanted: Status, seen: Status) -> dict[str, Any]:
    """All fields, null for an empty one: what an earlier write on its way has put there goes, too."""
    given: dict[str, Any] = msgspec.to_builtins(wanted)
    body = {name: given.get(name) for name in _fields(type(wanted))}
    before: dict[str, Any] = msgspec.to_builtins(seen)
    for name, value in body.items():
        if isinstance(value, dict) and isinstance(before.get(name), dict):
            value.update({key: None for key in before[name] if key not in value})
    return body


@cache
def _fields(kind: type[Status]) -> tuple[str, ...]:
    return tuple(field.encode_name for field in structs.fields(kind))


def _json(body: object) -> str:
    return json.dumps(body, separators=(",", ":"))


# -- what specs and labels show --------------------------------------------------------------------------


def _projected(run: Round, job: BatchJob) -> None:
    """`spec.activeScheduling` and `spec.creationRequest`: what ESI's operators told each other by."""
    spec, key = job.spec, (job.uid, "spec")
    if spec is None:
        return
    status = run.esi.job_status(job.uid)
    wanted = (status.active_scheduling, _request(status))
    if wanted == (spec.active_scheduling, spec.creation_request):
        run.esi.sent.pop(key, None)
        return
    if _send(run, key, "", job.version):
        body = {"spec": {"activeScheduling": wanted[0], "creationRequest": wanted[1]}}
        run.commands.append(PatchObject(reference(job), msgspec.json.encode(body).decode()))


def _request(status: BatchJobStatus) -> CreationRequest | None:
    if status.state not in _REQUESTED or status.slots is None:
        return None
    return CreationRequest(status.slot_ids, status.slots, status.replication)


def _claims(run: Round, testbed: Testbed) -> None:
    """Labels name the first Scheduling that uses the Testbed, as ESI's lock did; the annotation names all."""
    claimants = [each.ref for each in run.users(testbed.ref)]
    labels = dict(zip(CLAIM_LABELS, _label(claimants), strict=True))
    note = ",".join(map(str, claimants)) or None
    key = (testbed.uid, "claims")
    seen = {name: testbed.labels.get(name) for name in CLAIM_LABELS}
    if labels == seen and note == testbed.annotations.get(CLAIMS):
        run.esi.sent.pop(key, None)
        return
    if _send(run, key, "", testbed.version):
        body = {"metadata": {"labels": labels, "annotations": {CLAIMS: note}}}
        run.commands.append(PatchObject(reference(testbed), _json(body)))


def _label(claimants: Sequence[Ref]) -> tuple[str | None, str | None]:
    if not claimants or len(claimants[0].name) > LONGEST_LABEL:
        return None, None
    return claimants[0].name, claimants[0].namespace
