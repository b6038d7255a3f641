"""Who we are to the API server: the Authorization header, and how it is renewed.

Made by `kube.config`, asked by `kube.client` before each request. Token files are read again when they
change (the kubelet rotates them), credential plugins are run again when their token expires or is
refused. Must not log or raise anything that contains a credential.
"""

import asyncio
import base64
import os
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec
from lightkube.config.models import UserExec

from fairlead.kube.errors import ConfigError

EXEC_VERSIONS = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
RECHECK = 10.0
"""Seconds between two looks at a token file."""
EARLY = 30.0
"""A plugin's token is renewed this many seconds before it expires."""
PATIENCE = 60.0
"""Seconds that a credential plugin may take."""


class Auth(Protocol):
    async def header(self) -> str | None:
        """The value of the Authorization header; None where certificates say who we are."""
        ...

    def refused(self) -> bool:
        """The server answered 401. True if a renewed credential is worth a second try."""
        ...


class StaticAuth:
    """A fixed header, or none."""

    def __init__(self, value: str | None = None) -> None:
        self._value = value

    async def header(self) -> str | None:
        return self._value

    def refused(self) -> bool:
        return False


def bearer(token: str) -> StaticAuth:
    return StaticAuth(f"Bearer {token.strip()}")


def basic(user: str, password: str) -> StaticAuth:
    return StaticAuth("Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())


class FileAuth:
    """A token in a file that somebody else rotates."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._value = ""
        self._stamp: tuple[int, int] = (0, 0)
        self._next_look = 0.0

    async def header(self) -> str | None:
        if time.monotonic() >= self._next_look:
            self._read()
        return self._value

    def refused(self) -> bool:
        before = self._value
        self._stamp = (0, 0)
        self._read()
        return self._value != before

    def _read(self) -> None:
        """A file that vanishes for a moment while it is rotated does not hurt: the old token stands."""
        try:
            stat = self._path.stat()
            stamp = (stat.st_mtime_ns, stat.st_ino)
            if stamp != self._stamp:
                self._value = f"Bearer {self._path.read_text().strip()}"
                self._stamp = stamp
        except OSError as error:
            if not self._value:
                raise ConfigError(f"token file {self._path}: {error.strerror}") from error
        self._next_look = time.monotonic() + RECHECK


class ExecAuth:
    """A credential plugin as kubeconfig's `exec` names it."""

    def __init__(self, plugin: UserExec, cluster: dict[str, Any]) -> None:
        if plugin.apiVersion not in EXEC_VERSIONS:
            raise ConfigError(
                f"credential plugin {plugin.command}: apiVersion {plugin.apiVersion} is not supported"
                f" (supported: {', '.join(EXEC_VERSIONS)})"
            )
        self._plugin = plugin
        self._cluster = cluster
        self._value = ""
        self._expires = 0.0
        self._lock = asyncio.Lock()

    async def header(self) -> str | None:
        async with self._lock:
            if not self._value or (self._expires and time.time() > self._expires - EARLY):
                await self._renew()
        return self._value

    def refused(self) -> bool:
        had, self._value = bool(self._value), ""
        return had

    def _environment(self) -> dict[str, str]:
        spec = {"interactive": False, "cluster": self._cluster}
        info = {"apiVersion": self._plugin.apiVersion, "kind": "ExecCredential", "spec": spec}
        own = {each.name: each.value for each in self._plugin.env or []}
        return {**os.environ, **own, "KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}

    async def _renew(self) -> None:
        command = self._plugin.command
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *(self._plugin.args or []),
                env=self._environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f" ({self._plugin.installHint})" if self._plugin.installHint else ""
            raise ConfigError(f"credential plugin {command} cannot be run: {error.strerror}{hint}") from error
        try:
            out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise ConfigError(f"credential plugin {command} gave no answer in {PATIENCE:.0f} s") from None
        if process.returncode:
            text = err.decode(errors="replace").strip()[:500]
            raise ConfigError(f"credential plugin {command} ended with {process.returncode}: {text}")
        self._take(command, out)

    def _take(self, command: str, out: bytes) -> None:
        try:
            status = msgspec.json.decode(out, type=dict[str, Any])["status"]
            token = status.get("token")
            expires = status.get("expirationTimestamp")
            self._expires = datetime.fromisoformat(expires).timestamp() if expires else 0.0
        except (msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError):
            # The text may hold the credential, so it is not part of the message.
            raise ConfigError(f"credential plugin {command} did not print an ExecCredential") from None
        if not token:
            raise ConfigError(f"credential plugin {command}: only tokens are supported, not certificates")
        self._value = f"Bearer {token}"
