"""Where log lines go may be full: the program goes on."""

import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from conftest import log_as_at_first
from fairlead.runtime import logs

SAY = """
import structlog
from fairlead.runtime import logs
logs.configure({form!r})
say = structlog.get_logger()
"""
FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_on_a_full_disk_stops_nothing(form: str) -> None:
    script = SAY.format(form=form) + "for n in range(3):\n    say.info('hello', n=n)\nprint('went on')"
    with FULL.open("w") as full:
        run = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=full, text=True)
    assert run.stdout == "went on\n"


@pytest.mark.parametrize("form", ["text", "json"])
def test_lines_are_written_as_they_are_said(form: str) -> None:
    script = SAY.format(form=form) + "say.info('hello', n=1)\nimport os\nos._exit(0)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout == "" and "hello" in run.stderr


def test_what_a_command_configured_in_one_test_hides_no_line_in_the_next() -> None:
    log = structlog.get_logger("any")
    logs.configure("json")
    log.info("first")
    log_as_at_first()
    with structlog.testing.capture_logs() as lines:
        log.info("second")
    assert [line["event"] for line in lines] == ["second"]
