"""The schedulers under measurement as processes: started, ready, measured, ended by the benchmark itself."""

import contextlib
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from typing import NamedTuple

import psutil

from fairlead.localcluster import Cluster
from fairlead.runtime import address

READY_WITHIN = 60.0


class Usage(NamedTuple):
    """CPU seconds and resident bytes of a process and of its PostgreSQL."""

    cpu: float = 0.0
    rss: int = 0
    store_cpu: float = 0.0
    store_rss: int = 0


class Running:
    """One scheduler process; `usage` may be asked at any time."""

    def __init__(
        self, process: "psutil.Process | None", url: str = "", data: pathlib.Path | None = None
    ) -> None:
        self._process = process
        self.url = url
        """Where Fairlead answers; "" for others."""
        self.data = data
        """Fairlead's data folder; None for others."""

    def usage(self) -> Usage:
        if self._process is None:
            return Usage()
        times = self._process.cpu_times()
        cpu = rss = 0.0
        for child in self._process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                spent = child.cpu_times()
                cpu += spent.user + spent.system
                rss += child.memory_info().rss
        return Usage(times.user + times.system, self._process.memory_info().rss, cpu, int(rss))


@contextlib.contextmanager
def null(cluster: Cluster) -> Generator[Running]:
    command = [sys.executable, "-m", "bench.live.null_scheduler", str(cluster.kubeconfig)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield Running(psutil.Process(process.pid))


@contextlib.contextmanager
def kube_scheduler(cluster: Cluster) -> Generator[Running]:
    """The cluster's own; not running while others are measured."""
    cluster.start("kube-scheduler")
    try:
        yield Running(psutil.Process(cluster.pid("kube-scheduler")))
    finally:
        cluster.stop("kube-scheduler")


@contextlib.contextmanager
def fairlead(cluster: Cluster, options: tuple[str, ...] = (), kubeconfig: str = "") -> Generator[Running]:
    with tempfile.TemporaryDirectory(prefix="fairlead-bench-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        data = folder / "data"
        program = pathlib.Path(sys.executable).parent / "fairlead"
        command = [str(program), "scheduler", "--data-dir", str(data)]
        command += ["--kubeconfig", kubeconfig or str(cluster.kubeconfig), *options]
        with (folder / "log").open("wb") as log, ended(subprocess.Popen(command, stderr=log)) as process:
            url = _wait_until_ready(data, process, folder / "log")
            yield Running(psutil.Process(process.pid), url, data)


def _wait_until_ready(data: pathlib.Path, process: "subprocess.Popen[bytes]", log: pathlib.Path) -> str:
    """The URL it answers at."""

    deadline = time.monotonic() + READY_WITHIN
    while time.monotonic() < deadline and process.poll() is None:
        found = address.read(data)
        if found is not None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{found.url}/readyz", timeout=5):
                return found.url
        time.sleep(0.1)
    raise SystemExit(f"fairlead scheduler did not get ready:\n{log.read_text()[-3000:]}")


@contextlib.contextmanager
def ended(process: "subprocess.Popen[bytes]") -> Generator["subprocess.Popen[bytes]"]:
    """The process, told to end behind the `with`, and killed if it does not."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
