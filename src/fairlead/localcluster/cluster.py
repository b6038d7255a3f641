"""A cluster that exists: its components, and how to end and start each of them.

Made by `bring_up`, `find_cluster` and `list_clusters`; used by the command line, crash tests and benchmarks.
It writes every process into the state file as soon as it is started. It must not create clusters.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.localcluster import components, process
from fairlead.localcluster.client import Client, plain_get
from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.paths import Layout, clusters_root, layout
from fairlead.localcluster.state import ProcessRecord, State, load

LOG_LINES = 12
ENDING_GRACE = 5.0


class Cluster:
    """One control plane, whether its processes run or not."""

    def __init__(self, files: Layout, state: State) -> None:
        self.files = files
        self.state = state
        self._client: Client | None = None

    @property
    def name(self) -> str:
        return self.state.options.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig: where `up` was told to write it, else in the cluster's folder."""
        chosen = self.state.options.kubeconfig
        return Path(chosen) if chosen else self.files.kubeconfig

    @property
    def server(self) -> str:
        return components.server_url(self.state.ports)

    @property
    def kubectl(self) -> str:
        """The path of a kubectl of the right version."""
        return self.state.binaries["kubectl"]

    @property
    def client(self) -> Client:
        """A small client with an administrator's rights."""
        if self._client is None:
            self._client = Client(self.state.ports.apiserver, self.files.pki)
        return self._client

    @property
    def components(self) -> tuple[str, ...]:
        return components.wanted(self.state)

    # -- processes ------------------------------------------------------------------------------------

    def alive(self, component: str) -> bool:
        record = self.state.processes.get(self._known(component))
        return record is not None and process.alive(record)

    def running(self) -> bool:
        """All processes run and the API server answers that it is ready."""
        return all(self.alive(each) for each in self.components) and self.healthy("kube-apiserver")

    def pid(self, component: str) -> int:
        """The process id of a component that runs."""
        if not self.alive(component):
            raise ClusterError(f"{component} of cluster {self.name!r} does not run")
        return self.state.processes[component].pid

    def launch(self, component: str) -> None:
        """Start the process and write it down; does not wait until it is healthy."""
        if self.alive(component):
            return
        command = components.command(self.files, self.state, component)
        record = process.spawn(command, self.files.log(component), self.state.instance)
        self.state.processes[component] = record
        self.state.save(self.files)

    def start(self, component: str, timeout: float = 60.0) -> None:
        """Start a component with the port and data it had, and wait until it is healthy."""
        self.launch(component)
        self.wait_healthy(component, timeout)

    def stop(self, component: str, grace: float = ENDING_GRACE) -> None:
        """End a component as an administrator would; it may be started again."""
        if self.alive(component):
            process.end([self.state.processes[component]], grace)
            del self.state.processes[component]  # not one that has died: nobody need be told of it
            self.state.save(self.files)

    def kill(self, component: str, number: int = signal.SIGKILL) -> None:
        """Send a signal, by default the one that leaves no time for anything; waits until it has gone."""
        record = self.state.processes.get(self._known(component))
        if record is None or not process.send(record, number):
            raise ClusterError(f"{component} of cluster {self.name!r} does not run")
        if number == signal.SIGKILL:
            process.wait_gone([record], 10.0)

    def end_all(self, grace: float = ENDING_GRACE) -> None:
        """End every process of this cluster: those written down, and any that bears its mark."""
        records = self.state.processes
        store = records.get("etcd")
        process.end([record for name, record in records.items() if name != "etcd"], grace)
        # Last, because the others wait for it when they end.
        process.end([store] if store else [], grace)
        process.end(self.processes(), grace)
        self.state.processes = {}
        self.state.save(self.files)

    def processes(self) -> list[ProcessRecord]:
        """Every process of this cluster that the system knows, written down or not."""
        return process.marked(self.state.instance)

    def _known(self, component: str) -> str:
        if component not in self.components:
            raise ClusterError(
                f"cluster {self.name!r} has no component {component!r}, only {', '.join(self.components)}"
            )
        return component

    # -- health ---------------------------------------------------------------------------------------

    def healthy(self, component: str) -> bool:
        """Whether the component says of itself that it is ready."""
        ports = self.state.ports
        if component == "kwok":
            return plain_get(ports.kwok, "/healthz").ok
        port, path = {
            "etcd": (ports.etcd, "/health"),
            "kube-apiserver": (ports.apiserver, "/readyz"),
            "kube-controller-manager": (ports.controller_manager, "/healthz"),
            "kube-scheduler": (ports.scheduler, "/readyz"),
        }[self._known(component)]
        client = Client(port, self.files.pki, "server" if component == "etcd" else "admin", timeout=5.0)
        try:
            return client.get(path).ok
        finally:
            client.close()

    def wait_healthy(self, component: str, timeout: float) -> None:
        self.wait(f"{component} to be healthy", lambda: self.healthy(component), timeout, component)

    def wait(
        self, what: str, done: Callable[[], bool], timeout: float, component: str, pause: float = 0.1
    ) -> None:
        """Wait for something, but not for a component that has died: then its last words are the error."""
        deadline = time.monotonic() + timeout
        while not done():
            self.check_alive()
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"waited {timeout:.0f} s in vain for {what} in cluster {self.name!r}",
                    self.last_words(component),
                )
            time.sleep(pause)

    def check_alive(self) -> None:
        """An error with the end of its log if a component that was started runs no more."""
        for component in self.state.processes:
            if not self.alive(component):
                raise ClusterError(f"{component} of cluster {self.name!r} ended", self.last_words(component))

    def last_words(self, component: str) -> str:
        """The last lines of a component's log."""
        log = self.files.log(component)
        try:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - 20_000))
                lines = file.read().decode("utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        return "\n".join([f"last lines of {log}:", *(f"  {line:.400}" for line in lines[-LOG_LINES:])])

    # -- asking ---------------------------------------------------------------------------------------

    def create_nodes(self, manifests: list[dict[str, Any]], done: Callable[[int], None]) -> None:
        self.client.create_all("/api/v1/nodes", manifests, done)

    def describe(self) -> dict[str, Any]:
        """What `status` shows, in a form for programs."""
        answer = (
            self.client.get("/api/v1/nodes?limit=1&resourceVersion=")
            if self.alive("kube-apiserver")
            else None
        )
        nodes = None
        if answer is not None and answer.ok:
            listing = answer.json()
            nodes = len(listing["items"]) + listing["metadata"].get("remainingItemCount", 0)
        parts = [self._describe_component(each) for each in self.components]
        lives = sum(part["running"] for part in parts)
        state = "stopped" if not lives else "degraded"
        if lives == len(parts):
            state = "running" if self.state.ready and self.healthy("kube-apiserver") else "starting"
        return {
            "name": self.name,
            "state": state,
            "server": self.server,
            "kubeconfig": str(self.kubeconfig),
            "folder": str(self.files.folder),
            "nodes": nodes,
            "components": parts,
        }

    def _describe_component(self, component: str) -> dict[str, Any]:
        record = self.state.processes.get(component)
        return {
            "name": component,
            "running": self.alive(component),
            "pid": record.pid if record else None,
            "log": str(self.files.log(component)),
            "binary": self.state.binaries[component],
        }


def find_cluster(name: str) -> Cluster | None:
    """The cluster of that name, or None."""
    files = layout(name)
    state = load(files)
    return Cluster(files, state) if state else None


def list_clusters() -> list[Cluster]:
    """All clusters of this user, by name."""
    root = clusters_root()
    folders = sorted(root.iterdir()) if root.is_dir() else []
    found = [find_cluster(each.name) for each in folders if (each / "state.json").is_file()]
    return [cluster for cluster in found if cluster]
