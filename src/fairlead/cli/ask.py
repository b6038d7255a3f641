"""Who answers a question: the running scheduler if there is one, else the database.

Called by the commands in `cli.commands`. The scheduler is looked for at --server, $FAIRLEAD_SERVER, or
the address in the data folder. Somebody who named a server wants that one's answer: then the database
is asked only if it was named too. Must not import the database driver unless it is needed.
"""

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from fairlead.cli.errors import CliError
from fairlead.model.audit import Report
from fairlead.model.dump import StateDump
from fairlead.model.view import ExplanationPage, Failure, GraphPage, NodePage, QueuePage, QueuesPage
from fairlead.runtime import address

T = TypeVar("T")
TIMEOUT = 5.0
LONG = 120.0
"""Seconds for what takes the scheduler some time where there are many nodes."""
_NO_ROUTE = "Not Found "
"""What a scheduler says of a path that it does not have."""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without proxies: they cannot know what listens on this machine's loopback."""


class NoAnswer(Exception):
    """There is nobody at this address who answers like a scheduler; the text says who was tried."""


class Where(Struct, frozen=True):
    """Who is to be asked, as far as the user said."""

    server: str = ""
    data_dir: Path | None = None
    database_url: str = ""

    @property
    def data(self) -> Path:
        if self.data_dir is not None:
            return self.data_dir.expanduser().absolute()
        from fairlead.store.folder import default_data_dir

        return default_data_dir()


def queue(where: Where, *, ended: bool, namespace: str, limit: int) -> QueuePage:
    """Groups in queue order."""
    query = urlencode({"all": str(ended).lower(), "namespace": namespace, "limit": limit})

    def stored(data: Path, url: str, warnings: tuple[str, ...]) -> QueuePage:
        from fairlead.cli import database

        return database.queue(data, url, ended=ended, namespace=namespace, limit=limit, warnings=warnings)

    return _ask(where, f"/api/v1/queue?{query}", QueuePage, stored)


def explain(where: Where, name: str) -> ExplanationPage:
    """Everything known about the groups of that name. Raises CliError when there is none."""

    def stored(data: Path, url: str, warnings: tuple[str, ...]) -> ExplanationPage:
        from fairlead.cli import database

        return database.explain(data, url, name, warnings)

    page = _ask(where, f"/api/v1/groups/{quote(name)}", ExplanationPage, stored)
    if not page.groups:
        raise CliError(
            f"no group {name!r} is known (asked the {page.source}); `fairlead queue --all` lists all"
        )
    return page


def nodes(where: Where) -> NodePage:
    """All nodes; only a running scheduler knows them."""
    return _ask(where, "/api/v1/nodes", NodePage, "nodes")


def graph(where: Where) -> GraphPage:
    """The cluster as a tree; only a running scheduler knows it."""
    return _ask(where, "/api/v1/graph", GraphPage, "nodes", LONG)


def state(where: Where) -> StateDump:
    """The whole picture; only a running scheduler has one."""
    return _ask(where, "/api/v1/state", StateDump, "the scheduler's picture of the cluster", LONG)


def audit(where: Where, *, repair: bool, nodes: bool) -> Report:
    """An audit made now; only a running scheduler has a picture that can be held against the cluster."""
    query = urlencode({"repair": str(repair).lower(), "nodes": str(nodes).lower()})
    return _ask(where, f"/api/v1/audit?{query}", Report, "what the scheduler sees", LONG, "POST")


def queues(where: Where) -> QueuesPage:
    """All queues; only a running scheduler knows its configuration."""
    return _ask(where, "/api/v1/queues", QueuesPage, "the configuration of queues")


def esi(where: Where, path: str, token: str = "", method: str = "GET") -> Any:
    """ESI's interface, as it answers; only a scheduler that serves external ones has it."""
    try:
        return _fetch(_server(where), path, object, LONG, method, token)
    except NoAnswer as error:
        advice = "start `fairlead scheduler --esi`, or say where to ask with --server or --data-dir"
        raise CliError(f"nobody answers: {error}; {advice}") from None
    except CliError as error:
        if not str(error).startswith(_NO_ROUTE):
            raise
        raise CliError(f"{_server(where)} does not serve external schedulers; start it with --esi") from None


# -- finding somebody --------------------------------------------------------------------------------


def _ask(
    where: Where,
    path: str,
    kind: type[T],
    stored: Callable[[Path, str, tuple[str, ...]], T] | str,
    patience: float = TIMEOUT,
    method: str = "GET",
) -> T:
    """The scheduler's answer, else what `stored` finds in the database; a text: what that does not know."""
    tried: list[str] = []
    places = "--server or --data-dir" if isinstance(stored, str) else "--server, --data-dir or --database-url"
    try:
        return _fetch(_server(where), path, kind, patience, method)
    except NoAnswer as error:
        tried.append(str(error))
    named_server = where.server or os.environ.get("FAIRLEAD_SERVER")
    if isinstance(stored, str):
        tried.append(f"the database does not know {stored}")
    elif named_server and not (where.database_url or where.data_dir):
        tried.append("not the database, because a server was named")
    else:
        try:
            return stored(where.data, where.database_url, (tried[0],))
        except _store_error() as error:
            tried.append(str(error))
    why = "; ".join(tried).removesuffix("?")
    raise CliError(f"nobody answers: {why}. Start `fairlead scheduler`, or say where to ask with {places}")


def _store_error() -> type[Exception]:
    from fairlead.store.errors import StoreError

    return StoreError


def _server(where: Where) -> str:
    """The address to ask. Raises NoAnswer when none is known."""
    named = where.server or os.environ.get("FAIRLEAD_SERVER", "")
    if named:
        url = named if "://" in named else f"http://{named}"
        if not url.startswith(("http://", "https://")):
            raise CliError(f"--server {named!r}: an http:// address is needed")
        return url.rstrip("/")
    found = address.read(where.data)
    if found is None:
        raise NoAnswer(f"no scheduler has left its address in {where.data / address.FILE}")
    if not found.url.startswith("http://"):
        raise NoAnswer(f"{where.data / address.FILE} has no address that can be asked")
    return found.url


def _fetch(server: str, path: str, kind: type[T], patience: float, method: str = "GET", token: str = "") -> T:
    """The answer as a struct. Raises NoAnswer, or CliError with the server's own words."""
    if not token.isascii() or not token.isprintable():
        raise CliError("--token: a token is letters, digits and signs on one line")
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"{server}{path}", method=method, headers=headers)
        with _OPENER.open(request, timeout=patience) as response:
            body = response.read()
    except urllib.error.HTTPError as error:
        raise _refusal(server, error) from None
    except (ValueError, http.client.InvalidURL) as error:
        raise CliError(f"--server {server!r} cannot be read: {error}") from None
    except http.client.HTTPException as error:
        raise NoAnswer(f"{server} does not answer like a scheduler ({type(error).__name__})") from None
    except OSError as error:  # URLError is one
        reason = getattr(error, "reason", error)
        reason = getattr(reason, "strerror", None) or reason
        raise NoAnswer(f"no scheduler answers at {server} ({reason})") from None
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise NoAnswer(f"{server} does not answer like a scheduler of this version ({error})") from None


def _refusal(server: str, error: urllib.error.HTTPError) -> Exception:
    try:
        text = msgspec.json.decode(error.read(), type=Failure).error
    except (msgspec.DecodeError, OSError):
        return NoAnswer(f"{server} does not answer like a scheduler (status {error.code})")
    return CliError(f"{text} (says {server})")
