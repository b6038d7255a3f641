"""What all tests share: hypothesis profiles, logging as it was, and the oracle data."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

import fairlead

# Sets the environment that libraries read as they are loaded, which tests themselves may load first.
assert fairlead.__version__

# The same examples every time: a red run must be red again for whoever looks into it. New seeds are
# for `FAIRLEAD_HYPOTHESIS=explore` (or `long`), whose failures become ordinary examples.
# No test fails of a slow machine: neither an example nor the drawing of it has a time limit.
_ANY_PACE: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ci", derandomize=True, print_blob=True, **_ANY_PACE)
settings.register_profile("explore", print_blob=True, **_ANY_PACE)
settings.register_profile("long", print_blob=True, max_examples=2000, **_ANY_PACE)
settings.load_profile(os.environ.get("FAIRLEAD_HYPOTHESIS", "ci"))


# What is printed must not depend on whose terminal, shell or time zone this is.
for _name in ("COLUMNS", "LINES", "FORCE_COLOR", "TTY_COMPATIBLE", "FAIRLEAD_SERVER", "FAIRLEAD_TOKEN"):
    os.environ.pop(_name, None)
os.environ["TZ"] = "UTC"
time.tzset()


_configure = structlog.configure


def _without_caches(*given: Any, **named: Any) -> None:
    """A logger that a command within a test cached would keep that command's processors for all later tests,
    whose `capture_logs` would then see nothing of it."""
    _configure(*given, **named | {"cache_logger_on_first_use": False})


structlog.configure = _without_caches


def log_as_at_first() -> None:
    """To the stderr of whichever test runs. By itself structlog writes to stdout, where answers are read."""
    structlog.reset_defaults()
    structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(sys.stderr))


def pytest_runtest_setup() -> None:
    log_as_at_first()


def pytest_runtest_teardown() -> None:
    """A command that ran within the test has sent all logging to that test's own stderr, which is closed by
    the time another test logs."""
    log_as_at_first()


def _required() -> bool:
    return os.environ.get("FAIRLEAD_REQUIRE_DATA", "") not in ("", "0")


@pytest.fixture
def oracle_data(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """Gives the path of a file or folder below $FAIRLEAD_TEST_DATA, for example `swf/tiny.jsonl`.

    The data may not be released with the project, so most machines have none: the test is then skipped
    and named. With FAIRLEAD_REQUIRE_DATA=1 that is a failure, so that a run meant to be complete is.
    """

    def find(name: str) -> Path:
        folder = os.environ.get("FAIRLEAD_TEST_DATA", "")
        if not folder:
            text = f"{request.node.name} needs {name} below $FAIRLEAD_TEST_DATA, which is not set"
            if _required():
                pytest.fail(text, pytrace=False)
            pytest.skip(text)
        path = Path(folder).expanduser().absolute() / name
        if not path.exists():
            # A wrong path is a mistake of the caller's, never a reason to skip.
            pytest.fail(f"{request.node.name} needs {path}, which does not exist", pytrace=False)
        return path

    return find
