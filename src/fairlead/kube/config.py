"""Where the cluster is and how to prove who we are: kubeconfig files or the in-cluster account.

Called by the composition root; the result goes to `kube.client`. The order is: the path given,
$KUBECONFIG (several files are merged, the first wins), the in-cluster account, ~/.kube/config. Every
failure is a ConfigError that names the file. Must not open a connection.
"""

import base64
import binascii
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import yaml
from lightkube.config.kubeconfig import SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError as LightkubeError

from fairlead.kube.auth import Auth, ExecAuth, FileAuth, StaticAuth, basic, bearer
from fairlead.kube.errors import ConfigError

IN_CLUSTER = "in-cluster service account"
"""The source of the account that a pod has of its own."""
CLUSTER_FILES = ("certificate-authority",)
USER_FILES = ("client-certificate", "client-key", "tokenFile")


class KubeAccess(NamedTuple):
    """All that `kube.client` needs. `source` says where it came from, for messages."""

    server: str
    ssl: ssl.SSLContext | None
    auth: Auth
    namespace: str
    source: str
    server_name: str | None = None
    proxy: str | None = None


def load(kubeconfig: str | Path | None = None, context: str | None = None) -> KubeAccess:
    paths, source = _find(kubeconfig)
    if paths is None:
        return _in_cluster()
    merged, extra = _merge([_read(path) for path in paths])
    return _choose(merged, extra, context, source)


def _find(kubeconfig: str | Path | None) -> tuple[list[Path] | None, str]:
    if kubeconfig is not None:
        path = Path(kubeconfig).expanduser()
        if not path.exists():
            raise ConfigError(f"kubeconfig {path} does not exist")
        return [path], str(path)
    if variable := os.environ.get("KUBECONFIG"):
        paths = [Path(part).expanduser() for part in variable.split(os.pathsep) if part]
        if found := [path for path in paths if path.exists()]:
            return found, variable
        raise ConfigError(f"kubeconfig {variable} (from $KUBECONFIG) does not exist")
    if os.environ.get("KUBERNETES_SERVICE_HOST") and Path(SERVICE_ACCOUNT, "token").exists():
        return None, IN_CLUSTER
    home = Path("~/.kube/config").expanduser()
    if home.exists():
        return [home], str(home)
    raise ConfigError(
        f"no kubeconfig: give --kubeconfig FILE or set $KUBECONFIG ({home} does not exist,"
        " and this is not a pod of a cluster)"
    )


def _in_cluster() -> KubeAccess:
    try:
        single = KubeConfig.from_service_account().get()
    except (LightkubeError, KeyError, OSError) as error:
        raise ConfigError(f"{IN_CLUSTER}: {error}") from error
    assert single is not None
    return _access(single, {}, IN_CLUSTER)


def _read(path: Path) -> dict[str, Any]:
    try:
        content: object = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"kubeconfig {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"kubeconfig {path} is not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(content, dict) or not {"clusters", "contexts"} <= set(cast(dict[str, Any], content)):
        raise ConfigError(f"kubeconfig {path} has no clusters or no contexts")
    loaded = cast(dict[str, Any], content)
    try:
        _anchor(loaded, path.resolve().parent)
    except (TypeError, KeyError, AttributeError) as error:
        raise ConfigError(f"kubeconfig {path} is malformed: {error!r}") from error
    return loaded


def _anchor(content: dict[str, Any], folder: Path) -> None:
    """Paths in a kubeconfig are relative to that file; made absolute before files are merged."""
    for entry in _entries(content, "clusters"):
        _absolute(entry["cluster"], CLUSTER_FILES, folder)
    for entry in _entries(content, "users"):
        user: dict[str, Any] = entry.get("user") or {}
        entry["user"] = user
        _absolute(user, USER_FILES, folder)
        plugin: dict[str, Any] | None = user.get("exec")
        if plugin and "/" in plugin.get("command", ""):
            _absolute(plugin, ("command",), folder)


def _entries(content: dict[str, Any], section: str) -> list[dict[str, Any]]:
    return content.get(section) or []


