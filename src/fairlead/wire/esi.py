"""ESI's custom resources on the wire -> Testbeds, BatchJobs and Schedulings, and back.

Called by `kube.esi_kinds` and by the simulated cluster. Pure. Reading must not raise for anything a server
may send that has a uid: a spec that cannot be used makes a thing whose `problem` says what to write, a status
counts as far as it can be read. Field names are ESI's (`model.esi`).
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from fairlead.model.batchjob import BatchJob, BatchJobSpec, BatchJobStatus
from fairlead.model.esi import GROUP, VERSION, Ref, Testbed, TestbedSpec, TestbedStatus
from fairlead.model.scheduling import Scheduling, SchedulingSpec, SchedulingStatus
from fairlead.wire import esi_rules, salvage
from fairlead.wire.pod import millis, own_annotations, version_of
from fairlead.wire.structs import ObjectMeta

API_VERSION = f"{GROUP}/{VERSION}"
Json = dict[str, Any]
Body = bytes | Raw
EMBEDDED = ("sparkSpec", "flinkSpec", "flinkDeploymentSpec", "jobSpec", "jobSetSpec")
"""What belongs to others, and is passed on as it is."""
S = TypeVar("S", bound=Struct)


class _Meta(ObjectMeta, frozen=True, rename="camel"):
    generation: int = 0


class _Wire(Struct, frozen=True):
    metadata: _Meta
    spec: Raw = Raw(b"{}")
    status: Raw = Raw(b"{}")


_wire = msgspec.json.Decoder(_Wire).decode
_plain = msgspec.json.Decoder().decode


def testbed(raw: Body) -> Testbed:
    """Raises ValueError (or msgspec's error) only for what is no object with a uid. So the other two."""
    wire = _read(raw)
    spec, problem = _spec(wire.spec, TestbedSpec, esi_rules.testbed)
    return Testbed(spec=spec, status=_status(wire.status, TestbedStatus), problem=problem, **_common(wire))


def batch_job(raw: Body) -> BatchJob:
    wire = _read(raw)
    spec, problem = _spec(wire.spec, BatchJobSpec, esi_rules.batch_job)
    return BatchJob(spec=spec, status=_status(wire.status, BatchJobStatus), problem=problem, **_common(wire))


def scheduling(raw: Body) -> Scheduling:
    wire = _read(raw)
    spec, problem = _spec(wire.spec, SchedulingSpec, esi_rules.scheduling)
    status = _status(wire.status, SchedulingStatus)
    return Scheduling(spec=spec, status=status, problem=problem, **_common(wire))


def manifest(kind: str, ref: Ref, spec: Struct, labels: Mapping[str, str] | None = None) -> Json:
    """A whole object of ESI's as JSON has it: what was left out stays out."""
    meta: Json = {"namespace": ref.namespace, "name": ref.name}
    if labels:
        meta["labels"] = dict(labels)
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": msgspec.to_builtins(spec)}


def _read(raw: Body) -> _Wire:
    try:
        wire = _wire(raw)
    except msgspec.MsgspecError:
        tree = salvage.tree(raw)
        meta = salvage.metadata_of(tree)
        number = salvage.part(tree, "metadata").get("generation")
        known = msgspec.structs.asdict(meta)
        encode = msgspec.json.encode
        return _Wire(
            _Meta(**known, generation=number if isinstance(number, int) else 0),
            Raw(encode(tree.get("spec", {}))),
            Raw(encode(tree.get("status", {}))),
        )
    if not wire.metadata.uid:
        raise ValueError("it has no uid")
    return wire


def _common(wire: _Wire) -> Json:
    meta = wire.metadata
    try:
        created = millis(meta.creation_timestamp)
    except ValueError:
        created = 0
    return {
        "uid": meta.uid,
        "version": version_of(meta.resource_version),
        "namespace": meta.namespace,
        "name": meta.name,
        "generation": meta.generation,
        "created": created,
        "deleting": meta.deletion_timestamp is not None,
        "labels": meta.labels,
        "annotations": own_annotations(meta),
    }


def _spec(raw: Raw, form: type[S], rule: Callable[[S], str]) -> tuple[S | None, str]:
    """The spec, or what is wrong with it."""
    try:
        try:
            spec = msgspec.json.decode(raw, type=form)
        except msgspec.ValidationError:  # nulls, and STRICT: rare, so not paid for by all
            spec = msgspec.convert(_tidy(_plain(raw)), form)
    except msgspec.MsgspecError as error:
        return None, _words(error)
    problem = rule(spec)
    return (None, f"spec: {problem}") if problem else (spec, "")


def _tidy(value: Any) -> Any:
    """Without nulls, which mean the same as nothing, and with the mode of slotBased in lower case."""
    if isinstance(value, list):
        return [_tidy(each) for each in cast("list[Any]", value) if each is not None]
    if not isinstance(value, dict):
        return value
    found = {
        key: each if key in EMBEDDED else _tidy(each)
        for key, each in cast("Json", value).items()
        if each is not None
    }
    if "jobs" in found and isinstance(mode := found.get("mode"), str):
        found["mode"] = mode.lower()
    return found


def _words(error: msgspec.MsgspecError) -> str:
    """msgspec's "Expected `int`, got `str` - at `$.slotsPerNode`" as "spec.slotsPerNode: expected int, …"."""
    text, _, where = str(error).partition(" - at ")
    text = text.replace("`", "").replace(" | null", "")
    return f"spec{where.strip('`').removeprefix('$')}: {text[:1].lower()}{text[1:]}"


def _status(raw: Raw, form: type[S]) -> S:
    try:
        return msgspec.json.decode(raw, type=form)
    except msgspec.MsgspecError:
        pass
    found = _tidy(_plain(raw))
    known: Json = {}
    for field in msgspec.structs.fields(form) if isinstance(found, dict) else ():
        try:
            known[field.name] = msgspec.convert(cast("Json", found)[field.encode_name], field.type)
        except (KeyError, msgspec.MsgspecError):  # not there, or not as it should be: as if it were not
            continue
    return form(**known)
