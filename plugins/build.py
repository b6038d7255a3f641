"""Builds into the cache of the control plane what is tested with it: kube-scheduler with the recorder's
plugin, and the Spark operator as its makers have it. Prints where they are.

Run by `make plugin`, and by the tests by way of `built` and `spark_operator`: for them it is there already.
"""

import json
import subprocess
from pathlib import Path

from fairlead.localcluster import binaries
from fairlead.localcluster.progress import Progress

FOLDER = Path(__file__).resolve().parent
SOURCE = FOLDER / "kube-scheduler"
SPARK = FOLDER / "spark-operator"
SPARK_MODULE = "github.com/kubeflow/spark-operator/v2"
_CRDS = Path("config/crd/bases")


def built(progress: Progress) -> dict[str, str]:
    """The path of each binary of kube-scheduler's."""
    recipe = binaries.scheduler_plugin(SOURCE)
    return binaries.find(tuple(recipe.packages), progress, (recipe,))


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
    """The operator's own CustomResourceDefinitions, in Go's cache of modules."""
    command = ["go", "mod", "download", "-json", SPARK_MODULE]
    answer = subprocess.run(command, cwd=SPARK, capture_output=True, text=True, check=True)
    return sorted((Path(json.loads(answer.stdout)["Dir"]) / _CRDS).glob("*.yaml"))


if __name__ == "__main__":
    for path in [*built(Progress()).values(), spark_operator(Progress())]:
        Progress().console.print(path, markup=False, soft_wrap=True)
