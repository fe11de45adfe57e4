"""Summaries beside the work: in the ledger, once each, and never in anybody's way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.entry import Draft, Entry, Kind
from operator_protocols.domain.run import Spent
from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import StoreError
from operator_sre.app.summaries import BackgroundSummaries, Summariser, Told
from operator_sre.models.summaries import RuleSummariser, Summary
from operator_sre.store import Store, open_store
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import ticket

pytestmark = pytest.mark.asyncio
RULE: Summariser = RuleSummariser()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "operator.db", clock=HeldClock())
    yield opened
    opened.close()


class _Slow:
    """A summariser that answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[str | Result] = []
        self.free = asyncio.Event()

    async def summary(self, what: str | Result) -> Summary:
        self.asked.append(what)
        await self.free.wait()
        return Summary(f"about {what}", "small", Spent(10, 2, 0.5))


class _Broken:
    async def summary(self, what: str | Result) -> Told:
        raise ValueError("a bug")


def _run(name: str = "run-1") -> Ticket:
    return ticket(run=name)


def _summaries(store: Store) -> list[Entry]:
    entries = store.entries.after(0, limit=1000)
    return [entry for entry in entries if entry.kind is Kind.SUMMARY]


async def test_what_is_noted_is_summarised_and_paid_for(store: Store) -> None:
    slow = _Slow()
    slow.free.set()
    summaries = BackgroundSummaries(store.journal, slow, RULE)
    summaries.note(_run(), 7, "a thought")
    await asyncio.sleep(0)
    await summaries.finish("run-1")
    (entry,) = _summaries(store)
    assert (entry.run, entry.ticket) == ("run-1", 1)
    spent = {"tokens_in": 10, "tokens_out": 2, "usd": 0.5}
    assert entry.payload == {"of": 7, "text": "about a thought", "by": "small", "spent": spent}
    assert store.spending.on(NOON) == {"small": Spent(10, 2, 0.5)}


async def test_noting_waits_for_nobody_and_the_rest_is_done_by_rule(store: Store) -> None:
    slow = _Slow()
    summaries = BackgroundSummaries(store.journal, slow, RULE, finish_s=0.01)
    summaries.note(_run(), 1, "First. Second.")
    summaries.note(_run(), 2, Result(Outcome.RAN, 0, "fine"))
    summaries.note(_run("run-2"), 3, "of another run")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert slow.asked == ["First. Second."]
    await summaries.finish("run-1")
    told = _summaries(store)
    assert [(one.payload["of"], one.payload["by"]) for one in told] == [(1, "rule"), (2, "rule")]
    slow.free.set()
    await summaries.finish("run-2")
    assert [one.payload["of"] for one in _summaries(store)] == [1, 2, 3]


async def test_one_entry_has_one_summary(store: Store) -> None:
    for _ in range(2):
        summaries = BackgroundSummaries(store.journal, RULE, RULE)
        summaries.note(_run(), 5, "said")
        await summaries.finish("run-1")
    assert len(_summaries(store)) == 1


async def test_too_many_are_not_kept_in_memory(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    summaries = BackgroundSummaries(store.journal, RULE, RULE, queue_max=2)
    for seq in range(1, 6):
        summaries.note(_run(), seq, "said")
    await summaries.finish("run-1")
    assert [one.payload["of"] for one in _summaries(store)] == [1, 2]
    assert "the queue is full" in caplog.text


class _Closed:
    """A journal that takes nothing any more."""

    def append(self, draft: Draft) -> object:
        raise StoreError("the disk is full.")


async def test_whatever_fails_is_logged_and_fails_nothing(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    broken = BackgroundSummaries(store.journal, _Broken(), RULE)
    broken.note(_run(), 1, "said")
    for _ in range(5):
        await asyncio.sleep(0)
    await broken.finish("run-1")
    assert "a bug" in caplog.text
    closed = BackgroundSummaries(_Closed(), RULE, RULE)  # type: ignore[arg-type]
    closed.note(_run(), 2, "said")
    await closed.finish("run-1")
    assert "the disk is full" in caplog.text
