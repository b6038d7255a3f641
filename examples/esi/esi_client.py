"""Talks to ESI's REST interface: all that an algorithm needs, and nothing of Kubernetes.

Used by scheduler.py and profiler.py beside it. Standard library only: copy it and go on from there.
"""

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlencode

Shape = dict[str, Any]
BROKEN = (OSError, ValueError, http.client.HTTPException)
"""What a connection that breaks off anywhere, or half a line, is told by."""
SILENCE = 40.0
"""Seconds without a word after which a connection counts as lost; the server sends something every 15."""


class EsiError(Exception):
    """The interface says no, or nobody answers; the text is for people."""


class Esi:
    """One interface. What is posted here is deleted by `close` at the latest. Several threads may use it."""

    def __init__(self, url: str, token: str = "", namespace: str = "") -> None:
        self._url = url.rstrip("/")
        self._query = {"namespace": namespace} if namespace else {}
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        self._lock = threading.Lock()
        self._posted: dict[str, None] = {}
        self.closed = threading.Event()

    # -- what there is: jobs with their runs and notes, testbeds with their slots --------------------

    def jobs(self) -> dict[str, Shape]:
        return self._ask("GET", "jobs")

    def testbed(self, name: str) -> Shape:
        return self._ask("GET", f"testbeds/{quote(name)}")

    # -- what can be done ----------------------------------------------------------------------------

    def put(self, job: Shape) -> None:
        """Store the job's notes (`externalScheduler`); nothing else of it is changed."""
        self._ask("PUT", "jobs/", job)

    def post(self, scheduling: Shape) -> None:
        """Hand in a plan; one of the same name is replaced."""
        with self._lock:  # until there is an answer: else `close` could delete it before it is there
            if self.closed.is_set():
                raise EsiError("this is the end: nothing is posted any more")
            self._posted[scheduling["name"]] = None
            self._ask("POST", "schedulings", scheduling)

    def delete(self, name: str) -> None:
        """Take a plan back: its jobs are ended and free for others. Nothing happens if it is gone."""
        self._ask("DELETE", f"schedulings/{quote(name)}")
        with self._lock:
            self._posted.pop(name, None)

    def close(self) -> None:
        """Delete all that was posted here and is still there; an error names what could not be deleted."""
        self.closed.set()
        with self._lock:
            left = list(self._posted)
        errors: list[str] = []
        for name in left:
            try:
                self.delete(name)
            except EsiError as error:
                errors.append(f"{name}: {error}")
        if errors:
            raise EsiError("; ".join(errors))

    # -- waiting -------------------------------------------------------------------------------------

    def wait(self, kind: str, name: str, good: Callable[[Shape], bool], seconds: float) -> Shape:
        """The first state of it that is `good`. `kind`: testbeds, jobs or schedulings."""
        deadline, seen = time.monotonic() + seconds, ""
        with closing(self._states(kind, name)) as states:
            for shape in states:
                if shape is not None:
                    if good(shape):
                        return shape
                    seen = shape["state"]
                if self.closed.is_set():
                    raise EsiError(f"stopped while waiting for {name}")
                if time.monotonic() > deadline:
                    break
        raise EsiError(f"{name} has been {seen or 'unknown'} for {seconds:g} s: giving up")

    def _states(self, kind: str, name: str) -> Generator[Shape | None]:
        """Each state of an object, the present one first; None now and then, so that clocks are looked at.

        From the stream of events, which is resumed where it broke off; where there is none, by asking again
        and again.
        """
        last, known, there = "", False, True
        while True:
            try:
                for event in self._events(kind, name, last):
                    last, word = event.get("id", last), event.get("event")
                    resource = event.get("data", {}).get("resource")
                    known, there = known or resource is not None, resource is not None or there
                    there = there and word != "reset"  # all that there is follows, until `present`
                    gone = word == "present" and known and not there
                    if gone or (resource is not None and event["data"]["action"] == "DELETED"):
                        raise EsiError(f"{name} was deleted by somebody else")
                    yield resource
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise _explained(error) from error
                yield self._ask("GET", f"{kind}/{quote(name)}")
            except BROKEN:
                yield None
            time.sleep(1)

    def _events(self, kind: str, name: str, last: str) -> Generator[Shape]:
        """Server-Sent Events: lines of `id:`, `event:` and `data:`, an empty line after each event."""
        query = urlencode({**self._query, "kind": kind, "name": name})
        headers = {**self._headers, "Accept": "text/event-stream"}
        if last:
            headers["Last-Event-ID"] = last
        request = urllib.request.Request(f"{self._url}/external/events?{query}", headers=headers)
        with self._open(request, timeout=SILENCE) as answer:
            event: Shape = {}
            for line in answer:
                key, _, value = line.decode().rstrip("\r\n").partition(": ")
                if key == "data":
                    event["data"] = json.loads(value)
                elif key in ("id", "event"):
                    event[key] = value
                elif not key:  # a comment that says "still there" comes as an event without data
                    yield event
                    event = {}

    # -- one request ---------------------------------------------------------------------------------

    def _ask(self, method: str, path: str, body: Shape | None = None) -> Any:
        query = f"?{urlencode(self._query)}" if self._query else ""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": "application/json"}
        url = f"{self._url}/external/{path}{query}"
        try:
            request = urllib.request.Request(url, data, headers, method=method)
            with self._open(request, timeout=SILENCE) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if method == "DELETE" and error.code in (304, 404):
                return None
            raise _explained(error) from error
        except BROKEN as error:
            raise EsiError(f"{self._url} does not answer: {getattr(error, 'reason', error)}") from error


def _explained(error: urllib.error.HTTPError) -> EsiError:
    """The server's own words."""
    try:
        text = json.load(error).get("error", "")
    except (*BROKEN, AttributeError):
        text = ""
    return EsiError(f"{error.code} {error.reason}: {text}" if text else f"{error.code} {error.reason}")
