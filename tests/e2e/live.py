"""What end-to-end tests share: a scheduler as a user starts it, kubectl, and a witness of all pods.

Waits have deadlines far beyond what is needed; what is asserted is order, counts and amounts.
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg

from fairlead.localcluster import Cluster
from fairlead.model import quantity
from fairlead.runtime import address
from fairlead.store.embedded import EmbeddedServer, running_postmaster

T = TypeVar("T")
FAIRLEAD = str(Path(sys.executable).with_name("fairlead"))
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PATIENCE = 120.0


def until(done: Callable[[], T], what: str = "", patience: float = PATIENCE, pause: float = 0.1) -> T:
    """The first true answer of `done`; fails after far more time than it can need."""
    deadline = time.monotonic() + patience
    while not (result := done()):
        assert time.monotonic() < deadline, f"waited {patience:.0f} s in vain for {what or done}"
        time.sleep(pause)
    return result


@contextlib.contextmanager
def data_folder() -> Iterator[Path]:
    """A folder for a scheduler. As root its database runs as nobody, who cannot enter pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="fairlead-e2e-"))
    folder.chmod(0o711)
    try:
        yield folder / "data"
    finally:
        end_database(folder / "data")
        shutil.rmtree(folder, ignore_errors=True)


def end_database(data: Path) -> None:
    """The server that a killed scheduler left behind; it is ours, since its folder is."""
    pid = running_postmaster(data)
    if pid is not None:
        os.kill(pid, signal.SIGQUIT)
        until(lambda: running_postmaster(data) is None, "PostgreSQL to end")


# -- the scheduler -----------------------------------------------------------------------------------


class Scheduler:
    """`fairlead scheduler` as a process of its own."""

    def __init__(self, kubeconfig: Path | str, data: Path, *options: str) -> None:
        self.data, self.options, self.kubeconfig = data, options, kubeconfig
        self.process: subprocess.Popen[bytes] | None = None
        self.log_file = data.with_name("scheduler.log")

    def __enter__(self) -> "Scheduler":
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
        command = [FAIRLEAD, "scheduler", "--kubeconfig", str(self.kubeconfig), "--data-dir", str(self.data)]
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self.options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON; status 0 if nobody answers."""
        found = address.read(self.data)
        if found is None or found.pid != self.pid:
            return 0, None
        try:
            with DIRECT.open(f"{found.url}{path}", timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except (OSError, http.client.HTTPException):  # also one that ends in the middle of its answer
            return 0, None

    def ready(self) -> bool:
        assert self.running, f"the scheduler ended:\n{self.log[-3000:]}"
        return self.get("/readyz")[0] == 200

    def wait_ready(self) -> None:
        until(self.ready, "the scheduler to be ready")

    def groups(self, namespace: str) -> dict[str, dict[str, Any]]:
        """Every group of a namespace by its name, ended ones too (of the same name: the latest)."""
        status, page = self.get(f"/api/v1/queue?all=true&limit=0&namespace={namespace}")
        if status != 200:
            return {}
        rows = sorted(page["groups"], key=lambda row: row["first_seen"])
        return {row["name"]: row for row in rows}

    def wait_state(self, namespace: str, name: str, *states: str) -> dict[str, Any]:
        """The group's row once it is in one of the states."""

        def look() -> dict[str, Any] | None:
            row = self.groups(namespace).get(name)
            return row if row and row["state"] in states else None

        return until(look, f"{namespace}/{name} to be {' or '.join(states)}")

    def kept(self, namespace: str, what: str = "first_seen") -> dict[str, int]:
        """First sight (ms), or so, of each group that its store has by now: groups are written behind."""
        question = f"SELECT name, {what} FROM group_record WHERE namespace = %s"
        with psycopg.connect(EmbeddedServer(self.data).url, options="-c search_path=fairlead") as conn:
            return dict(conn.execute(question, [namespace]).fetchall())

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL: no time for anything."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)


# -- kubectl and the API -----------------------------------------------------------------------------


