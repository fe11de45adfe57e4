"""Transactions that wait together commit together, and fail alone."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.errors import ConflictError, StoreError
from operator_sre.clock import SystemClock
from operator_sre.store import open_store
from operator_sre.store.projections import rows_follow
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import ALONE_GROUPS, COMPANY_EVERY
from tests.contract.clock import HeldClock
from tests.contract.verified import verified

pytestmark = pytest.mark.asyncio


class _Desk:
    """A writer whose thread can be held, so that what is written meanwhile waits together."""

    def __init__(self, path: Path) -> None:
        store = open_store(path, clock=HeldClock())
        self.close = store.close
        self.writer, self.reader, self.entries = store.writer, store.reader, store.entries
        self.writer.inline_s_max = 0.0  # a change that waits here must not hold the loop

    async def hold(self) -> threading.Event:
        """Keep the thread busy until the event is set."""
        busy, free = threading.Event(), threading.Event()

        def change(transaction: Transaction) -> None:
            busy.set()
            assert free.wait(10.0)

        self._held = asyncio.ensure_future(self.writer.write(change))
        assert await asyncio.to_thread(busy.wait, 10.0)
        return free

    async def together(
        self, *changes: Callable[[Transaction], object], cancelled: int | None = None
    ) -> list[object]:
        """What became of changes that were committed as one group."""
        free = await self.hold()
        tasks = [asyncio.ensure_future(self.writer.write(change)) for change in changes]
        await asyncio.sleep(0)
        if cancelled is not None:
            tasks[cancelled].cancel()
        free.set()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await self._held
        return outcomes

    def numbers(self) -> list[int]:
        return [entry.payload["n"] for entry in self.entries.after(0, limit=1000)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[_Desk]:
    one = _Desk(tmp_path / "operator.db")
    yield one
    one.close()


def _append(number: int) -> Callable[[Transaction], Entry]:
    return lambda transaction: transaction.append(Draft(Kind.REASONING, {"n": number}))


def _append_and_fail(number: int, error: Exception) -> Callable[[Transaction], Entry]:
    def change(transaction: Transaction) -> Entry:
        _append(number)(transaction)
        raise error

    return change


async def test_what_waits_together_is_one_transaction(desk: _Desk) -> None:
    transactions = await desk.together(*[lambda transaction: transaction] * 20)
    assert len({id(transaction) for transaction in transactions}) == 1


@pytest.mark.parametrize("error", [ValueError("mine"), sqlite3.IntegrityError("mine")])
async def test_a_change_that_raises_is_undone_alone(desk: _Desk, error: Exception) -> None:
    outcomes = await desk.together(
        _append(1), _append(2), _append_and_fail(3, error), _append(4), _append_and_fail(5, error)
    )
    failed = ConflictError if isinstance(error, sqlite3.IntegrityError) else type(error)
    assert [type(one) for one in outcomes] == [Entry, Entry, failed, Entry, failed]
    assert desk.numbers() == [1, 2, 4]
    report = verified(desk.entries)
    assert (report.entries, report.damages) == (3, ())


async def test_a_change_that_raises_undoes_all_that_it_did(desk: _Desk) -> None:
    def twice(transaction: Transaction) -> None:
        _append(1)(transaction)
        transaction.connection.execute("INSERT INTO leases VALUES (1, 1, 1.0)")
        _append(2)(transaction)
        raise LookupError

    outcomes = await desk.together(twice, _append(3))
    assert isinstance(outcomes[0], LookupError)
    assert desk.numbers() == [3]
    assert desk.reader.rows("SELECT * FROM leases") == []


async def test_what_is_committed_together_has_one_time(tmp_path: Path) -> None:
    store = open_store(tmp_path / "operator.db", clock=SystemClock())

    def change(transaction: Transaction) -> list[datetime]:
        _append(1)(transaction)
        return [transaction.now(), _append(2)(transaction).at]

    now, at = await store.writer.write(change)
    assert [one.at for one in store.entries.after(0, limit=9)] == [now, at] == [now, now]
    store.close()


async def test_trouble_with_the_file_fails_the_whole_group(desk: _Desk) -> None:
    def broken(transaction: Transaction) -> None:
        transaction.connection.execute("INSERT INTO nowhere VALUES (1)")

    outcomes = await desk.together(_append(1), broken, _append(2))
    assert [type(outcome) for outcome in outcomes] == [StoreError] * 3
    assert desk.numbers() == []
    await desk.writer.write(_append(4))
    assert desk.numbers() == [4]
    assert verified(desk.entries).whole


async def test_a_waiter_that_is_cancelled_does_not_disturb_its_neighbours(desk: _Desk) -> None:
    outcomes = await desk.together(*map(_append, range(3)), cancelled=1)
    assert [type(one) for one in outcomes] == [Entry, asyncio.CancelledError, Entry]
    assert desk.numbers() == [0, 1, 2]


async def test_closing_finishes_what_is_waiting(tmp_path: Path) -> None:
    desk = _Desk(tmp_path / "operator.db")
    free = await desk.hold()
    tasks = [asyncio.ensure_future(desk.writer.write(_append(n))) for n in range(600)]
    await asyncio.sleep(0)
    free.set()
    await asyncio.to_thread(desk.writer.close)
    await asyncio.gather(*tasks)
    assert desk.numbers() == list(range(600))
    desk.close()


def _itself(transaction: Transaction) -> Transaction:
    return transaction


async def test_who_was_alone_for_long_notices_company(tmp_path: Path) -> None:
    store = open_store(tmp_path / "operator.db", clock=HeldClock())
    alone = [await store.writer.write(_itself) for _ in range(ALONE_GROUPS + 1)]
    assert len({id(one) for one in alone}) == ALONE_GROUPS + 1
    await asyncio.gather(*(store.writer.write(_itself) for _ in range(8)))
    together = await asyncio.gather(*(store.writer.write(_itself) for _ in range(8)))
    assert len({id(one) for one in together}) == 1
    store.close()


async def test_who_writes_alone_without_a_pause_lets_others_have_their_turns(
    tmp_path: Path,
) -> None:
    store = open_store(tmp_path / "operator.db", clock=HeldClock())
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    for number in range(100):
        await store.writer.write(_append(number))
    task.cancel()
    assert turns >= 100 // COMPANY_EVERY
    store.close()


@pytest.mark.parametrize("spent", [None, {}, {"tokens_in": 0, "tokens_out": 0, "usd": 0.0}])
async def test_a_thought_that_cost_nothing_leaves_no_row(
    spent: dict[str, float] | None, desk: _Desk
) -> None:
    draft = Draft(Kind.REASONING, {"n": 1} if spent is None else {"n": 1, "spent": spent})
    assert not rows_follow(draft)
    await desk.writer.append(draft)
    assert desk.reader.rows("SELECT * FROM spending") == []


async def test_a_thought_that_cost_something_leaves_a_row(desk: _Desk) -> None:
    draft = Draft(Kind.REASONING, {"n": 1, "by": "m", "spent": {"tokens_in": 7}})
    assert rows_follow(draft)
    await asyncio.gather(*(desk.writer.append(draft) for _ in range(3)))
    assert desk.reader.rows("SELECT model, tokens_in FROM spending") == [("m", 21)]
