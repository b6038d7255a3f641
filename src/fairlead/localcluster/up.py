"""Bring a cluster up, and down again.

Called by the command line and by test fixtures. Whatever goes wrong on the way up, and whoever interrupts it,
every process that was started is ended before the error goes on: there is no half a cluster.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import signal
import threading
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from fairlead.localcluster import binaries, components, kubeconfig, nodefile, pki
from fairlead.localcluster.cluster import Cluster, find_cluster
from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.nodefile import Manifest
from fairlead.localcluster.options import UpOptions
from fairlead.localcluster.paths import Layout, layout, locked
from fairlead.localcluster.progress import Progress
from fairlead.localcluster.state import State, load

LOCK_TIMEOUT = 900.0
PORT_ATTEMPTS = 3
# Options that a cluster keeps for as long as it is there.
_LASTING = ("nodes", "node_file", "kube_scheduler", "scheduler_config", "feature_gates", "runtime_config")


class Interrupted(BaseException):
    """SIGTERM, SIGINT or SIGHUP arrived while a cluster was coming up; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def bring_up(options: UpOptions, progress: Progress | None = None) -> Cluster:
    """Return a cluster that is ready; one of that name that runs already is returned as it is."""
    progress = progress or Progress()
    options.check()
    files = layout(options.name)
    target = Path(options.kubeconfig).expanduser().absolute() if options.kubeconfig else None
    if target:
        kubeconfig.check_free(target, options.name)
    manifests = _manifests(options)
    with _lock(files, progress), signals_raise():
        found = find_cluster(options.name)
        if found and found.state.ready:
            return _again(found, target, options, progress)
        if found:
            progress.say(f"cluster {options.name!r}: an earlier start was cut off; starting afresh")
            _remove(found)
        return _fresh(files, options, target, manifests, progress)


def bring_down(name: str, progress: Progress | None = None) -> bool:
    """End a cluster and remove its files; False if there was none."""
    progress = progress or Progress()
    files = layout(name)
    # No lock, hence no folder, for a cluster that never was.
    if not files.folder.exists():
        return False
    with _lock(files, progress):
        state = load(files)
        if state is None:
            # A start that was cut off before its first process leaves only files.
            shutil.rmtree(files.folder, ignore_errors=True)
            return False
        _remove(Cluster(files, state))
    return True


def _manifests(options: UpOptions) -> list[Manifest]:
    if options.node_file is not None:
        return nodefile.read(Path(options.node_file).expanduser())
    return nodefile.generate(options.nodes, options.shape)


def _again(found: Cluster, target: Path | None, options: UpOptions, progress: Progress) -> Cluster:
    """The cluster exists: start what does not run, and say so if other options were meant."""
    dead = [each for each in found.components if not found.alive(each)]
    if dead:
        progress.say(f"cluster {found.name!r} exists; starting again {', '.join(dead)}")
        with _ended_on_failure(found, dead), progress.step("start what had ended"):
            for component in dead:
                found.state.processes.pop(component, None)
            for component in dead:
                found.start(component, options.timeout)
    else:
        progress.say(f"cluster {found.name!r} is already running")
    had, meant = found.state.options, options
    if any(getattr(had, name) != getattr(meant, name) for name in _LASTING):
        progress.say("  it keeps the options it was started with; for others, take it down first")
    if target:
        kubeconfig.write(target, found.name, found.server, found.files.pki, "admin")
        found.state.options = _with_kubeconfig(found.state.options, target)
        found.state.save(found.files)
    return found


def _fresh(
    files: Layout, options: UpOptions, target: Path | None, manifests: list[Manifest], progress: Progress
) -> Cluster:
    names = [each for each in components.ALL if each != "kube-scheduler" or options.kube_scheduler]
    found = binaries.find([*names, "kubectl"], progress)
    for attempt in range(PORT_ATTEMPTS):
        state = State(secrets.token_hex(8), _with_kubeconfig(options, target), components.free_ports(), found)
        cluster = Cluster(files, state)
        try:
            with _removed_on_failure(cluster):
                _create_files(cluster)
                _start(cluster, manifests, progress)
                if target:
                    kubeconfig.write(target, options.name, cluster.server, files.pki, "admin")
                state.ready = True
                state.save(files)
            return cluster
        except ClusterError as error:
            # Another program took one of the ports between choosing and using it.
            if "address already in use" not in error.detail or attempt == PORT_ATTEMPTS - 1:
                raise
            progress.say("  a port was taken meanwhile; trying others")
    raise AssertionError("unreachable")


def _create_files(cluster: Cluster) -> None:
    # A folder without a state file is what a cut off start left; old data would not match new keys.
    shutil.rmtree(cluster.files.folder, ignore_errors=True)
    cluster.files.create()
    cluster.state.save(cluster.files)
    pki.create(cluster.files.pki)
    components.write_files(cluster.files, cluster.state)


