"""The extender over real TLS sockets: only who shows a certificate of the right authority may ask."""

import asyncio
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.api.apart import OPEN, Apart
from fairlead.api.server import HttpServer, ServerError
from fairlead.app_esi import EsiOptions
from fairlead.cli.errors import CliError
from fairlead.cli.scheduler import scheduler
from fairlead.localcluster import pki
from fairlead.runtime import eventloop
from fairlead.runtime.errors import ConfigError

HERE = "127.0.0.1:0"
DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
DOCUMENT = DEPLOY.parent / "docs" / "extender.md"
Body = Coroutine[Any, Any, None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The keys and certificates of an authority, by its name."""

    def make(name: str) -> Path:
        if name not in authorities:
            authorities[name] = tmp_path_factory.mktemp(name)
            pki.create(authorities[name])
        return authorities[name]

    authorities: dict[str, Path] = {}
    return make


@pytest.fixture
def ours(made: Callable[[str], Path]) -> Path:
    return made("ours")


@pytest.fixture
def theirs(made: Callable[[str], Path]) -> Path:
    return made("theirs")


@pytest.fixture
def folder(tmp_path: Path, ours: Path) -> Path:
    """What `--extender-tls` is given."""
    lay(tmp_path, ours)
    return tmp_path


def lay(folder: Path, authority: Path) -> None:
    for name, source in (("tls.crt", "server.crt"), ("tls.key", "server.key"), ("ca.crt", "ca.crt")):
        shutil.copyfile(authority / source, folder / name)


class Asked:
    """A door that counts who comes through."""

    def __init__(self, apart: Apart) -> None:
        self.times = 0
        server = apart.server([Route("/extender/bind", self.bind, methods=["POST"])])
        assert server is not None
        self.server: HttpServer = server

    async def bind(self, _: Request) -> Response:
        self.times += 1
        return Response(b"{}")


@asynccontextmanager
async def serving(apart: Apart) -> AsyncIterator[Asked]:
    asked = Asked(apart)
    await asked.server.start()
    try:
        yield asked
    finally:
        await asked.server.stop()


async def ask(url: str, trusted: Path, client: Path | None) -> int:
    """The status of a question by who trusts one authority and has a certificate of another one."""
    context = ssl.create_default_context(cafile=trusted / "ca.crt")
    if client is not None:
        context.load_cert_chain(client / "scheduler.crt", client / "scheduler.key")
    async with httpx.AsyncClient(verify=context, trust_env=False, timeout=60) as http:
        return (await http.post(f"{url}/extender/bind", content=b"{}")).status_code


async def refused(url: str, trusted: Path, client: Path | None) -> None:
    with pytest.raises(httpx.TransportError):
        await ask(url, trusted, client)


# -- who may ask -----------------------------------------------------------------------------------------


async def test_a_certificate_of_its_authority_lets_kube_scheduler_in(folder: Path, ours: Path):
    async with serving(Apart(HERE, folder)) as asked:
        assert asked.server.url.startswith("https://127.0.0.1:")
        assert await ask(asked.server.url, ours, ours) == 200
        assert asked.times == 1


async def test_nobody_without_a_certificate_or_with_another_authoritys_is_asked_what_he_wants(
    folder: Path, ours: Path, theirs: Path
):
    async with serving(Apart(HERE, folder)) as asked:
        url = asked.server.url
        await refused(url, ours, None)
        await refused(url, ours, theirs)
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            with pytest.raises(httpx.TransportError):
                await http.post(url.replace("https", "http") + "/extender/bind", content=b"{}")
        assert asked.times == 0
        assert await ask(url, ours, ours) == 200


@pytest.mark.parametrize("run", [asyncio.run, eventloop.run])
def test_renewed_certificates_count_from_the_next_connection_on(
    folder: Path, ours: Path, theirs: Path, run: Callable[[Body], None]
):
    async def body() -> None:
        async with serving(Apart(HERE, folder)) as asked:
            url = asked.server.url
            assert await ask(url, ours, ours) == 200
            (folder / "tls.key").write_text("broken", encoding="utf-8")
            assert await ask(url, ours, ours) == 200  # what can be used is kept
            lay(folder, theirs)
            assert await ask(url, theirs, theirs) == 200
            await refused(url, theirs, ours)

    run(body())


def test_the_commands_of_the_documentation_make_files_that_work(tmp_path: Path):
    text = DOCUMENT.read_text(encoding="utf-8")
    commands = next(each for each in re.findall(r"```sh\n(.*?)```", text, re.S) if "openssl" in each)
    commands = commands.replace("10.0.0.5", "127.0.0.1")
    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, capture_output=True, check=True, timeout=120)

    async def body() -> None:
        async with serving(Apart(HERE, tmp_path)) as asked:
            assert await ask(asked.server.url, tmp_path, tmp_path) == 200
            await refused(asked.server.url, tmp_path, None)

    asyncio.run(body())
    (entry,) = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", text, re.S)[0])["extenders"]
    assert {Path(file).name for file in entry["tlsConfig"].values()} <= {
        file.name for file in tmp_path.iterdir()
    }
    deployed = (DEPLOY / "kube-scheduler-esi-config.yaml").read_text(encoding="utf-8")
    (whole,) = yaml.safe_load(re.sub(r"^    # (enableHTTPS|tlsConfig|  )", r"    \1", deployed, flags=re.M))[
        "extenders"
    ]
    assert {key: whole[key] for key in ("enableHTTPS", "tlsConfig")} == {
        key: entry[key] for key in ("enableHTTPS", "tlsConfig")
    }


async def test_without_tls_it_is_for_this_machine():
    async with serving(Apart(HERE)) as asked:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            assert (await http.post(f"{asked.server.url}/extender/bind")).status_code == 200
            stranger = {"host": "evil.example"}
            assert (await http.post(f"{asked.server.url}/extender/bind", headers=stranger)).status_code == 403
        assert asked.times == 1


# -- what is refused before anything listens ---------------------------------------------------------------


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key", "ca.crt"])
def test_a_folder_that_lacks_a_file_is_told(folder: Path, missing: str):
    (folder / missing).unlink()
    what = "ca.crt" if missing == "ca.crt" else "tls.crt and tls.key"
    with pytest.raises(ServerError, match=f"^{what} in {folder} cannot be used: No such file or directory; "):
        Apart(HERE, folder).check()


def test_files_that_cannot_be_used_are_told(folder: Path, theirs: Path):
    shutil.copyfile(theirs / "server.key", folder / "tls.key")
    with pytest.raises(ServerError, match="cannot be used: KEY_VALUES_MISMATCH; needed are"):
        Apart(HERE, folder).check()
    key = serialization.load_pem_private_key((folder / "tls.key").read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (folder / "tls.key").write_bytes(locked)
    with pytest.raises(ServerError, match="without a password"):
        Apart(HERE, folder).check()
    lay(folder, theirs)
    (folder / "ca.crt").write_text("no certificate", encoding="utf-8")
    with pytest.raises(ServerError, match=r"ca\.crt in .* cannot be used"):
        Apart(HERE, folder).check()


def test_an_address_that_others_reach_needs_tls_or_a_word(folder: Path):
    with pytest.raises(ServerError, match="add --extender-tls FOLDER, or --extender-allow-remote to listen"):
        Apart("0.0.0.0:8443").check()
    Apart("0.0.0.0:8443", folder).check()
    Apart("0.0.0.0:8443", remote=True).check()
    with pytest.raises(ServerError, match="'8443' is not HOST:PORT"):
        Apart("8443").check()
    with pytest.raises(ServerError, match="--extender-tls needs an address of its own"):
        Apart("", folder).check()


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "fairlead.example"])
def test_the_http_server_has_the_verbs_only_where_none_but_this_machine_can_ask(host: str):
    with pytest.raises(ConfigError, match=f"--host {host} .* --extender HOST:PORT with --extender-tls"):
        EsiOptions(binder="extender").check(host)
    EsiOptions(binder="extender").check("127.0.0.1")
    EsiOptions(binder="extender", extender=Apart(HERE)).check(host)
    EsiOptions(binder="extender", extender=Apart(remote=True)).check(host)
    EsiOptions().check(host)


def test_who_may_be_asked_by_anybody_says_so(folder: Path):
    assert Apart(remote=True).warning("10.1.2.3") == OPEN == Apart("10.1.2.3:1", remote=True).warning("::1")
    assert Apart().warning("127.0.0.1") == Apart("10.1.2.3:1", folder).warning("10.1.2.3") == ""


def test_options_of_the_extender_need_it():
    for given in ({"extender": HERE}, {"extender_tls": Path()}, {"extender_allow_remote": True}):
        with pytest.raises(CliError, match="need --esi-binder extender"):
            scheduler(esi=True, **given)  # type: ignore[arg-type]
