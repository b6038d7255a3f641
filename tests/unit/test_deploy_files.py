"""deploy/: the account may do what the scheduler asks for when it starts, and nothing else."""

from pathlib import Path
from typing import Any

import typer
import yaml

from fairlead.cli import recorder as command
from fairlead.kube.access import ESI_ENROL, ESI_NEEDED, NEEDED, Right, to_elect
from fairlead.kube.observe import needed
from fairlead.model.esi import CLASSES, GHOST_PRIORITY, GROUP, PRIORITY

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def objects(name: str) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8"))}


def named(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The same for files with several of a kind: by kind and name."""
    found = yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8"))
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def granted(role: dict[str, Any]) -> list[Right]:
    return sorted(
        Right(verb, resource.partition("/")[0], group, resource.partition("/")[2])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def test_the_role_is_what_is_asked_for_at_start():
    assert granted(objects("rbac.yaml")["ClusterRole"]) == sorted(NEEDED)


def test_RA3_a_role_of_its_own_lets_replicas_elect_a_leader():
    role, binding = objects("rbac.yaml")["Role"], objects("rbac.yaml")["RoleBinding"]
    assert granted(role) == sorted(right._replace(namespace="") for right in to_elect("fairlead"))
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "fairlead"
    assert binding["roleRef"]["kind"] == "Role" and binding["roleRef"]["name"] == role["metadata"]["name"]


def test_all_files_mean_the_same_account():
    account = objects("rbac.yaml")["ServiceAccount"]["metadata"]
    meant = {"name": account["name"], "namespace": account["namespace"]}
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        assert objects("rbac.yaml")[kind]["subjects"] == [{"kind": "ServiceAccount", **meant}]
    flow = objects("flowschema.yaml")["FlowSchema"]["spec"]
    assert [each["serviceAccount"] for each in flow["rules"][0]["subjects"]] == [meant]
    level = objects("flowschema.yaml")["PriorityLevelConfiguration"]["metadata"]["name"]
    assert flow["priorityLevelConfiguration"]["name"] == level


def test_more_seats_than_binds_in_flight():
    """Of 600 requests at once (the API server's default) shared with the 245 shares of its own levels."""
    limited = objects("flowschema.yaml")["PriorityLevelConfiguration"]["spec"]["limited"]
    seats = 600 * limited["nominalConcurrencyShares"] // (245 + limited["nominalConcurrencyShares"])
    assert seats * (100 - limited["lendablePercent"]) // 100 > 64  # bind_parallelism


def test_RB7_the_recorder_may_look_and_nothing_else():
    found = objects("recorder.yaml")
    assert granted(found["ClusterRole"]) == sorted(needed(events=True))
    account = {key: found["ServiceAccount"]["metadata"][key] for key in ("name", "namespace")}
    assert found["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **account}]
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == account["name"]
    assert found["Service"]["spec"]["selector"] == found["Deployment"]["spec"]["selector"]["matchLabels"]


def test_the_recorders_command_is_one_that_it_knows():
    (container,) = objects("recorder.yaml")["Deployment"]["spec"]["template"]["spec"]["containers"]
    name, *options = container["args"]
    known = {flag for each in typer.main.get_group(command.app).commands["run"].params for flag in each.opts}
    assert name == "recorder" and {each.partition("=")[0] for each in options} <= known
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert {f"--{door}=0.0.0.0:{port}" for door, port in ports.items()} <= set(options)


def test_RA4_external_schedulers_are_served_with_no_more_rights_than_are_asked_for():
    account = objects("rbac.yaml")["ServiceAccount"]["metadata"]
    subjects = [{"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}]
    for file, role, rights in (
        ("esi.yaml", "fairlead-esi", ESI_NEEDED),
        ("esi-enrol.yaml", "fairlead-esi-enrol", ESI_ENROL),
    ):
        found = named(file)
        assert granted(found["ClusterRole", role]) == sorted(rights)
        assert found["ClusterRoleBinding", role]["roleRef"]["name"] == role
        assert found["ClusterRoleBinding", role]["subjects"] == subjects
    assert "*" not in {right.verb for right in (*ESI_NEEDED, *ESI_ENROL)}
    # What the role of the scheduler alone grants is not granted twice.
    assert not set(ESI_NEEDED) & set(NEEDED)


def test_users_of_a_namespace_get_the_custom_resources_with_it():
    found = named("esi.yaml")
    for role, verbs in (("edit", 7), ("view", 3)):
        (rule,) = found["ClusterRole", f"fairlead-esi-{role}"]["rules"]
        assert rule["apiGroups"] == [GROUP] and len(rule["verbs"]) == verbs
        labels = found["ClusterRole", f"fairlead-esi-{role}"]["metadata"]["labels"]
        assert labels[f"rbac.authorization.k8s.io/aggregate-to-{role}"] == "true"


def test_priority_classes_have_ESIs_names_and_order():
    found = named("esi.yaml")
    executors, ghosts = (found["PriorityClass", name] for name in (PRIORITY, GHOST_PRIORITY))
    assert (executors["value"], ghosts["value"]) == (1000, 100) == tuple(CLASSES.values())
    assert ghosts["preemptionPolicy"] == "Never"
