"""deploy/crds: what the structs say, and what users and tools rely on."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.core.durations import duration
from fairlead.kube.paths import HOMES
from fairlead.model.batchjob import JobState
from fairlead.model.quantity import exact
from fairlead.wire import crds, esi_rules

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "crds"
FOUND = {crd.kind: yaml.safe_load((FOLDER / f"{crd.kind.lower()}.yaml").read_text()) for crd in crds.CRDS}


def part(kind: str, *names: str) -> dict[str, Any]:
    """The schema of a field."""
    found = FOUND[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in names:
        found = found["items"] if name == "[]" else found["properties"][name]
    return found


def rules(schema: dict[str, Any]) -> list[str]:
    return [each["message"] for each in schema.get("x-kubernetes-validations", [])]


def test_RA14_the_crds_that_are_shipped_are_those_of_the_structs() -> None:
    """After a change of a struct: make crds."""
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == crds.files()


@pytest.mark.parametrize(("kind", "short"), [("BatchJob", "bj"), ("Scheduling", "sched"), ("Testbed", "tb")])
def test_group_version_names_and_status_are_ESIs(kind: str, short: str) -> None:
    found = FOUND[kind]
    names, (version,) = found["spec"]["names"], found["spec"]["versions"]
    assert found["metadata"]["name"] == f"{names['plural']}.esi.tu-berlin.de"
    assert found["spec"]["scope"] == "Namespaced"
    assert (names["kind"], names["shortNames"]) == (kind, [short])
    assert f"{found['spec']['group']}/{version['name']}" == HOMES[kind].version == "esi.tu-berlin.de/v1alpha1"
    assert names["plural"] == HOMES[kind].resource
    assert version["served"] and version["storage"] and version["subresources"] == {"status": {}}
    assert version["additionalPrinterColumns"][0] == {
        "name": "state",
        "type": "string",
        "jsonPath": ".status.state",
    }


ESI_FIELDS = {
    ("BatchJob", "spec"): "sparkSpec flinkSpec activeScheduling creationRequest externalScheduler",
    ("BatchJob", "spec", "creationRequest"): "slotIds testbedName replication",
    ("BatchJob", "status"): (
        "state scheduledEvents slots slotIds replication activeScheduling problems conditions"
        " observedGeneration"
    ),
    ("BatchJob", "status", "scheduledEvents", "[]"): "start stop successful scheduling",
    ("BatchJob", "status", "conditions", "[]"): "condition value name error lastUpdateTimestamp",
    ("Scheduling", "spec"): "testbed queueBased slotBased",
    ("Scheduling", "spec", "slotBased"): "mode jobs",
    ("Scheduling", "spec", "slotBased", "jobs", "[]"): "name slotIds",
    ("Scheduling", "status"): "state conditions jobStates problems",
    ("Scheduling", "status", "conditions", "[]"): (
        "condition value jobName slotIds numberOfSlotsRequired lastUpdateTimestamp testbedName error jobs"
    ),
    ("Scheduling", "status", "jobStates", "[]"): "name state",
    ("Testbed", "spec"): "slotsPerNode nodeLabel resourcesPerSlot",
    ("Testbed", "status"): "state nodeProblems problems slots observedGeneration",
    ("Testbed", "status", "slots", "[]"): (
        "position nodeId nodeName slotPositionOnNode state podName podUId reservedFor"
    ),
}


@pytest.mark.parametrize("path", ESI_FIELDS)
def test_all_fields_that_ESI_has_are_there_by_their_names(path: tuple[str, ...]) -> None:
    assert set(ESI_FIELDS[path].split()) <= set(part(*path)["properties"])


def test_what_must_be_there_and_what_is_filled_in() -> None:
    assert set(part("Testbed", "spec")["required"]) == {"nodeLabel", "slotsPerNode", "resourcesPerSlot"}
    for kind in FOUND:
        assert part(kind)["required"] == ["spec"]
    assert part("Scheduling", "spec", "slotBased", "mode")["default"] == "strict"
    assert part("Scheduling", "spec", "slotBased", "mode")["enum"] == [
        "strict",
        "relaxed",
        "STRICT",
        "RELAXED",
    ]
    policy = part("Scheduling", "spec", "fairlead", "failurePolicy")["properties"]
    assert {name: each["default"] for name, each in policy.items()} == {
        "onFailure": "FailFast",
        "retries": 3,
        "backoff": "10s",
    }
    assert part("Testbed", "spec", "fairlead", "holdCapacity")["default"] == "none"
    assert part("BatchJob", "status", "state")["enum"] == [str(each) for each in JobState]


def test_a_status_is_never_filled_in() -> None:
    for kind in FOUND:
        assert "default" not in yaml.safe_dump(part(kind, "status"))


def test_what_belongs_to_others_is_kept_whole() -> None:
    for path in (
        ("spec", "sparkSpec"),
        ("spec", "flinkSpec"),
        ("spec", "fairlead", "flinkDeploymentSpec"),
        ("spec", "fairlead", "jobSpec"),
        ("spec", "fairlead", "jobSetSpec"),
    ):
        assert part("BatchJob", *path)["x-kubernetes-preserve-unknown-fields"] is True


def test_rules_say_what_to_write() -> None:
    assert rules(part("Scheduling", "spec")) == [esi_rules.TESTBED, esi_rules.ONE_PLAN]
    assert rules(part("Scheduling", "spec", "slotBased")) == [esi_rules.DISTINCT]
    assert rules(part("BatchJob", "spec")) == [esi_rules.ONE_APPLICATION]
    assert rules(part("Testbed", "spec", "slotsPerNode")) == [esi_rules.SLOTS_PER_NODE]
    assert rules(part("Testbed", "spec", "resourcesPerSlot")) == [esi_rules.RESOURCES]


@pytest.mark.parametrize("text", ["90", "90s", "1h30m", "1.5h", "", "s", "1 h", "-1s", "1h30", "10ms"])
def test_the_pattern_of_durations_is_what_is_read(text: str) -> None:
    assert bool(re.search(crds.DURATION, text)) == (duration(text) is not None)


@pytest.mark.parametrize(
    "text", ["600m", "1.75Gi", "2", "1e3", "1E3", ".5", "5.", "+1", "x", "1.5.2", "1GB", "", "1e", "3n"]
)
def test_the_pattern_of_quantities_is_what_is_read(text: str) -> None:
    try:
        exact(text)
        readable = True
    except ValueError:
        readable = False
    assert bool(re.search(crds.QUANTITY, text)) == readable
