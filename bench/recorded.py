"""What recordings are held against: hands that make pods come and go, and a second watch that counts itself.

Used by `bench.lossless` and by the end-to-end tests of the recorder. Must share nothing with the recorder but
the database that it writes: not its watch, not its reading of pods.
"""

import contextlib
import http.client
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg

from fairlead.localcluster import Cluster
from fairlead.store.embedded import EmbeddedServer

FAIRLEAD = str(pathlib.Path(sys.executable).with_name("fairlead"))
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
Said = Counter[tuple[str, str]]
"""How often something was said: (uid, event)."""
HANDS = 16
PATIENCE = 120.0
SLOW = 600.0
"""Seconds that a batch of pods may take on a busy machine."""
SILENCE = 60.0
_WORDS = {"PodScheduled": "Scheduled", "Initialized": "Initialized"}


def wait_until(done: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:.0f} s in vain for {what}")
        time.sleep(0.2)


class Recording:
    """`fairlead recorder` as a process of its own, with its database in `data`."""

    def __init__(self, kubeconfig: pathlib.Path, data: pathlib.Path, *options: str, log: str = "") -> None:
        self.data, self.kubeconfig, self.options = data, kubeconfig, options
        self.process: subprocess.Popen[bytes] | None = None
        self._log_file = data.with_name(log or "recorder.log")
        self._from = 0

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
        with self._log_file.open("ab") as log:
            self._from = log.tell()
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        """Of this process alone."""
        return self._log_file.read_bytes()[self._from :].decode(errors="replace")

    def get(self, path: str) -> tuple[int, str]:
        """Status and text; status 0 if nobody answers."""
        found = re.search(r"http=(http://\S+)", self.log)
        if found is None:
            return 0, ""
        try:
            with DIRECT.open(found[1] + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> bool:
        assert self.process is not None and self.process.poll() is None, f"it ended:\n{self.log[-3000:]}"
        return self.get("/readyz")[0] == 200

    def wait_ready(self) -> None:
        wait_until(self.ready, "the recorder to be ready")

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

    def rows(self, query: Any, *values: Any) -> list[Any]:
        """Of its database, while its server runs (also one that a killed recorder left)."""
        with psycopg.connect(EmbeddedServer(self.data).url, autocommit=True) as conn:
            conn.execute("SET search_path = fairlead")
            return conn.execute(query, values).fetchall()

    def said(self, namespace: str) -> Said:
        found = self.rows(
            "SELECT uid, event FROM change WHERE object = 'Pod' AND source = 'watch' AND namespace = %s",
            namespace,
        )
        return Counter((uid, event) for uid, event in found)


class SecondWatch:
    """A plain watch of all pods that counts by itself what a recorder should have said of each."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._seen: dict[str, dict[tuple[str, Any], None]] = {}
        self._spaces: dict[str, str] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self.nodes: dict[str, str] = {}
        """Where each pod is, by its uid."""
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None
        listing = cluster.client.get("/api/v1/pods").json()
        for raw in listing["items"]:
            self._learn("ADDED", raw)
        self._version = int(listing["metadata"]["resourceVersion"])
        self._thread = threading.Thread(target=self._run, name="second watch", daemon=True)

    def __enter__(self) -> "SecondWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def expected(self, namespace: str) -> Said:
        with self._lock:
            return Counter(
                (uid, event)
                for uid, told in self._seen.items()
                if self._spaces[uid] == namespace
                for event, _ in told
            )

    def count(self, namespace: str, event: str) -> int:
        """How often this should have been said of pods there."""
        return self._counts[namespace, event]

    def _run(self) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                self._watch()
            time.sleep(0.05)

    def _watch(self) -> None:
        pki = self._cluster.files.pki
        tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        port = self._cluster.state.ports.apiserver
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=SILENCE, context=tls)
        path = f"/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
        connection.request("GET", path)
        answer = connection.getresponse()
        self._socket = connection.sock
        rest = b""
        while not self._stopped.is_set() and (chunk := answer.read1(1 << 20)):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise AssertionError(f"the second watch has missed something: {event}")
                if event["type"] != "BOOKMARK":
                    self._learn(event["type"], event["object"])
                self._version = int(event["object"]["metadata"]["resourceVersion"])

    def _learn(self, kind: str, raw: dict[str, Any]) -> None:
        uid, namespace = raw["metadata"]["uid"], raw["metadata"]["namespace"]
        found = [*_tells(raw), *([("Deleted", "")] if kind == "DELETED" else [])]
        with self._lock:
            self._spaces[uid] = namespace
            if node := raw["spec"].get("nodeName"):
                self.nodes[uid] = node
            told = self._seen.setdefault(uid, {})
            for each in found:
                if each not in told:
                    told[each] = None
                    self._counts[namespace, each[0]] += 1


def _tells(raw: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What this version of a pod tells: (event, which of several)."""
    meta, spec, status = raw["metadata"], raw["spec"], raw["status"]
    yield "Created", ""
    if not spec.get("schedulingGates"):
        yield "Queued", ""
    if spec.get("nodeName"):
        yield "Bound", ""
    for each in status.get("conditions", []):
        if each["status"] == "True" and each["type"] in _WORDS:
            yield _WORDS[each["type"]], ""
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
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1m"}}}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": notes},
            "spec": {"restartPolicy": "Never", "containers": [container], **spec},
        }
        self.ask("POST", self.path(), body)

    def bind(self, name: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.ask("POST", self.path(name, "binding"), body)

    def delete(self, name: str) -> None:
        self.ask("DELETE", self.path(name), {"gracePeriodSeconds": 0})

    def at_once(self, work: Callable[..., None], *arguments: Iterable[Any]) -> None:
        """All of it, several at a time; raises what one of them raises."""
        list(self._pool.map(work, *arguments))


def names_of(cluster: Cluster) -> list[str]:
    """The nodes."""
    return [each["metadata"]["name"] for each in cluster.client.get("/api/v1/nodes").json()["items"]]


def come_and_go(
    hands: Hands,
    names: list[str],
    nodes: list[str],
    watch: SecondWatch,
    schedulers: tuple[str, ...],
    batch: int,
) -> None:
    """Pods of these schedulerNames come, are bound by hand, run and end; every other one is deleted."""
    space, kinds = hands.namespace, len(schedulers)
    for at in range(0, len(names), batch):
        some = names[at : at + batch]
        for number, scheduler in enumerate(schedulers):
            hands.at_once(partial(hands.create, schedulerName=scheduler), some[number::kinds])
        hands.at_once(hands.bind, some, (nodes[number % len(nodes)] for number in range(at, at + batch)))
        wait_until(partial(_at_least, watch, space, "Finished", at), "the pods before to end", SLOW)
        hands.at_once(hands.delete, names[max(at - batch, 0) : at : 2])
    wait_until(partial(_at_least, watch, space, "Finished", len(names)), "the last pods to end", SLOW)
    gone = (len(names) - batch) // 2
    wait_until(partial(_at_least, watch, space, "Deleted", gone), "pods to be gone", SLOW)


def _at_least(watch: SecondWatch, namespace: str, event: str, number: int) -> bool:
    return watch.count(namespace, event) >= number
