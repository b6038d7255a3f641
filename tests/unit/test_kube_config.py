"""Kubeconfig files and credentials: what is found, and what is said when it is not right."""

import os
import ssl
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.kube.access import check_access
from fairlead.kube.auth import FileAuth
from fairlead.kube.client import ApiClient
from fairlead.kube.config import load
from fairlead.kube.errors import ConfigError, KubeError, Unreachable
from kube_fake import FakeApi, answers


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi() as fake:
        yield fake


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig and no cluster around."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def content(name: str = "one", server: str = "http://127.0.0.1:1", **user: Any) -> dict[str, Any]:
    return {
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "users": [{"name": name, "user": user}],
    }


def write(path: Path, thing: Any) -> Path:
    path.write_text(thing if isinstance(thing, str) else yaml.safe_dump(thing))
    return path


async def test_the_path_given_wins_then_the_variable_then_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "home/.kube").mkdir(parents=True)
    write(tmp_path / "home/.kube/config", content(server="http://home"))
    assert load().server == "http://home"
    monkeypatch.setenv("KUBECONFIG", str(write(tmp_path / "env", content(server="http://env"))))
    assert load().server == "http://env"
    assert load(write(tmp_path / "given", content(server="http://given/"))).server == "http://given"


async def test_several_files_are_merged_and_the_first_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = write(tmp_path / "a", content("one", "http://a"))
    both = content("one", "http://hidden")
    both["clusters"] += content("two", "http://b")["clusters"]
    both["contexts"] += content("two")["contexts"]
    both["users"] += content("two")["users"]
    second = write(tmp_path / "b", both)
    missing = tmp_path / "c"
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (first, missing, second))))
    assert load().server == "http://a"
    assert load(context="two").server == "http://b"


@pytest.mark.parametrize(
    ("thing", "said"),
    [
        ("a: [", "is not YAML"),
        ("", "has no clusters"),
        ("[1]", "has no clusters"),
        ({"clusters": [], "contexts": []}, "no current-context"),
        ({**content(), "current-context": "other"}, "no context 'other' (contexts: one)"),
        ({**content(), "clusters": []}, "names 'one'"),
        ({**content(), "clusters": [5]}, "malformed"),
        ({**content(), "clusters": [{"name": "one", "cluster": {"server": 5}}]}, "malformed"),
        (content(server="127.0.0.1:80"), "is not a URL"),
        (content(**{"auth-provider": {"name": "gcp"}}), "auth-provider is not supported"),
        (content(exec={"apiVersion": "client.authentication.k8s.io/v9", "command": "x"}), "not supported"),
    ],
)
async def test_mistakes_are_named_with_the_file(tmp_path: Path, thing: Any, said: str) -> None:
    path = write(tmp_path / "kubeconfig", thing)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert (said in str(caught.value) and str(path) in str(caught.value)) or "plugin" in str(caught.value)


async def test_no_kubeconfig_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no kubeconfig: give --kubeconfig"):
        load()
    with pytest.raises(ConfigError, match="does not exist"):
        load(tmp_path / "nowhere")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"from \$KUBECONFIG"):
        load()


async def test_a_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)


async def test_certificates_that_cannot_be_read(tmp_path: Path) -> None:
    bad = content(server="https://127.0.0.1:1")
    bad["clusters"][0]["cluster"]["certificate-authority"] = "missing.crt"
    with pytest.raises(ConfigError, match="certificates cannot be loaded"):
        load(write(tmp_path / "a", bad))
    bad = content(server="https://127.0.0.1:1", **{"client-certificate-data": "bm90", "client-key-data": "!"})
    with pytest.raises(ConfigError, match="certificates cannot be loaded"):
        load(write(tmp_path / "b", bad))


