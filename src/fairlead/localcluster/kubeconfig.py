"""Kubeconfig files: one for people, one for each component, all with their certificates inside.

Called by `up` and `down`. It must never write over a kubeconfig that belongs to another cluster.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import cast

import yaml

from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.paths import write_private


def context_name(cluster: str) -> str:
    return f"fairlead-{cluster}"


def write(path: Path, cluster: str, server: str, pki: Path, client: str) -> None:
    """Write the kubeconfig of one client of one cluster."""
    context = context_name(cluster)

    def embedded(file: str) -> str:
        return base64.b64encode((pki / file).read_bytes()).decode()

    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": context, "cluster": {"server": server, "certificate-authority-data": embedded("ca.crt")}}
        ],
        "users": [
            {
                "name": f"{context}-{client}",
                "user": {
                    "client-certificate-data": embedded(f"{client}.crt"),
                    "client-key-data": embedded(f"{client}.key"),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": context, "user": f"{context}-{client}"}}],
        "current-context": context,
    }
    try:
        write_private(path, yaml.safe_dump(content, sort_keys=False).encode())
    except OSError as error:
        raise ClusterError(f"cannot write kubeconfig {path}: {error.strerror}") from None


def check_free(path: Path, cluster: str) -> None:
    """Refuse a path whose file is some other cluster's kubeconfig (or no kubeconfig at all)."""
    if path.is_dir():
        raise ClusterError(f"--kubeconfig {path}: is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ClusterError(f"--kubeconfig {path}: there is no folder {path.parent}; create it first")
    if path.exists() and not _is_ours(path, cluster):
        raise ClusterError(
            f"--kubeconfig {path}: the file exists and is not of cluster {cluster!r}; "
            "choose another path or remove it"
        )


def remove(path: Path, cluster: str) -> None:
    """Remove a kubeconfig that `up` wrote, unless someone has put another in its place."""
    if path.is_file() and _is_ours(path, cluster):
        path.unlink(missing_ok=True)


def _is_ours(path: Path, cluster: str) -> bool:
    try:
        content: object = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError):
        return False
    if content is None:
        return True
    if not isinstance(content, dict):
        return False
    fields = cast("dict[str, object]", content)
    return fields.get("current-context") == context_name(cluster)
