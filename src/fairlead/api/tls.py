"""TLS for a door whose callers can show a certificate and nothing else, as kube-scheduler before an extender.

Used by `api.apart`. A connection without a certificate of the right authority ends in its handshake: no route
is ever asked. Must not let anybody in when the files cannot be read.
"""

import ssl
from pathlib import Path

import structlog

from fairlead.api.server import ServerError

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
"""As a Secret of type kubernetes.io/tls has them, with cert-manager's third."""
_log = structlog.get_logger("tls")


class Certificates:
    """`tls.crt` and `tls.key` of a folder are shown to callers; theirs must be signed by one of `ca.crt`.

    Files that are renewed, as those of a mounted Secret are, count from the next connection on; while they
    cannot be used, those before them do.
    """

    def __init__(self, folder: Path) -> None:
        """Raises ServerError, which says what to do."""
        self._folder = folder
        self._known = self._stamps()
        self._present = self._read()
        self.context = self._present
        """For the server that listens; each connection gets the one of the files as they are by then."""

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.num_tickets = 0  # a session that is resumed would not be asked for its certificate again
        context.verify_mode = ssl.CERT_REQUIRED
        name = CERTIFICATE
        try:
            # An empty password: else a key that has one asks for it on the terminal.
            context.load_cert_chain(self._folder / CERTIFICATE, self._folder / KEY, password="")
            name = AUTHORITY
            context.load_verify_locations(self._folder / AUTHORITY)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            what = f"{CERTIFICATE} and {KEY}" if name == CERTIFICATE else name
            reason = getattr(error, "reason", "") or getattr(error, "strerror", "") or str(error)
            raise ServerError(
                f"{what} in {self._folder} cannot be used: {reason}; needed are {CERTIFICATE} and {KEY}"
                f" (PEM, without a password) and {AUTHORITY}, the authority of those who may ask"
            ) from error
        context.sni_callback = self._renew
        return context

    def _renew(self, connection: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
        """At the beginning of each handshake, whether or not the caller names us."""
        stamps = self._stamps()
        if stamps != self._known:
            self._known = stamps
            try:
                self._present = self._read()
                _log.info("certificates read anew", folder=str(self._folder))
            except ServerError as error:
                _log.error("new certificates cannot be used, the ones before them are kept", error=str(error))
        connection.context = self._present

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        return tuple(_stamp(self._folder / name) for name in (CERTIFICATE, KEY, AUTHORITY))


def _stamp(file: Path) -> tuple[int, int, int]:
    try:
        found = file.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)