async def test_a_token_file_is_relative_and_read_again_after_rotation(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    access = load(write(tmp_path / "kubeconfig", content(tokenFile="token")))
    assert await access.auth.header() == "Bearer first"
    assert isinstance(access.auth, FileAuth)
    (tmp_path / "new").write_text("second")
    (tmp_path / "new").rename(tmp_path / "token")
    assert await access.auth.header() == "Bearer first"
    assert access.auth.refused()
    assert await access.auth.header() == "Bearer second"
    (tmp_path / "token").unlink()
    assert not access.auth.refused()
    assert await access.auth.header() == "Bearer second"


def plugin(folder: Path, body: str) -> dict[str, Any]:
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin", "args": ["get"]}


async def test_a_credential_plugin_is_run_again_when_its_token_is_refused(
    tmp_path: Path, api: FakeApi
) -> None:
    body = f"""
import json, os, sys
assert json.loads(os.environ["KUBERNETES_EXEC_INFO"])["kind"] == "ExecCredential" and sys.argv[1:] == ["get"]
runs = {str(tmp_path / "runs")!r}
open(runs, "a").write("x")
token = "t" + str(len(open(runs).read()))
print(json.dumps({{"kind": "ExecCredential", "status": {{"token": token}}}}))"""
    access = load(write(tmp_path / "kubeconfig", content(server=api.url, exec=plugin(tmp_path, body))))
    client = ApiClient(access)
    await client.get("/api/v1/pods")
    await client.get("/api/v1/pods")
    api.fault("GET", "/pods", answers(401))
    await client.get("/api/v1/pods")
    assert api.tokens == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2"]
    await client.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import sys; sys.exit('no login')", "ended with 1: no login"),
        ("print('secret')", "did not print an ExecCredential"),
        ('print(\'{"status":{"clientCertificateData":"x"}}\')', "only tokens are supported"),
    ],
)
async def test_a_credential_plugin_that_fails(tmp_path: Path, body: str, said: str) -> None:
    access = load(write(tmp_path / "kubeconfig", content(exec=plugin(tmp_path, body))))
    with pytest.raises(ConfigError) as caught:
        await access.auth.header()
    assert said in str(caught.value) and "secret" not in str(caught.value)


async def test_a_credential_plugin_that_is_not_there(tmp_path: Path) -> None:
    missing = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "no-such-plugin",
        "installHint": "install it",
    }
    access = load(write(tmp_path / "kubeconfig", content(exec=missing)))
    with pytest.raises(ConfigError, match=r"cannot be run.*install it"):
        await access.auth.header()


# -- the check at start ------------------------------------------------------------------------------


async def complaint(api: FakeApi, **access: Any) -> str:
    client = ApiClient(api.access._replace(**access), request_timeout=5.0)
    with pytest.raises(KubeError) as caught:
        await check_access(client)
    await client.close()
    return str(caught.value)


async def test_a_server_that_does_not_answer(api: FakeApi) -> None:
    assert "no answer from the API server http://127.0.0.1:1" in await complaint(
        api, server="http://127.0.0.1:1"
    )


async def test_credentials_that_are_not_accepted(api: FakeApi) -> None:
    api.fault("POST", "selfsubjectaccessreviews", *[answers(401)] * 50)
    text = await complaint(api)
    assert "expired" in text and "(401)" in text and "good" not in text


async def test_an_account_that_may_not_even_ask(api: FakeApi) -> None:
    api.fault("POST", "selfsubjectaccessreviews", *[answers(403, message="anonymous cannot create")] * 50)
    text = await complaint(api)
    assert "anonymous cannot create" in text and "RBAC" in text


async def test_a_server_that_speaks_no_tls(api: FakeApi) -> None:
    access = load_https(api)
    client = ApiClient(access, request_timeout=5.0)
    with pytest.raises(Unreachable):
        await client.get("/version")
    await client.close()


def load_https(api: FakeApi) -> Any:
    return api.access._replace(server=api.url.replace("http", "https"), ssl=ssl.create_default_context())


async def test_overload_of_a_read_is_waited_out(api: FakeApi) -> None:
    api.fault("GET", "/pods", answers(429, **{"Retry-After": "1"}))
    client = ApiClient(api.access)
    assert b"items" in await client.get("/api/v1/pods")
    assert len(api.requests) == 2
    await client.close()
