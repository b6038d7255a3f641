"""The command line and the configuration files of each component.

Called by `up` (files) and by `Cluster.start` (command lines), both from the same state, so that a restarted
component is what it was before. It must not start anything.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import Any, cast

import yaml

from fairlead.localcluster import kubeconfig, stages
from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.paths import Layout, write_private
from fairlead.localcluster.state import Ports, State

# In the order of starting; ended in the reverse order.
ALL = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
LOOPBACK = "127.0.0.1"
SERVICE_RANGE = "10.0.0.0/16"
# Below the range from which systems take ports of outgoing connections: so a component that is restarted
# finds its port still free.
PORT_RANGE = range(20_000, 32_000)
# Controllers that need a cloud, real kubelets or pod networks; node lifecycle, as fake nodes report rarely.
CONTROLLERS_OFF = (
    "node-lifecycle-controller",
    "node-ipam-controller",
    "persistentvolume-attach-detach-controller",
    "horizontal-pod-autoscaler-controller",
    "ttl-controller",
)


def wanted(state: State) -> tuple[str, ...]:
    """The components of this cluster."""
    return tuple(name for name in ALL if name != "kube-scheduler" or state.options.kube_scheduler)


def free_ports() -> Ports:
    """Ports that nobody listens on, all held at once so that no two are the same."""
    held: list[socket.socket] = []
    try:
        # The system's own random source: clusters started at the same moment must not try the same ports.
        for port in random.SystemRandom().sample(PORT_RANGE, 200):
            listener = socket.socket()
            try:
                listener.bind((LOOPBACK, port))
            except OSError:
                listener.close()
                continue
            held.append(listener)
            if len(held) == len(Ports.__struct_fields__):
                return Ports(*[int(each.getsockname()[1]) for each in held])
    finally:
        for listener in held:
            listener.close()
    raise ClusterError(f"no free port on {LOOPBACK} from {PORT_RANGE.start} to {PORT_RANGE.stop}")


def server_url(ports: Ports) -> str:
    return f"https://{LOOPBACK}:{ports.apiserver}"


def write_files(layout: Layout, state: State) -> None:
    """Write the kubeconfigs and configuration files that the command lines name."""
    server = server_url(state.ports)
    kubeconfig.write(layout.kubeconfig, state.options.name, server, layout.pki, "admin")
    for client in ("controller-manager", "scheduler", "kwok"):
        target = layout.conf / f"{client}.kubeconfig"
        kubeconfig.write(target, state.options.name, server, layout.pki, client)
    write_private(layout.conf / "kwok.yaml", stages.kwok_configuration(state.ports.kwok).encode())
    scheduler = _scheduler_configuration(layout, state.options.scheduler_config)
    write_private(layout.conf / "scheduler.yaml", yaml.safe_dump(scheduler).encode())


def _scheduler_configuration(layout: Layout, file: str | None) -> dict[str, Any]:
    """What the file says but for how this cluster is reached. Raises ClusterError."""
    kind = "KubeSchedulerConfiguration"
    told: Any = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind}
    if file is not None:
        try:
            told = yaml.safe_load(Path(file).read_bytes())
        except (OSError, yaml.YAMLError) as error:
            raise ClusterError(f"--scheduler-config {file}: {' '.join(str(error).split())}") from None
        if not isinstance(told, dict) or cast("dict[str, Any]", told).get("kind") != kind:
            raise ClusterError(f"--scheduler-config {file}: it is not of kind {kind}")
    connection = {"kubeconfig": str(layout.conf / "scheduler.kubeconfig"), "qps": 5000, "burst": 10000}
    return {**told, "leaderElection": {"leaderElect": False}, "clientConnection": connection}


def command(layout: Layout, state: State, component: str) -> list[str]:
    """The whole command line of one component."""
    arguments = {
        "etcd": _etcd,
        "kube-apiserver": _apiserver,
        "kube-controller-manager": _controller_manager,
        "kube-scheduler": _scheduler,
        "kwok": _kwok,
    }[component](layout, state)
    return [state.binaries[component], *arguments]


def _etcd(layout: Layout, state: State) -> list[str]:
    client, peer = (f"https://{LOOPBACK}:{port}" for port in (state.ports.etcd, state.ports.etcd_peer))
    server, authority = _server_pair(layout), str(layout.pki / "ca.crt")
    return [
        "--name=fairlead",
        f"--data-dir={layout.etcd_data / 'data'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=fairlead={peer}",
        f"--cert-file={server[0]}",
        f"--key-file={server[1]}",
        f"--trusted-ca-file={authority}",
        "--client-cert-auth",
        f"--peer-cert-file={server[0]}",
        f"--peer-key-file={server[1]}",
        f"--peer-trusted-ca-file={authority}",
        "--peer-client-cert-auth",
        # The data need to survive the end of a process, not of the machine.
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={8 << 30}",
        "--snapshot-count=100000",
        "--log-level=warn",
    ]


def _apiserver(layout: Layout, state: State) -> list[str]:
    certificate, key = _server_pair(layout)
    account = layout.pki / "service-account.key"
    return [
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={state.ports.apiserver}",
        f"--cert-dir={layout.conf}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={layout.pki / 'ca.crt'}",
        f"--etcd-servers=https://{LOOPBACK}:{state.ports.etcd}",
        f"--etcd-cafile={layout.pki / 'ca.crt'}",
        f"--etcd-certfile={certificate}",
        f"--etcd-keyfile={key}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={account}",
        f"--service-account-signing-key-file={account}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        # Its taint would stay for ever: the controller that removes it is off.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--allow-privileged=true",
        # Benchmarks measure schedulers, not the server's guard against too many clients.
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=3000",
        *_optional("--feature-gates", state.options.feature_gates),
        *_optional("--runtime-config", state.options.runtime_config),
    ]


def _controller_manager(layout: Layout, state: State) -> list[str]:
    return [
        *_delegating(layout, "controller-manager", state.ports.controller_manager),
        f"--kubeconfig={layout.conf / 'controller-manager.kubeconfig'}",
        "--leader-elect=false",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--service-account-private-key-file={layout.pki / 'service-account.key'}",
        "--use-service-account-credentials=true",
        f"--controllers=*,{','.join('-' + name for name in CONTROLLERS_OFF)}",
        "--kube-api-qps=5000",
        "--kube-api-burst=10000",
        "--concurrent-job-syncs=20",
        "--concurrent-gc-syncs=40",
        *_optional("--feature-gates", state.options.feature_gates),
    ]


def _scheduler(layout: Layout, state: State) -> list[str]:
    return [
        *_delegating(layout, "scheduler", state.ports.scheduler),
        f"--config={layout.conf / 'scheduler.yaml'}",
        *_optional("--feature-gates", state.options.feature_gates),
    ]


def _kwok(layout: Layout, state: State) -> list[str]:
    del state
    return [
        f"--kubeconfig={layout.conf / 'kwok.kubeconfig'}",
        f"--config={layout.conf / 'kwok.yaml'}",
        "-v=WARN",
    ]


def _delegating(layout: Layout, client: str, port: int) -> list[str]:
    """What the two components have in common that let the API server judge their own callers."""
    certificate, key = _server_pair(layout)
    own = layout.conf / f"{client}.kubeconfig"
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--authentication-kubeconfig={own}",
        f"--authorization-kubeconfig={own}",
        "--authentication-tolerate-lookup-failure=true",
    ]


def _server_pair(layout: Layout) -> tuple[Path, Path]:
    return layout.pki / "server.crt", layout.pki / "server.key"


def _optional(flag: str, value: str) -> list[str]:
    return [f"{flag}={value}"] if value else []
