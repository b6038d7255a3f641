"""The CustomResourceDefinitions of ESI's three kinds, made from the structs that the product reads them into.

Run by `make crds`, which writes deploy/crds; a test compares. Structural schemas: what is checked between
fields is said by CEL rules, whose messages are those of `wire.esi_rules`. Pure but for `main`.
"""

import ast
import inspect
import sys
import textwrap
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from msgspec import Struct
from msgspec import inspect as types

from fairlead.model.batchjob import AppKind, BatchJobOptions, BatchJobSpec, BatchJobStatus
from fairlead.model.esi import CLAIM_LABELS, GROUP, VERSION, Ref, TestbedSpec, TestbedStatus
from fairlead.model.scheduling import (
    FailurePolicy,
    SchedulingOptions,
    SchedulingSpec,
    SchedulingStatus,
    SlotBased,
    SlotJob,
    SlotMode,
)
from fairlead.wire import esi_rules

Json = dict[str, Any]
LONGEST = 400
"""Characters of a docstring that is taken for a description."""
MOST_JOBS, MOST_SLOTS = 1_000, 10_000
"""Of one Scheduling, so that the API server knows that its rules are cheap."""
PAIRS = 32
"""Up to so many jobs the API server compares each with each, which costs some 30 microseconds a pair at every
write; where there are more, `wire.esi` finds it."""
_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY = rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
DURATION = "^([0-9]+|([0-9]+([.][0-9]+)?(ms|s|m|h|d))+)$"


class Crd(NamedTuple):
    """One kind. `columns` of `kubectl get`: name, JSON path, and whether only `-o wide` shows it."""

    kind: str
    short: str
    spec: type[Struct]
    status: type[Struct]
    columns: tuple[tuple[str, str, bool], ...]

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"


_CLAIM = r"\.".join(CLAIM_LABELS[0].split("."))
CRDS = (
    Crd(
        "BatchJob",
        "bj",
        BatchJobSpec,
        BatchJobStatus,
        (
            ("state", ".status.state", False),
            ("scheduling", ".status.activeScheduling.name", False),
            ("testbed", ".status.slots.name", False),
            ("problems", ".status.problems[*]", True),
        ),
    ),
    Crd(
        "Scheduling",
        "sched",
        SchedulingSpec,
        SchedulingStatus,
        (
            ("state", ".status.state", False),
            ("testbed", ".spec.testbed.name", False),
            ("position", ".status.position", False),
            ("reason", ".status.reason", True),
        ),
    ),
    Crd(
        "Testbed",
        "tb",
        TestbedSpec,
        TestbedStatus,
        (
            ("state", ".status.state", False),
            ("per node", ".spec.slotsPerNode", False),
            ("scheduling", f".metadata.labels.{_CLAIM}", False),
            ("nodes", ".spec.nodeLabel", True),
        ),
    ),
)


def _rule(rule: str, message: str) -> Json:
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


def _duration(empty: bool) -> Json:
    check = f"self.matches('{DURATION}')"
    return {"maxLength": 32, **_rule(f"self == '' || {check}" if empty else check, esi_rules.DURATION)}


def _embedded(what: str) -> Json:
    return {"description": f"The spec of {what}, as its own documentation has it."}


_APPLICATIONS = (
    "has(self.sparkSpec)",
    "has(self.flinkSpec)",
    *(
        f"has(self.fairlead) && has(self.fairlead.{name})"
        for name in ("flinkDeploymentSpec", "jobSpec", "jobSetSpec")
    ),
)
_PAIRS = f"size(self.jobs) > {PAIRS} || self.jobs.all(a, self.jobs.exists_one(b, a.name == b.name))"
OF_STRUCT: dict[type[Struct], Json] = {
    Ref: {"x-kubernetes-map-type": "atomic"},
    BatchJobSpec: _rule(f"[{', '.join(_APPLICATIONS)}].exists_one(x, x)", esi_rules.ONE_APPLICATION),
    SchedulingSpec: {
        "x-kubernetes-validations": [
            {"rule": "has(self.testbed) != has(self.slots)", "message": esi_rules.TESTBED},
            {"rule": "has(self.queueBased) != has(self.slotBased)", "message": esi_rules.ONE_PLAN},
        ]
    },
    SlotBased: _rule(_PAIRS, esi_rules.DISTINCT),
}
OF_FIELD: dict[tuple[type[Struct], str], Json] = {
    (Ref, "namespace"): {"minLength": 1, "maxLength": 63},
    (Ref, "name"): {"minLength": 1, "maxLength": 253},
    (TestbedSpec, "node_label"): {"maxLength": 317, **_rule("self != ''", esi_rules.NODE_LABEL)},
    (TestbedSpec, "slots_per_node"): _rule("self >= 1", esi_rules.SLOTS_PER_NODE),
    (TestbedSpec, "resources_per_slot"): {
        "maxProperties": 64,
        **_rule("'cpu' in self && 'memory' in self", esi_rules.RESOURCES),
    },
    (BatchJobSpec, "spark_spec"): _embedded("a SparkApplication (sparkoperator.k8s.io/v1beta2)"),
    (BatchJobSpec, "flink_spec"): _embedded("a FlinkCluster's job (flinkoperator.k8s.io/v1beta1)"),
    (BatchJobOptions, "flink_deployment_spec"): _embedded("a FlinkDeployment (flink.apache.org/v1beta1)"),
    (BatchJobOptions, "job_spec"): _embedded("a Job (batch/v1)"),
    (BatchJobOptions, "job_set_spec"): _embedded("a JobSet (jobset.x-k8s.io/v1alpha2)"),
    (BatchJobOptions, "flink_kind"): {"enum": [str(AppKind.FLINK), str(AppKind.FLINK_CLUSTER)]},
    (SchedulingSpec, "queue_based"): {"maxItems": MOST_SLOTS},
    (SlotBased, "jobs"): {"maxItems": MOST_JOBS},
    (SlotBased, "mode"): {"enum": [*map(str, SlotMode), *(mode.upper() for mode in SlotMode)]},
    (SlotJob, "slot_ids"): {"maxItems": MOST_SLOTS, "items": {"type": "integer", "minimum": 0}},
    (FailurePolicy, "retries"): {"minimum": 0},
    (FailurePolicy, "backoff"): _duration(empty=False),
    (SchedulingOptions, "max_wait"): _duration(empty=True),
}
"""What holds besides the types."""


