"""How fake pods and nodes behave, as a configuration for KWOK (the stages themselves: stages.yaml).

Called by `up`. What a test or an example may write on a pod or a node:

- `fairlead.dev/run-time: 5s` on a pod: it runs exactly that long after its start (units ms, s, m, h).
  Read once, at the start; later changes of the pod do not move the end. Without it a pod of a Job runs for
  1 s and every other pod for ever. `spec.activeDeadlineSeconds` ends a pod earlier, as
  Failed/DeadlineExceeded, counted from the start on the node.
- `fairlead.dev/run-outcome: Failed` on a pod: exit code 1 at the end instead of 0. `Rejected`: the node
  refuses the pod (Failed, reason OutOfcpu), as a kubelet does whose node is full.
- `fairlead.dev/stop-time: 5s` on a pod: it takes that long to go after its deletion (else it goes at once). A
  running pod ends as Failed with exit code 137 before it goes; one with a finalizer stays so.
- `fairlead.dev/node-ready: "false"` on a node: it reports NotReady until the annotation goes.

It must not reach for anything that a real kubelet would not report.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import yaml

SAME_AS = "as in "


def kwok_configuration(port: int) -> str:
    """The whole configuration file of KWOK; `port` serves its health check on loopback."""
    options = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "manageAllNodes": True,
            "serverAddress": f"127.0.0.1:{port}",
            "enableDebuggingHandlers": False,
            # Pods get addresses of their own out of four million.
            "cidr": "10.64.0.1/10",
            "nodeIP": "127.0.0.1",
            # Its client is not rate limited: throughput is workers over latency. Many, as the API server
            # answers slowly just when a burst of pods starts.
            "podPlayStageParallelism": 64,
            "nodePlayStageParallelism": 16,
            # No leases: nothing here reads them, and 5,000 nodes would write 500 of them per second.
            "nodeLeaseDurationSeconds": 0,
        },
    }
    return yaml.safe_dump_all([options, *_stages()], sort_keys=False, width=1000)


def _stages() -> list[dict[str, Any]]:
    """The stages, each with its template in full: two of them share one, which YAML itself cannot say."""
    text = resources.files("fairlead.localcluster").joinpath("stages.yaml").read_text("utf-8")
    stages: dict[str, dict[str, Any]] = {
        stage["metadata"]["name"]: stage for stage in yaml.safe_load_all(text)
    }
    for stage in stages.values():
        for step in stage["spec"]["steps"]:
            patch: dict[str, str] = step.get("patch", {})
            if (template := patch.get("template", "")).startswith(SAME_AS):
                other = stages[template.removeprefix(SAME_AS)]
                patch["template"] = other["spec"]["steps"][0]["patch"]["template"]
    return list(stages.values())
