"""A Channel is one address of people; a Follower sends it what the ledger tells.

A channel holds secrets, so nothing of it is ever shown. A follower gathers, waits, sends, tries
again, and remembers.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Cursor, Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.errors import MissingExtraError, OperatorError
from operator_protocols.ports import Approvals, Clock, Cursors, Entries, Tickets
from operator_sre.codec import from_json
from operator_sre.notify.notice import KINDS, Event, Message, Notice, Quiet, message_of, notice_of

__all__ = ["PREFIX", "AppriseChannel", "Channel", "Follower", "Terms", "channels_of"]

SEND_S_MAX = 15.0
CHANNELS_MAX = 50
# A name before an address; no scheme has an equals sign before its colon.
_NAMED = re.compile(r"([A-Za-z0-9_.@+-]{1,100})\s*=\s*([A-Za-z][A-Za-z0-9+.-]*://.*)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{0,30}", re.IGNORECASE)
PREFIX = "notify/"
POLL_S = 1.0
LEASE_S = 30.0
RENEW_S = 10.0
AWAY_S = 5.0
PAGE = 500
NOTICES_MAX = 500
DIAGNOSES_MAX = 10
ATTEMPTS_MAX = 5
BACK_OFF_S = 1.0
HOUR_S = 3600.0
log = logging.getLogger(__name__)


class Channel(Protocol):
    """Where messages go."""

    @property
    def name(self) -> str:
        """What it is called without telling its address."""
        ...

    async def send(self, message: Message) -> str:
        """Send it once; why it was not taken, or ""."""
        ...


class AppriseChannel:
    """One address as Apprise knows it."""

    def __init__(self, url: str, recipient: str = "") -> None:
        scheme, separator, _ = url.lower().partition("://")
        # A few digits of a hash: the same address has the same name, and no way leads back.
        digits = hashlib.sha256(url.encode()).hexdigest()[:8]
        self._url = url
        self.recipient = recipient
        service = scheme if separator and _SCHEME.fullmatch(scheme) else "address"
        self.name = "-".join(filter(None, (recipient, service, digits)))

    def __repr__(self) -> str:
        return f"AppriseChannel({self.name})"

    async def send(self, message: Message) -> str:
        """Send it once; why it was not taken, or ""."""
        try:
            async with asyncio.timeout(SEND_S_MAX):
                return await asyncio.to_thread(self._send, message)
        except TimeoutError:
            return f"it took longer than {SEND_S_MAX:g} s"

    def _send(self, message: Message) -> str:
        try:
            import apprise
        except ImportError as error:
            raise MissingExtraError("notify", needed_for="Notifying people") from error
        # It logs addresses that it does not understand, secrets and all.
        logger = logging.getLogger("apprise")
        logger.propagate = False
        logger.disabled = True
        logging.getLogger("urllib3").setLevel(logging.WARNING)  # below that it logs paths
        try:
            service = apprise.Apprise()
            if not service.add(self._url):
                return "the address is not valid"
            taken = service.notify(title=message.title, body=message.body, body_format="text")
        except Exception as error:  # noqa: BLE001  whatever a service does, the ledger goes on
            return f"it failed with {type(error).__name__}"  # its words may hold the address
        return "" if taken else "the service rejected it"


def channels_of(text: str) -> list[AppriseChannel]:
    """The addresses of a file, one on each line; empty lines and lines with # are skipped.

    A line `NAME = URL` is the address of a person or group of a chain of approvers.
    """
    lines = [line.strip() for line in text.splitlines()]
    urls = [line for line in lines if line and not line.startswith("#")]
    rows = [(_NAMED.fullmatch(url), url) for url in dict.fromkeys(urls)]
    return [AppriseChannel(row[2], row[1]) if row else AppriseChannel(url) for row, url in rows][
        :CHANNELS_MAX
    ]


@dataclass(frozen=True, slots=True)
class Terms:
    """Which notices are sent, how often at most, and in which hours only critical ones."""

    events: frozenset[Event] = frozenset(Event)
    min_severity: Severity = Severity.INFO
    group_s: float = 10.0
    per_hour_max: int = 30
    web_url: str = ""
    quiet: Quiet | None = None


class _LostError(Exception):
    """Another process follows the ledger for this channel by now."""


@dataclass(slots=True)
class Follower:
    """Sends what the ledger tells to one channel. Of several processes one at a time does.

    The channel of a `recipient` gets only the requests that this person or group is asked about.

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
    recipient: str = ""

    async def run(self) -> None:
        """Follow until cancelled; a store that is away is asked again later."""
        name = f"{PREFIX}{self.channel.name}"
        while True:
            try:
                cursor = await self.cursors.claim(name, self.holder, lease_s=LEASE_S)
                if cursor is not None:
                    try:
                        while True:
                            cursor = await self.step(cursor)
                            await self.clock.sleep(POLL_S)
                    finally:
                        # Where even that cannot be written the lease ends by itself. The error
                        # must not hide the cancellation: the caller would wait for ever.
                        with contextlib.suppress(OperatorError):
                            await self.cursors.release(cursor)
            except _LostError:
                log.info("another process notifies %s now", self.channel.name)
            except OperatorError as error:
                log.error("cannot notify: %s", error)
            await self.clock.sleep(AWAY_S)

    async def step(self, cursor: Cursor) -> Cursor:
        """Send what is due, if anything is; where the cursor is afterwards."""
        pending = cursor.note.get("pending")
        if pending:  # the previous holder was interrupted while sending
            notices, seq = self._gather(cursor.seq, until=int(pending))
            return await self._deliver(cursor, notices, seq, again=True)
        notices, seq = self._gather(cursor.seq)
        if not notices:
            cursor = replace(cursor, seq=seq)
            left_s = (cursor.until - self.clock.now()).total_seconds()
            return await self._keep(cursor) if left_s < LEASE_S - RENEW_S else cursor
        cursor = await self._wait(cursor, self.terms.group_s)
        # Until it is not quiet any more, or until something critical happens.
        quiet, urgent = self.terms.quiet, any(map(_wakes, notices))
        while quiet is not None and not urgent and (quiet_s := quiet.left_s(self.clock.now())):
            cursor = await self._wait(cursor, min(quiet_s, RENEW_S))
            # Only what came since: a night may be long.
            more, seq = self._gather(seq)
            urgent = any(map(_wakes, more))
        held, most = False, self.terms.per_hour_max
        while True:  # as long as too many messages were sent within the hour
            now_s = self.clock.now().timestamp()
            recent = sorted(at for at in cursor.note.get("recent", []) if at > now_s - HOUR_S)
            if len(recent) < most:
                break
            held = True
            wait_s = max(1.0, recent[-most] + HOUR_S - now_s)
            cursor = await self._wait(cursor, min(wait_s, RENEW_S))
        notices, seq = self._gather(cursor.seq)
        return await self._deliver(cursor, notices, seq, held=held)

    def _gather(self, seq: int, *, until: int | None = None) -> tuple[list[Notice], int]:
        notices: list[Notice] = []
        while len(notices) < NOTICES_MAX:
            page = self.entries.after(seq, limit=PAGE)
            if until is not None:
                page = [entry for entry in page if entry.seq <= until]
            if not page:
                break
            for entry in page:
                seq = entry.seq
                if KINDS.get(entry.kind) in self.terms.events:
                    ticket = self.tickets.get(entry.ticket) if entry.ticket else None
                    request = entry.payload.get("approval", entry.payload)
                    name = request.get("id") if isinstance(request, Mapping) else None
                    approval = self.approvals.get(name) if isinstance(name, str) else None
                    notice = notice_of(entry, ticket, approval, self._find_diagnosis(entry))
                    if self.recipient and (
                        notice is None or self.recipient not in notice.recipients
                    ):
                        continue
                    if notice and notice.severity >= self.terms.min_severity:
                        notices.append(notice)
        return notices, seq

    def _find_diagnosis(self, entry: Entry) -> Diagnosis | None:
        """The newest diagnosis of the run that an entry belongs to, as of that entry."""
        if entry.ticket is None:
            return None
        known = self.entries.newest(limit=DIAGNOSES_MAX, ticket=entry.ticket, kind=Kind.DIAGNOSIS)
        newest = next((found for found in known if found.seq < entry.seq), None)
        # A diagnosis that was purged says nothing any more.
        return (
            from_json(Diagnosis, newest.payload) if newest and "cause" in newest.payload else None
        )

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
        plain = message_of(notices, again=again, lost=lost, held=held, web_url=url)
        message = Message(self.redact(plain.title), self.redact(plain.body))
        cursor = await self._keep(replace(cursor, note={**note, "pending": seq}))
        problem = ""
        for attempt in range(ATTEMPTS_MAX if notices else 0):
            if attempt:
                cursor = await self._wait(cursor, BACK_OFF_S * 2.0 ** (attempt - 1))
            problem = await self.channel.send(message)
            if not problem:
                break
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
        return await self._keep(replace(cursor, seq=seq, note=note))

    async def _wait(self, cursor: Cursor, seconds: float) -> Cursor:
        """Wait and keep the lease, however long it takes."""
        while seconds > 0:
            part = min(seconds, RENEW_S)
            await self.clock.sleep(part)
            seconds -= part
            cursor = await self._keep(cursor)
        return cursor

    async def _keep(self, cursor: Cursor) -> Cursor:
        if not await self.cursors.keep(cursor, lease_s=LEASE_S):
            raise _LostError
        now_s = self.clock.now().timestamp()
        until = type(cursor.until).fromtimestamp(now_s + LEASE_S, cursor.until.tzinfo)
        return replace(cursor, until=until)


def _wakes(notice: Notice) -> bool:
    return notice.severity is Severity.CRITICAL
