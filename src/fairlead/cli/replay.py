"""`fairlead replay`: its options, and which of its three questions is meant.

Registered by `cli.main`, so it must stay cheap to import. `cli.replaying` compares a file or the ledger with
what the engine decides now, `cli.replay_policy` plays the ledger's workload under another policy.
"""

from pathlib import Path
from typing import Annotated

import typer

from fairlead.cli.errors import CliError

EPILOG = (
    "Example: fairlead replay --from 2h\n\n"
    "Example: fairlead replay batches.jsonl\n\n"
    "Example: fairlead replay --from 2026-10-01 --to 2026-11-01 --policy conservative"
)
_OUTPUTS = ("table", "json")


def replay(
    file: Annotated[
        Path | None, typer.Argument(help="Written by `fairlead scheduler --record FILE`; else the ledger.")
    ] = None,
    since: Annotated[
        str, typer.Option("--from", metavar="TIME", help="From then on: 2h (ago), 10:30, 2026-11-22T10:00.")
    ] = "",
    until: Annotated[str, typer.Option("--to", metavar="TIME", help="Up to then; else now.")] = "",
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
    policy: Annotated[
        str, typer.Option(help="Play the recorded workload under this policy instead: who gains, who loses.")
    ] = "",
    config: Annotated[
        Path | None, typer.Option(help="The same under the queues and policies of this configuration file.")
    ] = None,
    scheduler: Annotated[
        str, typer.Option(help="With --policy or --config: whose pods are played; else Fairlead's.")
    ] = "",
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="The scheduler's data folder.")] = None,
    database_url: Annotated[
        str, typer.Option("--database-url", help="Your own PostgreSQL, if it writes there.")
    ] = "",
) -> None:
    """Run what was recorded through the engine again and compare what it decides."""
    from fairlead.cli import when

    if output not in _OUTPUTS:
        raise CliError(f"--output {output}: give table or json")
    at = when.now()
    begin, end = when.moment("--from", since, at), when.moment("--to", until, at)
    if end and begin > end:
        raise CliError(f"--from {since} is later than --to {until}")
    if policy or config is not None:
        if file is not None:
            raise CliError("--policy and --config play what the ledger holds: leave the file out")
        from fairlead.cli import replay_policy
        from fairlead.cli.recorded import Meant
        from fairlead.runtime.config import Given
        from fairlead.store.folder import recorded_data_dir

        given = Given(config=config, policy=policy)
        meant = Meant(data_dir or recorded_data_dir(), database_url, begin, end, scheduler)
        replay_policy.run(replay_policy.Asked(meant, given, output))
        return
    if scheduler:
        raise CliError("--scheduler goes with --policy or --config")
    from fairlead.cli import replaying

    if file is None:
        replaying.show_ledger(data_dir, database_url, begin, end or at, output)
    elif since or until or data_dir or database_url:
        raise CliError("--from, --to, --data-dir and --database-url are for the ledger: leave the file out")
    else:
        replaying.show_file(file, output)