def _start(cluster: Cluster, manifests: list[Manifest], progress: Progress) -> None:
    timeout = cluster.state.options.timeout
    with progress.step("start etcd and kube-apiserver"):
        cluster.launch("etcd")
        # Not before: an API server without etcd waits for seconds before it tries again.
        cluster.wait_healthy("etcd", timeout)
        cluster.start("kube-apiserver", timeout)
    with progress.step("start kube-controller-manager and kwok"):
        cluster.launch("kube-controller-manager")
        _grant_kwok(cluster)
        cluster.launch("kwok")
        if cluster.state.options.kube_scheduler:
            cluster.launch("kube-scheduler")
        for component in cluster.components:
            cluster.wait_healthy(component, timeout)
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        owner = "kube-controller-manager"
        cluster.wait("the default service account", lambda: cluster.client.get(path).ok, timeout, owner)
    if manifests:
        with progress.step(f"create {len(manifests)} nodes") as step:
            _create_nodes(cluster, manifests, step)


def _create_nodes(cluster: Cluster, manifests: list[Manifest], step: Any) -> None:
    def created(count: int) -> None:
        step.note = f"{count} created"

    cluster.create_nodes(manifests, created)
    seen = ready_nodes(cluster)

    def all_ready() -> bool:
        nonlocal seen
        seen = ready_nodes(cluster)
        step.note = f"{seen} ready"
        return seen >= len(manifests)

    # Each look reads all nodes: not too often when there are thousands.
    pause = 0.1 + len(manifests) / 2000
    timeout = cluster.state.options.timeout + len(manifests) / 50
    cluster.wait(f"{len(manifests)} nodes to be Ready", all_ready, timeout, "kwok", pause)


def ready_nodes(cluster: Cluster) -> int:
    """How many nodes report that they are Ready."""
    answer = cluster.client.get("/api/v1/nodes?resourceVersion=0")
    if not answer.ok:
        return 0
    return sum(
        any(
            each["type"] == "Ready" and each["status"] == "True"
            for each in node["status"].get("conditions", [])
        )
        for node in answer.json()["items"]
    )


def _grant_kwok(cluster: Cluster) -> None:
    """KWOK's rights: those of a kubelet on every node, and no more."""
    name, group = "fairlead:kwok", "rbac.authorization.k8s.io"
    rules = [
        {
            "apiGroups": [""],
            "resources": ["nodes", "pods"],
            "verbs": ["get", "list", "watch", "patch", "delete"],
        },
        {
            "apiGroups": [""],
            "resources": ["nodes/status", "pods/status"],
            "verbs": ["get", "patch", "update"],
        },
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    ]
    meta = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    subjects = [{"apiGroup": group, "kind": "User", "name": "fairlead:kwok"}]
    base = f"/apis/{group}/v1"
    for path, manifest in (
        (f"{base}/clusterroles", {**meta, "kind": "ClusterRole", "rules": rules}),
        (
            f"{base}/clusterrolebindings",
            {**meta, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects},
        ),
    ):
        cluster.client.create_all(path, [manifest], lambda _: None)


def _remove(cluster: Cluster) -> None:
    cluster.end_all()
    if cluster.state.options.kubeconfig:
        kubeconfig.remove(Path(cluster.state.options.kubeconfig), cluster.name)
    shutil.rmtree(cluster.files.folder, ignore_errors=True)


def _with_kubeconfig(options: UpOptions, target: Path | None) -> UpOptions:
    return msgspec.structs.replace(options, kubeconfig=str(target) if target else None)


def _lock(files: Layout, progress: Progress) -> contextlib.AbstractContextManager[None]:
    """One command at a time per cluster; the file stays, since removing it would let two in."""
    name = files.folder.name
    return locked(
        files.folder.with_name(f".{name}.lock"),
        lambda: progress.say(f"  another command works on cluster {name!r}; waiting for it"),
        LOCK_TIMEOUT,
        f"cluster {name!r}",
    )


@contextlib.contextmanager
def _removed_on_failure(cluster: Cluster) -> Generator[None]:
    try:
        yield
    except BaseException as error:
        with signals_wait():
            # The logs go with the folder: what they say must be in the error by now.
            cluster.end_all(grace=2.0)
            shutil.rmtree(cluster.files.folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise ClusterError(f"cannot write the files of cluster {cluster.name!r}: {error}") from None
        raise


@contextlib.contextmanager
def _ended_on_failure(cluster: Cluster, names: list[str]) -> Generator[None]:
    try:
        yield
    except BaseException:
        with signals_wait():
            for component in names:
                cluster.stop(component)
        raise


@contextlib.contextmanager
def signals_raise() -> Generator[None]:
    """Turn the signals that end a command into an exception, so that the way out cleans up."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del frame
        raise Interrupted(number)

    with _handlers(interrupt):
        yield


@contextlib.contextmanager
def signals_wait() -> Generator[None]:
    """Let nothing interrupt the cleaning up: an impatient second Ctrl-C would leave processes behind."""
    with _handlers(signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handlers(handler: Any) -> Generator[None]:
    # Python lets only the main thread set handlers; elsewhere the caller's own stay in force.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
