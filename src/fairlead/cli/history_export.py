"""`fairlead history export --format trace` and `swf`: the recorded cluster as a workload for a simulator.

Called by `cli.history` by way of its FORMATS. `fairlead simulate` plays both; a trace has the nodes, too.
"""

from collections.abc import Callable, Iterator

from fairlead.cli.errors import CliError
from fairlead.cli.history_options import Question
from fairlead.cli.history_sheet import Target
from fairlead.cli.recorded import Meant, as_swf, as_trace
from fairlead.store.folder import recorded_data_dir


def trace(question: Question, of: str, every: int) -> None:
    """Jobs, nodes and settings, one JSON object a line."""
    _write(question, of, every, as_trace)


def swf(question: Question, of: str, every: int) -> None:
    """One line of 18 fields per job."""
    _write(question, of, every, as_swf)


def _write(question: Question, of: str, every: int, lines: Callable[[Meant], Iterator[bytes]]) -> None:
    """A workload is that of a whole cluster: only the time and whose pods are meant may be said."""
    asked = question.asked
    if every or of != "pods":
        raise CliError("--of and --every do not go with a workload: leave them out")
    if any((asked.namespace, asked.owner, asked.labels, asked.node, asked.group)):
        raise CliError("a workload is of the whole cluster: give only --since, --until and --scheduler")
    data = question.data or recorded_data_dir()
    found = lines(Meant(data, question.url, asked.since, asked.until, asked.scheduler))
    with Target(question.out, question.output) as out:
        for line in found:
            out.write(line)
