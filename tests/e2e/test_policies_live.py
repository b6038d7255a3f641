"""A policy function that fails again and again is switched off, and the cluster is told of it."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.localcluster import Cluster
from live import Kubectl, Scheduler, job, succeeded, until

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_F19_a_function_that_is_switched_off_is_an_event(
    small_cluster: Cluster, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text("def plan(view):\n    raise ValueError('broken')\n", encoding="utf-8")
    function = {"function": "own.py:plan", "mode": "live", "time-limit": "20s"}
    (tmp_path / "fairlead.yaml").write_text(yaml.safe_dump({"policy-function": function}), encoding="utf-8")
    kubectl = Kubectl(small_cluster, "default")
    numbers = count(1)

    def told() -> list[dict[str, Any]]:
        """Each job is a cycle more, at least."""
        kubectl.create(job(f"job-{next(numbers)}"))
        events = kubectl.get("events.events.k8s.io")
        return [each for each in events if each["reason"] == "PolicyFunctionSwitchedOff"]

    with Scheduler(small_cluster.kubeconfig, data, "--config", str(tmp_path / "fairlead.yaml")):
        (event,) = until(told, "an Event", pause=1.0)
        assert (event["type"], event["action"]) == ("Warning", "Planning")
        assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("Namespace", "default")
        assert event["note"].startswith(
            "policy function own.py:plan is switched off until the configuration is read anew: it failed 5"
        )
        until(lambda: succeeded(kubectl, "job-1"), "the built-in policies to go on")
