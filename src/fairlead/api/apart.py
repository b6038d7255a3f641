"""Where kube-scheduler asks its extenders, and who may: the HTTP server's address, or one apart from it.

Given by the options of `fairlead scheduler` and `fairlead recorder`, used by their composition roots. A stock
kube-scheduler has no token to send, only a client certificate; clients of the other routes have none. Hence
TLS has an address of its own. Must not open anything to other machines by itself.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from starlette.applications import Starlette
from starlette.routing import Route

from fairlead.api.listen import listen
from fairlead.api.server import FAILURES, Guard, HttpServer, ServerError, is_loopback
from fairlead.api.tls import Certificates

OPEN = "whoever reaches this address may ask as kube-scheduler does: no login"
"""What to tell at start."""


class Apart(Struct, frozen=True):
    """As options say it."""

    address: str = ""
    """HOST:PORT; "": the HTTP server has the routes."""
    tls: Path | None = None
    """The folder with `api.tls` files; None: plain HTTP, and nobody is asked who they are."""
    remote: bool = False
    """Whether that may be so where other machines reach it."""
    flag: str = "--extender-allow-remote"
    """The option which says that."""

    def check(self) -> None:
        """Raises ServerError if this cannot, or must not, be served."""
        if self.tls is not None and not self.address:
            raise ServerError(
                "--extender-tls needs an address of its own, --extender HOST:PORT: who asks the HTTP server"
                " has no certificate"
            )
        if self.address:
            listen(self.address, self._remote, self._advice)
        if self.tls is not None:
            Certificates(self.tls)

    def refusal(self, host: str) -> str:
        """Why the HTTP server, on this host, must not have the routes; "" if it has them not, or may."""
        if self.address or self.remote or is_loopback(host):
            return ""
        return (
            f"--host {host} can be reached from other machines, and kube-scheduler has no token to send:"
            f" add --extender HOST:PORT with --extender-tls FOLDER, or {self.flag} to let anybody ask"
        )

    def warning(self, host: str) -> str:
        """What to tell at start, if the HTTP server listens on `host`; "" if nothing."""
        host = listen(self.address, True, "").host if self.address else host
        return OPEN if self.tls is None and not is_loopback(host) else ""

    def server(self, routes: Sequence[Route]) -> HttpServer | None:
        """Serves these routes and no others; None if there is no address apart. Raises ServerError."""
        if not self.address:
            return None
        host, port = listen(self.address, self._remote, self._advice)
        app = Guard(Starlette(routes=list(routes), exception_handlers=FAILURES), host)
        tls = Certificates(self.tls).context if self.tls is not None else None
        return HttpServer(app, host, port, "choose another --extender", tls=tls)

    @property
    def _remote(self) -> bool:
        return self.remote or self.tls is not None

    @property
    def _advice(self) -> str:
        return f"--extender-tls FOLDER, or {self.flag}"