@cache
def _docs(struct: type[Struct]) -> dict[str, str]:
    """The docstrings of a struct's fields; "" is the struct's own."""
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(found, ast.ClassDef)
    docs = {"": ast.get_docstring(found) or ""}
    for field, after in zip(found.body, found.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match after:
                case ast.Expr(ast.Constant(str() as text)):
                    docs[field.target.id] = inspect.cleandoc(text)
                case _:
                    continue
    return docs


def _described(struct: type[Struct], field: str = "") -> Json:
    text = " ".join(_docs(struct).get(field, "").replace("`", "").split())
    return {"description": text} if 0 < len(text) <= LONGEST else {}


def schema(info: types.Type, defaults: bool) -> Json:
    """The OpenAPI schema of a type. `defaults`: whether the API server is to fill them in."""
    match info:
        case types.StructType():
            return _object(info, defaults)
        case types.EnumType():
            return {"type": "string", "enum": [each.value for each in info.cls]}
        case types.ListType():
            return {"type": "array", "items": schema(info.item_type, defaults)}
        case types.DictType(value_type=types.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case types.DictType():
            return {"type": "object", "additionalProperties": schema(info.value_type, defaults)}
        case types.UnionType():
            return _union([each for each in info.types if not isinstance(each, types.NoneType)], defaults)
        case types.StrType():
            return {"type": "string"}
        case types.IntType():
            return {"type": "integer"}
        case types.BoolType():
            return {"type": "boolean"}
        case _:
            raise TypeError(f"there is no schema of {info}")


def _union(members: list[types.Type], defaults: bool) -> Json:
    if len(members) == 1:
        return schema(members[0], defaults)
    if {type(each) for each in members} != {types.StrType, types.IntType}:
        raise TypeError(f"only quantities are of several types: {members}")
    either = [{"type": "integer"}, {"type": "string"}]
    return {"anyOf": either, "pattern": QUANTITY, "x-kubernetes-int-or-string": True}


def _object(info: types.StructType, defaults: bool) -> Json:
    struct = info.cls
    properties: Json = {}
    for field in info.fields:
        found = schema(field.type, defaults) | _described(struct, field.name)
        found |= OF_FIELD.get((struct, field.name), {})
        # Only what says something: an object that was left out stays out, and so does all that is empty.
        if defaults and isinstance(field.default, str | int) and field.default != "":
            found["default"] = msgspec.to_builtins(field.default)
        properties[field.encode_name] = found
    required = [field.encode_name for field in info.fields if field.required]
    return {
        "type": "object",
        **_described(struct),
        **({"required": required} if required else {}),
        "properties": properties,
        **OF_STRUCT.get(struct, {}),
    }


def definition(crd: Crd) -> Json:
    """The whole CustomResourceDefinition."""
    spec, status = (types.type_info(each) for each in (crd.spec, crd.status))
    columns: list[Json] = [
        {"name": name, "type": "string", "jsonPath": path, **({"priority": 1} if wide else {})}
        for name, path, wide in crd.columns
    ]
    version: Json = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            *columns,
            {"name": "age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": schema(spec, defaults=True),
                    "status": schema(status, defaults=False),
                },
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{crd.plural}.{GROUP}", "labels": {"app.kubernetes.io/name": "fairlead"}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": crd.kind,
                "listKind": f"{crd.kind}List",
                "plural": crd.plural,
                "singular": crd.kind.lower(),
                "shortNames": [crd.short],
                "categories": ["esi"],
            },
            "versions": [version],
        },
    }


class _Plain(yaml.SafeDumper):
    """No anchors: what is the same at two places is written twice."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def files() -> dict[str, str]:
    """File name -> text."""
    head = "# Made by `make crds` from src/fairlead/model and src/fairlead/wire/crds.py: not to be edited.\n"
    return {
        f"{crd.kind.lower()}.yaml": head
        + yaml.dump(definition(crd), Dumper=_Plain, sort_keys=False, width=100)
        for crd in CRDS
    }


def main(folder: str) -> None:
    for name, text in files().items():
        (Path(folder) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
