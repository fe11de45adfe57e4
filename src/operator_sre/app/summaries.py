"""A sentence or two beside each thought and result, written while the work goes on."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from operator_protocols.domain.action import Result
from operator_protocols.domain.budget import Spent
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.ticket import Ticket
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Journal
from operator_sre.codec import to_json

__all__ = ["BackgroundSummaries", "Summariser", "Told"]

QUEUE_MAX = 200
FINISH_S = 5.0
log = logging.getLogger(__name__)


class Told(Protocol):
    """One or two sentences, who wrote them and what that cost."""

    @property
    def text(self) -> str:
        """The summary."""
        ...

    @property
    def by(self) -> str:
        """The name of the model."""
        ...

    @property
    def spent(self) -> Spent:
        """What it cost."""
        ...


class Summariser(Protocol):
    """Summarises reasoning texts and results."""

    async def summary(self, source: str | Result) -> Told:
        """One or two sentences about a reasoning text or a result."""
        ...


@dataclass(frozen=True, slots=True)
class _Item:
    ticket: int
    run: str
    seq: int
    source: str | Result


class BackgroundSummaries:
    """Summarises in the background, one entry at a time; a ticket never waits long for it.

    Entries without a summary at the end of a run get one by `rule`. Failures are logged, and the
    raw text is in the ledger anyway.
    """

    def __init__(
        self,
        journal: Journal,
        summariser: Summariser,
        rule: Summariser,
        *,
        queue_max: int = QUEUE_MAX,
        finish_s: float = FINISH_S,
    ) -> None:
        self._journal = journal
        self._summariser = summariser
        self._rule = rule
        self._queue: deque[_Item] = deque()
        self._queue_max = queue_max
        self._finish_s = finish_s
        self._doing: tuple[_Item, asyncio.Task[None]] | None = None
        self._loop: asyncio.Task[None] | None = None

    def note(self, ticket: Ticket, seq: int, source: str | Result) -> None:
        """Add an entry to the queue."""
        if len(self._queue) >= self._queue_max:
            log.warning("entry %d is not summarised: the queue is full", seq)
            return
        self._queue.append(_Item(ticket.id, ticket.run, seq, source))
        if self._loop is None or self._loop.done():
            self._loop = asyncio.ensure_future(self._work())

    async def finish(self, run: str) -> None:
        """Finish a run: the current summary may end, and the rest is summarised by rule."""
        left = [item for item in self._queue if item.run == run]
        self._queue = deque(item for item in self._queue if item.run != run)
        if self._doing is not None and self._doing[0].run == run:
            item, doing = self._doing
            await asyncio.wait([doing], timeout=self._finish_s)
            if not doing.done():
                doing.cancel()
                left.insert(0, item)
        for item in left:
            await self._summarise(item, self._rule)

    async def _work(self) -> None:
        while self._queue:
            item = self._queue.popleft()
            doing = asyncio.ensure_future(self._summarise(item, self._summariser))
            self._doing = (item, doing)
            await asyncio.wait([doing])
            self._doing = None
            if not doing.cancelled() and (error := doing.exception()) is not None:
                log.error("entry %d is not summarised: %r", item.seq, error)

    async def _summarise(self, item: _Item, summariser: Summariser) -> None:
        summary = await summariser.summary(item.source)
        payload = {"of": item.seq, "text": summary.text, "by": summary.by}
        if summary.spent != Spent():
            payload["spent"] = to_json(summary.spent)
        # Under a key, so that an entry has one summary even if a run is resumed.
        key = f"summary/{item.seq}"
        draft = Draft(Kind.SUMMARY, payload, ticket=item.ticket, run=item.run, key=key)
        try:
            await self._journal.append(draft)
        except OperatorError as error:
            log.error("the summary of entry %d is not stored: %s", item.seq, error)
