"""Follows the ledger for one channel: gathers, waits, sends, tries again, and remembers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from operator_protocols.domain.cursor import Cursor
from operator_protocols.domain.health import Severity
from operator_protocols.errors import OperatorError
from operator_protocols.ports import Approvals, Clock, Cursors, Entries, Tickets
from operator_sre.notify.channel import Channel
from operator_sre.notify.event import Event
from operator_sre.notify.notice import KINDS, Message, Notice, message_of, notice_of
from operator_sre.notify.quiet import Quiet

__all__ = ["PREFIX", "Follower", "Terms"]

PREFIX = "notify/"
POLL_S = 1.0
LEASE_S = 30.0
RENEW_S = 10.0
AWAY_S = 5.0
PAGE = 500
NOTICES_MAX = 500
ATTEMPTS_MAX = 5
BACK_OFF_S = 1.0
HOUR_S = 3600.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Terms:
    """What is told, how often at most, and when only what is critical."""

    events: frozenset[Event] = frozenset(Event)
    min_severity: Severity = Severity.INFO
    group_s: float = 10.0
    per_hour_max: int = 30
    web_url: str = ""
    quiet: Quiet | None = None


class _LostError(Exception):
    """Somebody else follows for this channel by now."""


@dataclass(slots=True)
class Follower:
    """Sends what the ledger tells to one channel. Of several processes one at a time does.

    What is about to be sent is written down first, so that after a crash it is sent again rather
    than never, and says so.
    """

    channel: Channel
    cursors: Cursors
    entries: Entries
    tickets: Tickets
    approvals: Approvals
    clock: Clock
    holder: str
    terms: Terms
    redact: Callable[[str], str]

    async def run(self) -> None:
        """Follow until cancelled; a store that is away is asked again later."""
        name = f"{PREFIX}{self.channel.name}"
        while True:
            try:
                cursor = await self.cursors.claim(name, self.holder, lease_s=LEASE_S)
                if cursor is not None:
                    await self._follow(cursor)
            except _LostError:
                log.info("another process notifies %s now", self.channel.name)
            except OperatorError as error:
                log.error("cannot notify: %s", error)
            await self.clock.sleep(AWAY_S)

    async def _follow(self, cursor: Cursor) -> None:
        try:
            while True:
                cursor = await self.step(cursor)
                await self.clock.sleep(POLL_S)
        finally:
            # Where even that cannot be written the lease ends by itself. It must not hide that we
            # were cancelled: whoever stops us would wait for ever.
            with contextlib.suppress(OperatorError):
                await self.cursors.release(cursor)

    async def step(self, cursor: Cursor) -> Cursor:
        """Send what is due, if anything is; where the cursor is afterwards."""
        pending = cursor.note.get("pending")
        if pending:  # whoever held it before was interrupted while sending
            notices, seq = self._gather(cursor.seq, until=int(pending))
            return await self._deliver(cursor, notices, seq, again=True)
        notices, seq = self._gather(cursor.seq)
        if not notices:
            return await self._renewed(replace(cursor, seq=seq))
        cursor = await self._wait(cursor, self.terms.group_s)
        cursor = await self._slept(cursor, notices, seq)
        held = False
        while (wait_s := self._held_s(cursor.note)) > 0:
            held = True
            cursor = await self._wait(cursor, min(wait_s, RENEW_S))
        notices, seq = self._gather(cursor.seq)
        return await self._deliver(cursor, notices, seq, held=held)

    async def _slept(self, cursor: Cursor, notices: Sequence[Notice], seq: int) -> Cursor:
        """Wait until it is not quiet any more, or until something critical happens."""
        quiet, urgent = self.terms.quiet, any(map(_wakes, notices))
        while quiet is not None and not urgent and (left_s := quiet.left_s(self.clock.now())):
            cursor = await self._wait(cursor, min(left_s, RENEW_S))
            # Only what came since: a night may be long.
            more, seq = self._gather(seq)
            urgent = any(map(_wakes, more))
        return cursor

    def _gather(self, seq: int, *, until: int | None = None) -> tuple[list[Notice], int]:
        found: list[Notice] = []
        while len(found) < NOTICES_MAX:
            page = self.entries.after(seq, limit=PAGE)
            if until is not None:
                page = [one for one in page if one.seq <= until]
            if not page:
                break
            for entry in page:
                seq = entry.seq
                if KINDS.get(entry.kind) in self.terms.events:
                    ticket = self.tickets.get(entry.ticket) if entry.ticket else None
                    notice = notice_of(entry, ticket, self._approval(entry.payload))
                    if notice and notice.severity >= self.terms.min_severity:
                        found.append(notice)
        return found, seq

    def _approval(self, payload: Mapping[str, Any]) -> Any:
        told = payload.get("approval", payload)
        name = told.get("id") if isinstance(told, Mapping) else None
        return self.approvals.get(name) if isinstance(name, str) else None

    async def _deliver(
        self,
        cursor: Cursor,
        notices: Sequence[Notice],
        seq: int,
        *,
        again: bool = False,
        held: bool = False,
    ) -> Cursor:
        note = {key: value for key, value in cursor.note.items() if key != "pending"}
        lost = int(note.get("lost", 0))
        url = self.terms.web_url
        made = message_of(notices, again=again, lost=lost, held=held, web_url=url)
        message = Message(self.redact(made.title), self.redact(made.body))
        cursor = await self._kept(replace(cursor, note={**note, "pending": seq}))
        problem = ""
        if notices:
            problem, cursor = await self._send(cursor, message)
        now_s = self.clock.now().timestamp()
        if problem:
            log.warning("%s could not be notified: %s", self.channel.name, problem)
            note |= {
                "failed": int(note.get("failed", 0)) + 1,
                "lost": lost + len(notices),
                "problem": problem,
                "failed_at": now_s,
            }
        elif notices:
            recent = [at for at in note.get("recent", []) if at > now_s - HOUR_S]
            note |= {
                "sent": int(note.get("sent", 0)) + 1,
                "lost": 0,
                "problem": "",
                "sent_at": now_s,
                "recent": [*recent, now_s][-self.terms.per_hour_max :],
            }
        return await self._kept(replace(cursor, seq=seq, note=note))

    async def _send(self, cursor: Cursor, message: Message) -> tuple[str, Cursor]:
        """Why it could not be sent after all attempts, or ""."""
        problem = ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                cursor = await self._wait(cursor, BACK_OFF_S * 2.0 ** (attempt - 1))
            problem = await self.channel.send(message)
            if not problem:
                break
        return problem, cursor

    def _held_s(self, note: Mapping[str, Any]) -> float:
        """How long to hold back, because too many messages were sent within the hour."""
        now_s = self.clock.now().timestamp()
        recent = sorted(at for at in note.get("recent", []) if at > now_s - HOUR_S)
        if len(recent) < self.terms.per_hour_max:
            return 0.0
        return float(max(1.0, recent[-self.terms.per_hour_max] + HOUR_S - now_s))

    async def _wait(self, cursor: Cursor, seconds: float) -> Cursor:
        """Wait and keep the lease, however long it takes."""
        while seconds > 0:
            part = min(seconds, RENEW_S)
            await self.clock.sleep(part)
            seconds -= part
            cursor = await self._kept(cursor)
        return cursor

    async def _renewed(self, cursor: Cursor) -> Cursor:
        left_s = (cursor.until - self.clock.now()).total_seconds()
        return await self._kept(cursor) if left_s < LEASE_S - RENEW_S else cursor

    async def _kept(self, cursor: Cursor) -> Cursor:
        if not await self.cursors.keep(cursor, lease_s=LEASE_S):
            raise _LostError
        now_s = self.clock.now().timestamp()
        until = type(cursor.until).fromtimestamp(now_s + LEASE_S, cursor.until.tzinfo)
        return replace(cursor, until=until)


def _wakes(notice: Notice) -> bool:
    return notice.severity is Severity.CRITICAL