class Kubectl:
    """kubectl as a user types it, in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        command = [self.cluster.kubectl, "--kubeconfig", str(self.cluster.kubeconfig), "-n", self.namespace]
        run = subprocess.run(
            [*command, *arguments], input=text, capture_output=True, text=True, timeout=120, check=False
        )
        assert run.returncode == 0, run.stderr
        return run.stdout

    def apply(self, example: str) -> None:
        self("apply", "-f", str(EXAMPLES / example))

    def create(self, *objects: dict[str, Any]) -> None:
        self("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def get(self, kind: str, *names: str) -> list[dict[str, Any]]:
        found = json.loads(self("get", kind, *names, "-o", "json"))
        return found["items"] if found["kind"] == "List" else [found]

    def events(self, kind: str, name: str) -> list[dict[str, Any]]:
        """events.k8s.io about one object; `name` may be the beginning of it."""
        return [
            event
            for event in self.get("events.events.k8s.io")
            if event["regarding"]["kind"] == kind and event["regarding"]["name"].startswith(name)
        ]

    def wait_event(self, kind: str, name: str, reason: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            return next((e for e in self.events(kind, name) if e["reason"] == reason), None)

        return until(look, f"an Event {reason} about {kind} {name}", pause=0.5)


def job(name: str, pods: int = 1, cpu: str = "1", run: str = "1s", **more: Any) -> dict[str, Any]:
    """A Job of Fairlead's; `labels`, `annotations` and `spec` are of the pod, `job` of the Job."""
    spec = {"schedulerName": "fairlead", "restartPolicy": "Never", **more.get("spec", {})}
    spec["containers"] = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]
    notes = {"fairlead.dev/run-time": run, **more.get("annotations", {})}
    template = {"metadata": {"labels": more.get("labels", {}), "annotations": notes}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": pods, "completions": pods, "template": template, **more.get("job", {})},
    }


