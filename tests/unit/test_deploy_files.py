"""deploy/: the account may do what the scheduler asks for when it starts, and nothing else."""

from pathlib import Path
from typing import Any

import yaml

from fairlead.kube.access import NEEDED

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def objects(name: str) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in yaml.safe_load_all((DEPLOY / name).read_text(encoding="utf-8"))}


def test_the_role_is_what_is_asked_for_at_start():
    granted = [
        (verb, *resource.partition("/")[::2], group)
        for rule in objects("rbac.yaml")["ClusterRole"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert sorted(granted) == sorted((right.verb, right.resource, right.sub, right.group) for right in NEEDED)


def test_all_files_mean_the_same_account():
    account = objects("rbac.yaml")["ServiceAccount"]["metadata"]
    meant = {"name": account["name"], "namespace": account["namespace"]}
    assert objects("rbac.yaml")["ClusterRoleBinding"]["subjects"] == [{"kind": "ServiceAccount", **meant}]
    flow = objects("flowschema.yaml")["FlowSchema"]["spec"]
    assert [each["serviceAccount"] for each in flow["rules"][0]["subjects"]] == [meant]
    level = objects("flowschema.yaml")["PriorityLevelConfiguration"]["metadata"]["name"]
    assert flow["priorityLevelConfiguration"]["name"] == level


def test_more_seats_than_binds_in_flight():
    """Of 600 requests at once (the API server's default) shared with the 245 shares of its own levels."""
    limited = objects("flowschema.yaml")["PriorityLevelConfiguration"]["spec"]["limited"]
    seats = 600 * limited["nominalConcurrencyShares"] // (245 + limited["nominalConcurrencyShares"])
    assert seats * (100 - limited["lendablePercent"]) // 100 > 64  # bind_parallelism
