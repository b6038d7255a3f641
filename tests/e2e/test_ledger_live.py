"""A scheduler with `--ledger`: what it decides can be asked afterwards, by SQL."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairlead.localcluster import Cluster
from fairlead.runtime import address
from fairlead.store import reader
from live import DIRECT, Kubectl, Scheduler, finish, job, until

pytestmark = pytest.mark.e2e


def rows(data: Path, sql: str) -> list[tuple[Any, ...]]:
    async def ask() -> list[tuple[Any, ...]]:
        async with reader.open_reader(data=data) as conn:
            return await (await conn.execute(sql.encode())).fetchall()

    return asyncio.run(ask())


def test_every_decision_is_a_row_also_over_a_restart(
    small_cluster: Cluster, kubectl: Kubectl, data: Path
) -> None:
    ours = f"object = 'Group' AND namespace = '{kubectl.namespace}'"
    with Scheduler(small_cluster.kubeconfig, data, "--ledger") as scheduler:
        kubectl.create(job("fits", pods=2, run="1h"))
        kubectl.create(job("huge", pods=50, cpu="8", run="1s"))
        until(
            lambda: scheduler.groups(kubectl.namespace).get("fits", {}).get("started_at"), "both pods to run"
        )
        finish(kubectl, "-ljob-name=fits")
        scheduler.wait_state(kubectl.namespace, "fits", "completed")
        scheduler.wait_state(kubectl.namespace, "huge", "rejected")
        until(
            lambda: rows(data, f"SELECT 1 FROM change WHERE {ours} AND event = 'Ended'"),
            "the end of the group in the ledger",
        )
        found = address.read(data)
        assert found is not None
        with DIRECT.open(f"{found.url}/metrics", timeout=10) as answer:
            assert 'fairlead_ledger_rows{state="dropped"} 0.0' in answer.read().decode()
        scheduler.kill()
    with Scheduler(small_cluster.kubeconfig, data, "--ledger") as scheduler:
        scheduler.wait_state(kubectl.namespace, "huge", "rejected")
    told = rows(data, f"SELECT event FROM change WHERE {ours} AND name = 'fits' ORDER BY seq")
    assert [event for (event,) in told if event != "Waiting"] == [
        "Arrived", "Queued", "Planned", "Recorded", "Bound", "Started", "Ended",
    ]  # fmt: skip
    refused = rows(data, f"SELECT reason, message FROM change WHERE {ours} AND event = 'Rejected'")
    assert {reason for reason, _ in refused} == {"Unsatisfiable"}  # the new process has looked at it again
    segments = rows(data, "SELECT why, checkpoint IS NULL, closed_at > 0 FROM ledger_segment ORDER BY id")
    assert segments == [("start", True, False), ("start", True, True)]
    for (batches,) in rows(data, "SELECT sum(batches) FROM ledger_chunk GROUP BY segment"):
        assert batches > 0
    leads = rows(data, "SELECT extra ->> 'epoch' FROM change WHERE event = 'Leads' ORDER BY seq")
    assert [epoch for (epoch,) in leads] == ["1", "2"]
    (planned,) = rows(data, f"SELECT extra -> 'placements' FROM change WHERE {ours} AND event = 'Planned'")
    assert len(planned[0]) == 2