def pod(name: str, cpu: str = "1", run: str = "1s", **more: Any) -> dict[str, Any]:
    """A bare pod of Fairlead's."""
    template = job(name, cpu=cpu, run=run, **more)["spec"]["template"]
    metadata = {"name": name, **{key: value for key, value in template["metadata"].items() if value}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def emptied(kubectl: Kubectl) -> None:
    """The namespace without a pod."""
    kubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--timeout=100s")


def placed(kubectl: Kubectl, name: str) -> str:
    """The node of a pod, once it has one."""
    return until(lambda: kubectl.get("pod", name)[0]["spec"].get("nodeName", ""), f"{name} to be bound")


def finish(kubectl: Kubectl, *selector: str) -> None:
    """Their kubelet says of these pods (`-lKEY=VALUE`) that they have come to a good end; they must run. So a
    test sees what it wants to see of them before, however slow the machine is."""
    names = [each["metadata"]["name"] for each in kubectl.get("pods", *selector)]
    assert names, f"no pods of {selector}"
    ended = json.dumps({"status": {"phase": "Succeeded"}})
    kubectl("patch", "pods", *names, "--subresource=status", "--type=merge", f"--patch={ended}")


def succeeded(kubectl: Kubectl, *names: str) -> bool:
    """Every one of these Jobs is complete."""
    jobs = {each["metadata"]["name"]: each for each in kubectl.get("jobs")}
    return all(
        any(
            c["type"] == "Complete" and c["status"] == "True" for c in jobs[n]["status"].get("conditions", [])
        )
        for n in names
    )


# -- the witness -------------------------------------------------------------------------------------


class Sight(NamedTuple):
    """One version of a pod, and when the witness learned of it."""

    at: float
    version: int
    kind: str
    namespace: str
    name: str
    uid: str
    group: str
    node: str
    phase: str
    cpu: int
    leaving: bool = False

    @property
    def holds(self) -> bool:
        """Takes up room on its node."""
        return bool(self.node) and self.phase in ("Pending", "Running") and self.kind != "DELETED"


def _group_of(raw: dict[str, Any]) -> str:
    labels = raw["metadata"].get("labels", {})
    owner = next(iter(raw["metadata"].get("ownerReferences", [])), {"kind": "", "name": ""})
    if name := labels.get("fairlead.dev/group"):
        return name
    return owner["name"] if owner["kind"] == "Job" else raw["metadata"]["name"]


class Witness:
    """Watches all pods from the API server's own mouth and keeps every version, in its order."""

    def __init__(self, cluster: Cluster) -> None:
        self.sights: list[Sight] = []
        self._cluster = cluster
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None
        self._version = 0
        self._list()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)

    def __enter__(self) -> "Witness":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def _list(self) -> None:
        """All that is there now. What ended in a gap of the watch gave its room back at its beginning, as far
        as can be known: who took its place there did nothing wrong."""
        got = self._cluster.client.get("/api/v1/pods")
        if not got.ok:
            raise OSError(got.reason())  # an API server that comes or goes: it is asked again
        listing = got.json()
        latest = {sight.uid: sight for sight in self.sights}
        there = {raw["metadata"]["uid"] for raw in listing["items"]}
        for uid, sight in latest.items():
            if uid not in there and sight.kind != "DELETED":
                self.sights.append(sight._replace(at=time.monotonic(), version=self._version, kind="DELETED"))
        for raw in listing["items"]:
            self._learn("ADDED", raw)
            if (now := self.sights[-1]).uid in latest and not now.holds:
                self.sights[-1] = now._replace(version=self._version)
        self._version = int(listing["metadata"]["resourceVersion"])

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
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=tls)
        path = f"/api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
        connection.request("GET", path)
        answer = connection.getresponse()
        self._socket = connection.sock
        if answer.status != HTTPStatus.OK:
            connection.close()
            if answer.status == HTTPStatus.GONE:
                self._list()
            return
        rest = b""
        while not self._stopped.is_set():
            try:
                chunk = answer.read1(1 << 20)
            except TimeoutError:
                connection.close()  # silence: a buffered reader cannot be read again after a time-out
                return
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":  # the version is too old: what was missed is in a list
                    self._list()
                    return
                if event["type"] != "BOOKMARK":
                    self._learn(event["type"], event["object"])
                self._version = int(event["object"]["metadata"]["resourceVersion"])

    def _learn(self, kind: str, raw: dict[str, Any]) -> None:
        meta, spec = raw["metadata"], raw["spec"]
        wanted = (c.get("resources", {}).get("requests", {}).get("cpu", "0") for c in spec["containers"])
        sight = Sight(
            time.monotonic(), int(meta["resourceVersion"]), kind, meta["namespace"], meta["name"],
            meta["uid"], _group_of(raw), spec.get("nodeName", ""), raw["status"].get("phase", ""),
            sum(quantity.milli(each) for each in wanted), "deletionTimestamp" in meta,
        )  # fmt: skip
        self.sights.append(sight)

    # -- what it saw --------------------------------------------------------------------------------

    def of(self, namespace: str) -> list[Sight]:
        return [sight for sight in list(self.sights) if sight.namespace == namespace]

    def binds(self, namespace: str) -> list[Sight]:
        """The first version of each pod that has a node, in the order of the binds."""
        found: dict[str, Sight] = {}
        for sight in self.of(namespace):
            if sight.node:
                found.setdefault(sight.uid, sight)
        return list(found.values())

    def wait_binds(self, namespace: str, number: int) -> list[Sight]:
        """The same once there are so many: a watch tells later than the scheduler, or kubectl, may know."""
        until(lambda: len(self.binds(namespace)) >= number, f"{number} binds in {namespace}")
        return self.binds(namespace)

    def starts(self, namespace: str) -> list[str]:
        """Groups in the order in which their first members were bound."""
        return list(dict.fromkeys(sight.group for sight in self.binds(namespace)))

    def pods(self, namespace: str) -> dict[str, list[str]]:
        """The uids of all pods that ever were, by group."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for sight in self.of(namespace):
            found[sight.group][sight.uid] = None
        return {group: list(uids) for group, uids in found.items()}

    def started_after(self, namespace: str, later: str, earlier: str) -> bool:
        """No member of `later` was bound before every pod of `earlier` had ended."""
        holding: set[str] = set()
        ever = False
        for sight in self.of(namespace):
            if sight.group == earlier:
                (holding.add if sight.holds else holding.discard)(sight.uid)
                ever = ever or sight.holds
            elif sight.group == later and sight.node and (holding or not ever):
                return False
        return True


def assert_one_node_each(sights: Iterable[Sight]) -> None:
    """No pod was ever seen on two nodes."""
    nodes: dict[str, str] = {}
    for sight in sights:
        if sight.node:
            assert nodes.setdefault(sight.uid, sight.node) == sight.node, sight


def assert_never_over(sights: Iterable[Sight], allocatable: int) -> None:
    """In the API server's own order of writes, no node ever held more cpu (in milli) than it has."""
    holding: dict[str, dict[str, int]] = defaultdict(dict)
    for sight in sorted(sights, key=lambda each: each.version):
        if sight.holds:
            holding[sight.node][sight.uid] = sight.cpu
            used = sum(holding[sight.node].values())
            assert used <= allocatable, f"{sight.node} holds {used}m of {allocatable}m with {sight}"
        elif sight.node:
            holding[sight.node].pop(sight.uid, None)


def half_bound_at_rest(sights: Iterable[Sight], sizes: dict[str, int], silence: float = 2.0) -> list[str]:
    """Groups that had some members bound and others not while nothing happened for `silence` seconds.

    A burst of binds shows halves; a scheduler that is done must not. Members that ended count as bound.
    """
    bound: dict[str, set[str]] = defaultdict(set)
    wrong: list[str] = []
    last = None
    for sight in [*sorted(sights, key=lambda each: each.version), None]:
        now = time.monotonic() if sight is None else sight.at
        if last is not None and now - last >= silence:
            wrong += [
                f"{group}: {len(uids)} of {sizes[group]}"
                for group, uids in bound.items()
                if group in sizes and 0 < len(uids) < sizes[group]
            ]
        if sight is not None:
            last = sight.at
            if sight.node:
                bound[sight.group].add(sight.uid)
    return wrong
