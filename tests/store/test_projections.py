"""Tables beside the ledger hold nothing that does not follow from it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_sre.gate import Gate, Policy
from operator_sre.store import Store, open_store
from operator_sre.store.projections import project
from operator_sre.store.schema import PROJECTIONS
from operator_sre.store.sqlite import SqliteDatabase
from tests.contract.clock import HeldClock
from tests.contract.samples import (
    approval,
    escalated,
    resolved,
    run_finished,
    run_started,
    violation,
)


async def _live_through_everything(store: Store, clock: HeldClock) -> None:
    first = await store.tickets.open([violation("node-1"), violation("node-2")])
    await store.tickets.open([violation("node-3")])
    await store.tickets.grow(first, [violation("store", detail="\ud800")])
    await store.leases.claim("gone", run="run-a", lease_s=30.0, attempts_max=3)
    clock.advance(40.0)
    claimed = await store.leases.claim("worker", run="run-b", lease_s=30.0, attempts_max=3)
    assert claimed is not None
    await store.journal.append(run_started(claimed))
    gate = Gate(Policy, store.journal, store.approvals, clock, lambda: "permit-1")
    permit = await gate.permit(gate.judge(Action.shell("uptime")), claimed)
    assert isinstance(permit, Permit)
    await store.intents.begin(permit)
    await store.intents.end(permit, Result(Outcome.RAN, 0))
    for name in ("a", "b"):
        await store.approvals.request(approval(name, at=clock.now()))
    await store.approvals.decide("a", ApprovalState.REJECTED, by="ada", reason="no")
    await store.leases.release(claimed, reason="stopped", wait_s=3.5)
    again = await store.leases.claim("worker", run="run-c", lease_s=30.0, attempts_max=3)
    assert again is not None
    await store.leases.end(again, escalated(again))
    clock.advance(10.0)
    last = await store.leases.claim("worker", run="run-d", lease_s=30.0, attempts_max=3)
    assert last is not None
    await store.journal.append(run_finished(last))
    await store.leases.end(last, resolved(last))


@pytest.mark.asyncio
async def test_every_row_follows_from_the_ledger(tmp_path: Path) -> None:
    clock = HeldClock()
    store = open_store(tmp_path / "operator.db", clock=clock)
    await _live_through_everything(store, clock)
    other = tmp_path / "other.db"
    SqliteDatabase(other).prepare()
    rebuilt = sqlite3.connect(other)
    for entry in store.entries.after(0, limit=1000):
        project(rebuilt, entry)
    store.close()
    stored = sqlite3.connect(tmp_path / "operator.db")
    for table in PROJECTIONS:
        rows = _rows(stored, table)
        assert rows, table
        assert rows == _rows(rebuilt, table), table
    stored.close()
    rebuilt.close()


def _rows(connection: sqlite3.Connection, table: str) -> list[Any]:
    return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()  # noqa: S608
