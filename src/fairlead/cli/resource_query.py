"""`fairlead resource-query`: options in, `cli.query_run` called.

Registered by `cli.main`. Must stay cheap to import, and hold no logic of its own.
"""

from pathlib import Path
from typing import Annotated

import typer

Policy = Annotated[
    str,
    typer.Option(
        "-P",
        "--match-policy",
        help="first, firstnodex, low, high, lonode, hinode, lonodex, hinodex, locality, bestfit, pack,"
        " spread; or options such as 'policy=low node_exclusive=true'.",
    ),
]
Format = Annotated[
    str,
    typer.Option(
        "-F",
        "--match-format",
        help="How answers are printed: simple, pretty_simple, jgf, jgf_shorthand, rlite, rv1,"
        " rv1_nosched or rv1_shorthand.",
    ),
]
Ahead = Annotated[
    int, typer.Option("-r", "--reserve-vtx-vec", help="For Fluxion's scripts: memory grows by itself here.")
]
Allowed = Annotated[
    str, typer.Option("-W", "--allowlist", help="For Fluxion's scripts: it is for hwloc files only.")
]


def resource_query(
    load_file: Annotated[Path, typer.Option("-L", "--load-file", help="The resource graph.")],
    load_format: Annotated[
        str, typer.Option("-f", "--load-format", help="Its format: grug, jgf or rv1exec.")
    ] = "grug",
    match_policy: Policy = "first",
    match_format: Format = "simple",
    match_subsystems: Annotated[
        str, typer.Option("-S", "--match-subsystems", help="CA: containment is the only subsystem there is.")
    ] = "CA",
    traverser: Annotated[
        str,
        typer.Option(
            "-T",
            "--traverser-policy",
            help="simple: slots side by side are matched together; flexible: they are alternatives.",
        ),
    ] = "simple",
    output: Annotated[
        Path | None,
        typer.Option("-t", "--test-output", "--output", help="Answers into this file; it is emptied first."),
    ] = None,
    prune_filters: Annotated[
        str,
        typer.Option("-p", "--prune-filters", help="What is counted where, for example ALL:core,rack:gpu."),
    ] = "ALL:core,ALL:node",
    elapse_time: Annotated[
        bool, typer.Option("-e", "--elapse-time", help="Print how long each match took.")
    ] = False,
    disable_prompt: Annotated[
        bool, typer.Option("-d", "--disable-prompt", help="Print no prompt, for scripts.")
    ] = False,
    reserve_vtx_vec: Annotated[
        int,
        typer.Option("-r", "--reserve-vtx-vec", help="For Fluxion's scripts: memory grows by itself here."),
    ] = 0,
    allowlist: Annotated[
        str, typer.Option("-W", "--allowlist", help="For Fluxion's scripts: it is for hwloc files only.")
    ] = "",
) -> None:
    """Match jobspecs to a resource graph, one command a line; Fluxion's scripts run unchanged.

    \b
    fairlead resource-query -L tiny.graphml -P low            # then type: help
    fairlead resource-query -L cluster.json -f jgf -P lonodex -F rv1 < commands.txt
    echo "match allocate job.yaml" | fairlead resource-query -L tiny.graphml -d
    """
    from fairlead.cli.query_run import Options, run

    del reserve_vtx_vec
    if allowlist:
        typer.echo("fairlead: --allowlist is for hwloc files only and leaves this graph as it is", err=True)
    run(
        Options(
            load_file,
            load_format,
            match_policy,
            match_format,
            match_subsystems,
            traverser,
            output,
            prune_filters,
            elapse_time,
            disable_prompt,
        )
    )
