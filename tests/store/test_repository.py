"""Pages: of very many requests, a page costs what it costs of a few."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.confirmation import ConfirmationState
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import ApprovalState
from operator_sre.store import open_store
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import approval, confirmation

FEW, MANY = 200, 20_000
STEP = 10
PENDING = "pending"


def _copied(file: Path, table: str, first: int, count: int, **changes: object) -> None:
    """So many more rows like the first one."""
    with closing(sqlite3.connect(file)) as connection, connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        row = connection.execute(f"SELECT * FROM {table} ORDER BY seq").fetchone()  # noqa: S608
        known = dict(zip(columns, row, strict=True)) | changes
        copies = (
            tuple((known | {"id": f"{table}-{n}", "seq": 100 + n}).values())
            for n in range(first, first + count)
        )
        marks = ", ".join("?" * len(columns))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", copies)  # noqa: S608


def _steps(noun: Any, **wanted: Any) -> int:
    """How much the database does for a page, in its own steps: they know no busy machine."""
    counted = 0

    def tick() -> int:
        nonlocal counted
        counted += 1
        return 0

    connection = noun._reader._session.get()
    connection.set_progress_handler(tick, STEP)
    try:
        assert len(noun.page(limit=51, **wanted)) == 51
    finally:
        connection.set_progress_handler(None, STEP)
    return counted


@pytest.mark.asyncio
async def test_a_page_of_very_many_is_no_more_work_than_one_of_a_few(tmp_path: Path) -> None:
    file = tmp_path / "operator.db"
    with closing(open_store(file, clock=HeldClock())) as store:
        await store.approvals.request(approval("first"))
        await store.confirmations.request(confirmation("first"))
        await store.confirmations.decide(
            "first", ConfirmationState.DECLINED, by=Actor("ada", "user"), reason=""
        )
        nouns = (
            ("approvals", store.approvals, ApprovalState.PENDING),
            ("confirmations", store.confirmations, ConfirmationState.PENDING),
        )
        costs: dict[int, list[int]] = {}
        for count in (FEW, MANY):
            for table, noun, pending in nouns:
                state = {"state": PENDING, "expires_at": NOON.timestamp() + 900}
                _copied(file, table, count, count, **state)
                waiting = {"states": [pending], "alive_at": NOON}
                behind = {"after": f"{table}-{count + count // 2}"}
                costs.setdefault(count, []).extend(
                    (_steps(noun), _steps(noun, **waiting), _steps(noun, **waiting, **behind))
                )
            costs[count].append(_steps(store.approvals, newest=True))
        assert all(many <= 2 * few + STEP for few, many in zip(*costs.values(), strict=True)), costs
        assert len(store.approvals.page(limit=3)) == 3
        # A yes that is done with is not looked at again by whoever looks for those that are not.
        _copied(file, "confirmations", 2 * MANY, MANY, state="settled")
        assert list(store.confirmations.find_unsettled()) == []
