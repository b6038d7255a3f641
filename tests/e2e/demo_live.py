"""What tests of the demos share: a machine of the test's own, as far as a demo can tell, and what is left."""

import os
from pathlib import Path

import psutil


def surroundings(place: Path) -> dict[str, str]:
    """Its environment, with tables of one width on every machine."""
    own = {"FAIRLEAD_CLUSTERS": str(place / "clusters"), "TMPDIR": str(place), "COLUMNS": "100"}
    return os.environ | own


def left_behind(place: Path) -> list[str]:
    """Processes that know the place by their command line, environment or working folder; and its files."""
    found = [str(path) for path in place.rglob("*") if not path.name.startswith(".")]
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values(), process.cwd()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(place) in word for word in words):
            found.append(f"{process.pid} {' '.join(process.cmdline())}")
    return [each for each in found if not each.endswith("/clusters")]
