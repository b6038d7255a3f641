"""A scenario played for `fairlead simulate`: its groups as rows, and the expectation that was not met.

Called by `cli.simulate_run`. The scenario itself is `sim.scenario`'s, the same that the tests play.
"""

from pathlib import Path

from fairlead.core.views import word
from fairlead.model.group import GroupRecord, Outcome
from fairlead.sim import inputs, scenario
from fairlead.sim.workload import JobRow, Result


def run(path: Path) -> tuple[Result, str]:
    """(what became of the groups so far, the failed expectation or ""); times from the scenario's 00:00."""
    written = inputs.load_scenario(path)
    played = scenario.Report(written)
    failure = ""
    try:
        for step in written.steps:
            played.play(step)
    except scenario.ScenarioError as error:
        failure = str(error)
    zero, state = played.stage.zero, played.world.engine.state
    records = {**played.world.groups, **{gid: group.record() for gid, group in state.groups.items()}}
    rows = tuple(_row(record, zero) for record in sorted(records.values(), key=lambda r: (r.seq, r.id)))
    policy = played.world.settings.queues[0].policy
    return Result(path.name, policy, 0, rows, (), 0, not failure), failure


def _row(record: GroupRecord, zero: int) -> JobRow:
    """A group; `procs` is the number of its pods."""

    def since(at: int) -> int:
        return max(at - zero, 0) if at else -1

    start = record.started_at or record.bound_at
    return JobRow(
        job_id=record.name if record.namespace == "default" else f"{record.namespace}/{record.name}",
        submit=since(record.first_seen),
        start=since(start),
        end=since(record.ended_at if record.outcome is not Outcome.REJECTED else 0),
        run=record.ended_at - start if start and record.ended_at else 0,
        procs=record.size,
        estimate=record.duration,
        promised=since(record.promised),
        backfilled=False,
        outcome=word(record.phase, record.outcome, record.reason.why),
        reason=record.reason.text,
        nodes=record.nodes,
    )
