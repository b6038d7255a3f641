"""Completion of `kubectl fairlead …`: what kubectl runs as `kubectl_complete-fairlead WORDS…`.

A console script. kubectl passes the words after the plugin's name, the last one unfinished (maybe
empty), and reads one suggestion per line, then a colon and a number that tells the shell what to do
(4: offer no files, 0: offer files). Must never fail loudly: it runs while somebody types.
"""

import contextlib
import io
import os
import shlex
import sys

import typer

from fairlead.cli.main import app

_NO_FILES, _FILES = 4, 0


def suggestions(given: list[str]) -> list[str]:
    """Suggestions for the last word: the answer to the question that bash would ask of `fairlead`."""
    line = ["fairlead", *given]
    os.environ["_FAIRLEAD_COMPLETE"] = "complete_bash"
    os.environ["COMP_WORDS"] = shlex.join(line)
    os.environ["COMP_CWORD"] = str(max(len(line) - 1, 1))
    answer = io.StringIO()
    with contextlib.redirect_stdout(answer), contextlib.suppress(SystemExit):
        app(prog_name="fairlead")
    return answer.getvalue().split()


def main() -> None:
    """Print the suggestions for the words of the command line."""
    given = sys.argv[1:] or [""]
    found = suggestions(given)
    wants_file = not found and len(given) > 1 and given[-2].startswith("--")
    typer.echo("\n".join([*found, f":{_FILES if wants_file else _NO_FILES}"]))
