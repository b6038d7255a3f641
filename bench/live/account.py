"""A plain service account for Fairlead, made from deploy/ as an administrator would (deploy/README.md).

Used by `bench.live --service-account`: a masters token is exempt from API priority and fairness, so what
an ordinary account reaches has to be measured by itself.
"""

import json
import pathlib
import subprocess

import yaml

from fairlead.localcluster import Cluster

DEPLOY = pathlib.Path(__file__).parent.parent.parent / "deploy"


def make(cluster: Cluster, folder: pathlib.Path) -> pathlib.Path:
    """Apply the manifests and write a kubeconfig that holds a token of the account."""

    def kubectl(*words: str) -> str:
        command = [cluster.kubectl, "--kubeconfig", str(cluster.kubeconfig), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    kubectl("create", "namespace", "fairlead")
    for name in ("rbac.yaml", "flowschema.yaml"):
        kubectl("apply", "-f", str(DEPLOY / name))
    token = kubectl("create", "token", "fairlead", "--namespace", "fairlead", "--duration", "2h").strip()
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": "fairlead", "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = "fairlead"
    path = folder / "kubeconfig"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path
