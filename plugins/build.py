"""Builds into the cache of the control plane what is tested with it: kube-scheduler with the recorder's
plugin, an older one with coscheduling beside it, and the Spark operator as its makers have it. Prints where
they are.

Run by `make plugin`, and by the tests by way of `built`, `coscheduling` and `spark_operator`: for them it is
there already.
"""

import json
import re
import subprocess
from pathlib import Path

from fairlead.localcluster import binaries
from fairlead.localcluster.progress import Progress

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER / "kube-scheduler"
COSCHEDULING = FOLDER / "coscheduling"
COSCHEDULING_MODULE = "sigs.k8s.io/scheduler-plugins"
SPARK = FOLDER / "spark-operator"
SPARK_MODULE = "github.com/kubeflow/spark-operator/v2"
_CRDS = Path("config/crd/bases")
_KUBERNETES_134 = re.compile(r"k8s\.io/kubernetes => k8s\.io/kubernetes (v1\.34\.\d+)$", re.MULTILINE)


def built(progress: Progress) -> dict[str, str]:
    """The path of each binary of kube-scheduler's."""
    recipe = binaries.scheduler_plugin(SOURCE)
    return binaries.find(tuple(recipe.packages), progress, (recipe,))


def coscheduling(progress: Progress) -> dict[str, str]:
    """The paths of kube-scheduler 1.34 with the plugin and coscheduling, and of the plugin's tests for it."""
    (version,) = _KUBERNETES_134.findall((COSCHEDULING / "go.mod").read_text(encoding="utf-8"))
    packages = {
        "kube-scheduler-sniffer-coscheduling": ".",
        "sniffer-134.test": "fairlead.dev/kube-scheduler-sniffer/sniffer",
    }
    linker = f"-s -w -X k8s.io/component-base/version.gitVersion={version}"
    recipe = binaries.Recipe(
        "kube-scheduler-sniffer-coscheduling",
        version,
        packages,
        linker,
        COSCHEDULING,
        beside=(SOURCE,),
        tags=("kube134",),
    )
    return binaries.find(tuple(packages), progress, (recipe,))


def coscheduling_crds() -> list[Path]:
    """The CustomResourceDefinition of PodGroup, as scheduler-plugins has it."""
    return [_folder(COSCHEDULING, COSCHEDULING_MODULE) / _CRDS / "scheduling.x-k8s.io_podgroups.yaml"]


def spark_operator(progress: Progress) -> str:
    """The path of the operator's binary; its version is that of go.mod."""
    (version,) = [
        line.split()[1]
        for line in (SPARK / "go.mod").read_text(encoding="utf-8").splitlines()
        if line.split()[:1] == [SPARK_MODULE]
    ]
    packages = {"spark-operator": f"{SPARK_MODULE}/cmd/operator"}
    recipe = binaries.Recipe("spark-operator", version, packages, source=SPARK)
    return binaries.find(packages, progress, (recipe,))["spark-operator"]


def spark_crds() -> list[Path]:
    """The operator's own CustomResourceDefinitions."""
    return sorted((_folder(SPARK, SPARK_MODULE) / _CRDS).glob("*.yaml"))


def _folder(source: Path, module: str) -> Path:
    """Where a module is in Go's cache, in the version of the go.mod in `source`."""
    command = ["go", "mod", "download", "-json", module]
    answer = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    return Path(json.loads(answer.stdout)["Dir"])


if __name__ == "__main__":
    found = [*built(Progress()).values(), *coscheduling(Progress()).values(), spark_operator(Progress())]
    for path in found:
        Progress().console.print(path, markup=False, soft_wrap=True)
