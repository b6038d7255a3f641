"""What tests of the recorder share: a recorder as a user starts it, its ledger, and an independent count."""

import contextlib
import json
import re
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg

from fairlead.localcluster import Cluster
from fairlead.store.embedded import EmbeddedServer
from live import DIRECT, FAIRLEAD, Witness, until

Said = Counter[tuple[str, str]]
"""How often something was said: (uid, event)."""
HANDS = 8


class Recording:
    """`fairlead recorder` as a process of its own, with its database in `data`."""

    def __init__(self, kubeconfig: Path | str, data: Path, *options: str) -> None:
        self.data, self.kubeconfig, self.options = data, kubeconfig, options
        self.process: subprocess.Popen[bytes] | None = None
        self.log_file = data.with_name("recorder.log")

    def __enter__(self) -> "Recording":
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.stop()

    def start(self) -> None:
        command = [FAIRLEAD, "recorder", "--kubeconfig", str(self.kubeconfig), "--data-dir", str(self.data)]
        command += ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", *self.options]
        with self.log_file.open("ab") as log:
            self._from = log.tell()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        """Of this process alone."""
        return self.log_file.read_bytes()[self._from :].decode(errors="replace")

    def url(self) -> str:
        found = re.search(r"http=(http://\S+)", self.log)
        return found[1] if found else ""

    def get(self, path: str) -> tuple[int, str]:
        """Status and text; status 0 if nobody answers."""
        if not self.url():
            return 0, ""
        try:
            with DIRECT.open(self.url() + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, f"it ended:\n{self.log[-3000:]}"
        return self.get("/readyz")[0] == 200

    def wait_ready(self) -> None:
        until(self.ready, "the recorder to be ready")

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)

    def kill(self) -> None:
        """SIGKILL: no time for anything."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    # -- what it has written ------------------------------------------------------------------------

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Of the recorder's database, while its server runs (also one that a killed recorder left)."""
        with psycopg.connect(EmbeddedServer(self.data).url, autocommit=True) as conn:
            conn.execute("SET search_path = fairlead")
            return conn.execute(query, values).fetchall()  # pyright: ignore

    def said(self, namespace: str) -> Said:
        found = self.rows(
            "SELECT uid, event FROM change WHERE object = 'Pod' AND source = 'watch' AND namespace = %s",
            namespace,
        )
        return Counter((uid, event) for uid, event in found)


class SecondWatch(Witness):
    """A plain watch of all pods that counts by itself what a recorder should have said of each."""

    def __init__(self, cluster: Cluster) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, dict[tuple[str, Any], None]] = {}
        self._spaces: dict[str, str] = {}
        super().__init__(cluster)

    def _learn(self, kind: str, raw: dict[str, Any]) -> None:
        super()._learn(kind, raw)
        uid = raw["metadata"]["uid"]
        with self._lock:
            self._spaces[uid] = raw["metadata"]["namespace"]
            told = self._seen.setdefault(uid, {})
            told.update(dict.fromkeys(_tells(raw)))
            if kind == "DELETED":
                told["Deleted", ""] = None

    def expected(self, namespace: str) -> Said:
        with self._lock:
            return Counter(
                (uid, event)
                for uid, told in self._seen.items()
                if self._spaces[uid] == namespace
                for event, _ in told
            )

    def count(self, namespace: str, event: str) -> int:
        return sum(each for (_, said), each in self.expected(namespace).items() if said == event)


def _tells(raw: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """What this version of a pod tells: (event, which of several)."""
    meta, spec, status = raw["metadata"], raw["spec"], raw["status"]
    yield "Created", ""
    if not spec.get("schedulingGates"):
        yield "Queued", ""
    if spec.get("nodeName"):
        yield "Bound", ""
    words = {"PodScheduled": "Scheduled", "Initialized": "Initialized"}
    for each in status.get("conditions", []):
        if each["status"] == "True" and each["type"] in words:
            yield words[each["type"]], ""
        if each["status"] == "True" and each["type"] == "Ready":
            yield "Ready", each["lastTransitionTime"]
    for each in status.get("containerStatuses", []):
        for back, state in ((1, each.get("lastState", {})), (0, each.get("state", {}))):
            which = each["name"], each["restartCount"] - back
            if "running" in state or "startedAt" in state.get("terminated", {}):
                yield "ContainerStarted", which
            if "terminated" in state:
                yield "ContainerFinished", which
    if status.get("phase") in ("Succeeded", "Failed"):
        yield "Finished", ""
    if meta.get("deletionTimestamp"):
        yield "Deleting", ""


class Hands:
    """Whoever creates, binds and deletes pods, several at a time: no scheduler of ours."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._client, self.namespace = cluster.client, namespace
        self._pool = ThreadPoolExecutor(HANDS)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        self.ask("POST", "/api/v1/namespaces", body)

    def __enter__(self) -> "Hands":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def path(self, name: str = "", sub: str = "") -> str:
        return "/".join(filter(None, (f"/api/v1/namespaces/{self.namespace}/pods", name, sub)))

    def ask(self, method: str, path: str, body: Any = None, content: str = "application/json") -> Any:
        answer = self._client.request(method, path, body, content)
        assert answer.ok, f"{method} {path}: {answer.reason()}"
        return answer.json()

    def patch(self, path: str, body: Any) -> Any:
        return self.ask("PATCH", path, body, "application/strategic-merge-patch+json")

    def create(self, name: str, run: str = "1s", **spec: Any) -> None:
        notes = {"fairlead.dev/run-time": run} if run else {}
        body = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": notes},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1m"}}}],
                **spec,
            },
        }  # fmt: skip
        self.ask("POST", self.path(), body)

    def bind(self, name: str, node: str) -> None:
        body = {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }  # fmt: skip
        self.ask("POST", self.path(name, "binding"), body)

    def delete(self, name: str) -> None:
        self.ask("DELETE", self.path(name), {"gracePeriodSeconds": 0})

    def at_once(self, work: Any, *arguments: Iterable[Any]) -> None:
        """All of it, several at a time; raises what one of them raises."""
        list(self._pool.map(work, *arguments))


@contextlib.contextmanager
def database_of(data: Path) -> Any:
    """The database of a recorder that was stopped."""
    server = EmbeddedServer(data)
    server.ensure()
    try:
        yield
    finally:
        server.stop()


def dumps(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
