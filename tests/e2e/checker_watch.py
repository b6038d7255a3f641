"""Gathers every moment of pods and nodes from the API server, for the judge in checker.py.

Lists and watches by plain HTTP, without code of Fairlead. Where a watch breaks and the server no longer has
what came since, it is asked for the lists at versions in between, so what happened in a gap is known too.
"""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checker import History, Moment, moment

PATHS = ("/api/v1/nodes", "/api/v1/pods")
LISTS_PER_GAP = 2000
"""More lists than this are not asked for to look into one gap: then it is counted as not seen."""


class Gone(Exception):
    """The server no longer has this version."""


class Api:
    """GET and nothing else, as an administrator, on loopback."""

    def __init__(self, port: int, pki: Path) -> None:
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / "admin.crt", pki / "admin.key")

    def open(self, path: str, timeout: float) -> tuple[http.client.HTTPResponse, socket.socket]:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, timeout=timeout, context=self._tls)
        connection.request("GET", path)
        held = connection.sock
        return connection.getresponse(), held

    def list(self, path: str, version: int = 0) -> tuple[int, list[dict[str, Any]]]:
        """All objects and their version; at exactly this version, if one is given."""
        query = f"?resourceVersion={version}&resourceVersionMatch=Exact" if version else ""
        answer, held = self.open(path + query, 30)
        with contextlib.closing(held):
            body = answer.read()
        if answer.status == 410:
            raise Gone
        if answer.status != 200:
            raise OSError(f"{path}: {answer.status} {body[:200]!r}")
        listing = json.loads(body)
        return int(listing["metadata"]["resourceVersion"]), listing["items"] or []


class Follower:
    """One kind: its moments in the order of their versions, none left out (`unseen` counts exceptions)."""

    def __init__(self, api: Api, path: str) -> None:
        self.moments: list[Moment] = []
        self.unseen = 0
        self.gaps = 0
        self._api, self.path = api, path
        self._present: dict[str, Moment] = {}
        self._stopped = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name=f"checker {path}", daemon=True)
        self._version, items = api.list(path)
        for raw in items:
            self._learn(moment(raw, time.monotonic()))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)

    @property
    def version(self) -> int:
        return self._version

    def _run(self) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                try:
                    self._watch()
                except Gone:
                    self._close_gap()
            self._stopped.wait(0.05)

    def _watch(self) -> None:
        query = f"?watch=1&allowWatchBookmarks=true&resourceVersion={self._version}"
        answer, held = self._api.open(self.path + query, 20)
        with contextlib.closing(held):
            self._socket = held
            if answer.status == 410:
                raise Gone
            while not self._stopped.is_set():
                line = answer.readline()
                if not line:
                    return
                self._hear(json.loads(line))

    def _hear(self, event: dict[str, Any]) -> None:
        raw = event["object"]
        if event["type"] == "ERROR":
            if raw.get("code") == 410:
                raise Gone
            raise OSError(raw.get("message", "the watch failed"))
        if event["type"] != "BOOKMARK":
            self._learn(moment(raw, time.monotonic(), gone=event["type"] == "DELETED"))
        self._version = int(raw["metadata"]["resourceVersion"])

    def _learn(self, now: Moment) -> None:
        self.moments.append(now)
        if now.gone:
            self._present.pop(now.uid, None)
        else:
            self._present[now.uid] = now

    # -- what happened while nobody told ----------------------------------------------------------------

    def _close_gap(self) -> None:
        self.gaps += 1
        version, items = self._api.list(self.path)
        lists = iter(range(LISTS_PER_GAP))
        new = {raw["metadata"]["uid"]: moment(raw, time.monotonic()) for raw in items}
        self._look_between(self._version, dict(self._present), version, new, lists)
        self._version = version

    def _look_between(
        self, low: int, old: dict[str, Moment], high: int, new: dict[str, Moment], lists: Iterator[int]
    ) -> None:
        """Learn all changes after `low` up to `high`, in their order, by lists at versions in between."""
        if all(uid in new and new[uid].version == m.version for uid, m in old.items()) and len(old) == len(
            new
        ):
            return
        if high - low > 1 and next(lists, None) is not None:
            middle = (low + high) // 2
            try:
                _, items = self._api.list(self.path, middle)
            except Gone:
                self.unseen += 1
            else:
                between = {raw["metadata"]["uid"]: moment(raw, time.monotonic()) for raw in items}
                self._look_between(low, old, middle, between, lists)
                self._look_between(middle, between, high, new, lists)
                return
        elif high - low > 1:
            self.unseen += 1
        for uid, last in old.items():
            if uid not in new:
                self._learn(last._replace(at=time.monotonic(), version=high, gone=True))
        for uid, now in sorted(new.items(), key=lambda item: item[1].version):
            if uid not in old or old[uid].version != now.version:
                self._learn(now)


class Recorder:
    """Nodes and pods of a whole cluster for as long as the `with` lasts."""

    def __init__(self, port: int, pki: Path) -> None:
        self._api = Api(port, pki)
        self._followers = [Follower(self._api, path) for path in PATHS]

    def __enter__(self) -> "Recorder":
        for each in self._followers:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._followers:
            each.stop()

    @property
    def history(self) -> History:
        """Every moment so far, in the order of versions (one counter for all kinds)."""
        return sorted((m for each in self._followers for m in list(each.moments)), key=lambda m: m.version)

    @property
    def unseen(self) -> int:
        """Gaps into which it could not look to the end."""
        return sum(each.unseen for each in self._followers)

    @property
    def gaps(self) -> int:
        return sum(each.gaps for each in self._followers)

    def catch_up(self, patience: float = 120.0) -> None:
        """Wait until all that the server has now is known here."""
        deadline = time.monotonic() + patience
        for each in self._followers:
            _, items = self._api.list(each.path)
            wanted = {raw["metadata"]["uid"]: int(raw["metadata"]["resourceVersion"]) for raw in items}
            while wanted:
                for now in list(each.moments):
                    if now.version >= wanted.get(now.uid, now.version + 1):
                        del wanted[now.uid]
                if time.monotonic() > deadline:
                    raise AssertionError(f"the checker did not catch up on {each.path}")
                time.sleep(0.05)
