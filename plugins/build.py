"""Builds kube-scheduler with the recorder's plugin into the cache of the control plane; prints where it is.

Run by `make plugin`, and by the tests by way of `built`, for whom it is then there already.
"""

from pathlib import Path

from fairlead.localcluster import binaries
from fairlead.localcluster.progress import Progress

SOURCE = Path(__file__).resolve().parent / "kube-scheduler"


def built(progress: Progress) -> dict[str, str]:
    """The path of each binary."""
    recipe = binaries.scheduler_plugin(SOURCE)
    return binaries.find(tuple(recipe.packages), progress, (recipe,))


if __name__ == "__main__":
    for path in built(Progress()).values():
        Progress().console.print(path, markup=False, soft_wrap=True)
