"""The control plane's binaries: found in $KUBEBUILDER_ASSETS or the cache, else built from Go modules.

Called by `up`, and by plugins/build.py for the kube-scheduler with the recorder's plugin. The versions are
those of the go.mod files, which with go.sum make a build reproducible. It must not fetch anything but Go
modules, and only through the user's own Go settings.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO

from fairlead.localcluster.errors import ClusterError
from fairlead.localcluster.paths import cache_root, locked
from fairlead.localcluster.progress import Progress, Step

GO_NEEDED = (1, 26)
KUBERNETES = "v1.36.3"
HOW = (
    "install Go 1.26 or later (https://go.dev/dl), or point KUBEBUILDER_ASSETS at a folder with the binaries"
)


@dataclass(frozen=True)
class Recipe:
    """One go.mod and what is built from it: the binary's name -> the package of its main.

    A name that ends with .test is the package's tests as a binary. `source` is a module with code of its own,
    `beside` are the folders that its go.mod points to; `tags` choose files, as those of `go build`.
    """

    name: str
    version: str
    packages: dict[str, str]
    linker: str = "-s -w"
    source: Path | None = None
    beside: tuple[Path, ...] = ()
    tags: tuple[str, ...] = ()

    def files(self) -> dict[str, bytes]:
        if self.source is not None:
            folders = (self.source, *self.beside)
            found = [path for each in folders for path in (*each.glob("go.*"), *each.rglob("*.go"))]
            return {os.path.relpath(path, self.source): path.read_bytes() for path in found}
        folder = resources.files("fairlead.localcluster").joinpath("gomod", self.name)
        return {name: folder.joinpath(name).read_bytes() for name in ("go.mod", "go.sum")}

    def key(self, go: str) -> str:
        """The name of its folder in the cache: changes with anything that changes the binaries."""
        digest = hashlib.sha256(repr((self.packages, self.linker, *self.tags)).encode())
        for _, data in sorted(self.files().items()):
            digest.update(data)
        return f"{self.name}-{self.version}-{go}-{digest.hexdigest()[:12]}"


RECIPES = (
    Recipe("etcd", "v3.6.16", {"etcd": "go.etcd.io/etcd/server/v3"}),
    Recipe(
        "kubernetes",
        KUBERNETES,
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        },
        f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES}",
    ),
    Recipe("kwok", "v0.8.0", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
)


def scheduler_plugin(source: Path) -> Recipe:
    """kube-scheduler with the recorder's plugin, the same with one plugin more, and the first's own tests.

    The version and the flags are those of the control plane's, so that Go compiles what they share once.
    """
    packages = {
        "kube-scheduler-sniffer": "./cmd/kube-scheduler-sniffer",
        "kube-scheduler-sniffer-gang": "./cmd/kube-scheduler-sniffer-gang",
        "sniffer.test": "./sniffer",
    }
    linker = f"-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES}"
    return Recipe("kube-scheduler-sniffer", KUBERNETES, packages, linker, source)


def find(names: Iterable[str], progress: Progress, recipes: Iterable[Recipe] = RECIPES) -> dict[str, str]:
    """The path of each binary; what is missing is built first, which takes minutes."""
    found = _given(names)
    missing = [name for name in names if name not in found]
    if not missing:
        return found
    go = go_version()
    for recipe in recipes:
        wanted = [name for name in missing if name in recipe.packages]
        if wanted:
            folder = _cached(recipe, go, progress)
            found |= {name: str(folder / name) for name in wanted}
    return found


def _given(names: Iterable[str]) -> dict[str, str]:
    """Those in $KUBEBUILDER_ASSETS, which may hold only some."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if not assets:
        return {}
    folder = Path(assets).expanduser().absolute()
    if not folder.is_dir():
        raise ClusterError(f"KUBEBUILDER_ASSETS is {folder}, which is no folder; correct or unset it")
    return {name: str(folder / name) for name in names if os.access(folder / name, os.X_OK)}


def go_version() -> str:
    """The version of the installed Go, such as go1.26.8; an error that says what to install if too old."""
    go = shutil.which("go")
    if not go:
        raise ClusterError(f"no Go on PATH, but the control plane's binaries must be built: {HOW}")
    # Away from any go.mod, whose toolchain line would change the answer.
    answer = subprocess.run([go, "env", "GOVERSION"], cwd="/", capture_output=True, text=True, check=False)
    version = answer.stdout.strip()
    match = re.match(r"go(\d+)\.(\d+)", version)
    if not match:
        raise ClusterError(f"{go} does not tell its version ({answer.stderr.strip() or version!r}): {HOW}")
    if (int(match[1]), int(match[2])) < GO_NEEDED:
        raise ClusterError(f"{go} is {version}, too old for Kubernetes {KUBERNETES}: {HOW}")
    return version.split()[0]


def _cached(recipe: Recipe, go: str, progress: Progress) -> Path:
    folder = cache_root() / "bin" / recipe.key(go)
    if folder.is_dir():
        return folder
    lock = folder.with_name(f".{folder.name}.lock")
    waiting = f"another process is building {recipe.name}; waiting for it"
    with locked(lock, lambda: progress.say(f"  {waiting}"), what=f"the build of {recipe.name}"):
        if not folder.is_dir():
            with progress.step(f"build {recipe.name} {recipe.version} (once, takes minutes)") as step:
                _build(recipe, folder, step)
    return folder


def _build(recipe: Recipe, folder: Path, step: Step) -> None:
    """Build into a temporary folder beside the final one, which then appears in one piece or not at all."""
    with tempfile.TemporaryDirectory(prefix=".build-", dir=folder.parent) as temporary:
        source, output = Path(temporary) / "src", Path(temporary) / "bin"
        source.mkdir()
        output.mkdir()
        for name, data in recipe.files().items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(data)
        for binary, package in recipe.packages.items():
            step.note = binary
            _compile(recipe, package, source, output / binary, step)
        output.rename(folder)


def _compile(recipe: Recipe, package: str, source: Path, output: Path, step: Step) -> None:
    # A go.work or flags meant for other modules must not reach in; no C compiler is needed.
    environment = {**os.environ, "GOWORK": "off", "GO111MODULE": "on", "CGO_ENABLED": "0"}
    options = ["-v", "-trimpath", "-buildvcs=false", "-mod=readonly", f"-ldflags={recipe.linker}"]
    options += [f"-tags={','.join(recipe.tags)}"] if recipe.tags else []
    verb = ["test", "-c", "-vet=off"] if output.suffix == ".test" else ["build"]
    process = subprocess.Popen(
        ["go", *verb, *options, "-o", str(output), package],
        cwd=source,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    lines: list[str] = []
    reader = threading.Thread(target=_follow, args=(process.stderr, lines, output.name, step), daemon=True)
    reader.start()
    try:
        code = process.wait()
    except BaseException:
        # The whole group: go runs compilers of its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    reader.join()
    if code:
        raise ClusterError(
            f"go {verb[0]} {package} failed with {code}; is the Go module proxy reachable (go env GOPROXY) "
            "and enough disk and memory free?",
            "\n".join(lines[-15:]),
        )


def _follow(stream: IO[str], lines: list[str], binary: str, step: Step) -> None:
    """Go names each package when it begins to compile it: that is the progress to show."""
    with stream:
        for count, line in enumerate(stream, 1):
            lines.append(line.rstrip())
            step.note = f"{binary}: {count} packages"