def _absolute(section: dict[str, Any], keys: tuple[str, ...], folder: Path) -> None:
    for key in keys:
        if section.get(key):
            section[key] = str(folder / section[key])


def _merge(files: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """One kubeconfig of many, the first entry of a name wins; and each cluster's entry as it was written.

    The latter holds what lightkube's model leaves out (tls-server-name, proxy-url).
    """
    merged: dict[str, Any] = {"clusters": [], "contexts": [], "users": [], "current-context": None}
    for content in files:
        merged["current-context"] = merged["current-context"] or content.get("current-context")
        for section in ("clusters", "contexts", "users"):
            known = {entry["name"] for entry in merged[section]}
            merged[section] += [each for each in _entries(content, section) if each["name"] not in known]
    return merged, {entry["name"]: entry["cluster"] for entry in merged["clusters"]}


def _choose(
    merged: dict[str, Any], extra: dict[str, dict[str, Any]], context: str | None, source: str
) -> KubeAccess:
    names = ", ".join(entry["name"] for entry in merged["contexts"]) or "none"
    wanted = context or merged["current-context"]
    if not wanted:
        raise ConfigError(f"kubeconfig {source} has no current-context (contexts: {names})")
    try:
        config = KubeConfig.from_dict(merged, fname=None)
        if wanted not in config.contexts:
            raise ConfigError(f"kubeconfig {source} has no context {wanted!r} (contexts: {names})")
        single = config.get(wanted)
    except KeyError as error:
        raise ConfigError(f"kubeconfig {source}: context {wanted!r} names {error}, not there") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"kubeconfig {source} is malformed: {error}") from error
    assert single is not None
    return _access(single, extra.get(single.context.cluster, {}), source)


def _access(single: SingleConfig, extra: dict[str, Any], source: str) -> KubeAccess:
    server = single.cluster.server.rstrip("/")
    user = single.user or User()
    if not server.startswith(("https://", "http://")):
        raise ConfigError(f"{source}: server {server!r} is not a URL")
    return KubeAccess(
        server=server,
        ssl=_context(single.cluster, user, source) if server.startswith("https") else None,
        auth=_auth(user, single.cluster, source),
        namespace=single.namespace,
        source=source,
        server_name=extra.get("tls-server-name"),
        proxy=extra.get("proxy-url"),
    )


def _auth(user: User, cluster: Cluster, source: str) -> Auth:
    if user.token_file:
        return FileAuth(Path(user.token_file))
    if user.token:
        return bearer(user.token)
    if user.exec:
        return ExecAuth(user.exec, {"server": cluster.server, "insecure-skip-tls-verify": cluster.insecure})
    if user.username and user.password:
        return basic(user.username, user.password)
    if user.auth_provider:
        raise ConfigError(f"{source}: auth-provider is not supported; use an exec plugin or a token")
    return StaticAuth()


def _context(cluster: Cluster, user: User, source: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context()
        if cluster.certificate_auth_data:
            context = ssl.create_default_context(cadata=_decoded(cluster.certificate_auth_data).decode())
        elif cluster.certificate_auth:
            context = ssl.create_default_context(cafile=cluster.certificate_auth)
        if cluster.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _load_client_certificate(context, user)
    except (OSError, ValueError, binascii.Error) as error:
        raise ConfigError(f"{source}: certificates cannot be loaded: {error}") from error
    return context


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=False)


def _load_client_certificate(context: ssl.SSLContext, user: User) -> None:
    """The ssl module takes certificates only from files, so embedded ones pass through private ones."""
    if not (user.client_cert or user.client_cert_data):
        return
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        certificate, key = user.client_cert, user.client_key
        if user.client_cert_data:
            certificate = _write(folder, "client.crt", user.client_cert_data)
        if user.client_key_data:
            key = _write(folder, "client.key", user.client_key_data)
        assert certificate is not None
        context.load_cert_chain(certificate, key)


def _write(folder: str, name: str, data: str) -> str:
    path = Path(folder, name)
    path.touch(mode=0o600)
    path.write_bytes(_decoded(data))
    return str(path)
