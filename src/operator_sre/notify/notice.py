"""A Notice is one thing that people are to hear of; a Message holds several. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.ticket import Ticket

__all__ = ["KINDS", "Event", "Message", "Notice", "Quiet", "message_of", "notice_of", "quiet_of"]

SHOWN_MAX = 20
TITLE_CHARACTERS_MAX = 150
TEXT_CHARACTERS_MAX = 400
_WORDS = re.compile(r"(\d\d:\d\d)-(\d\d:\d\d)(?: ([A-Za-z0-9_+/-]{1,64}))?")


class Event(StrEnum):
    """One reason to tell people."""

    OPENED = "opened"
    APPROVAL_NEEDED = "approval_needed"
    ESCALATED = "escalated"
    RESOLVED = "resolved"


KINDS = {
    Kind.TICKET_OPENED: Event.OPENED,
    Kind.APPROVAL_REQUESTED: Event.APPROVAL_NEEDED,
    Kind.APPROVAL_ESCALATED: Event.APPROVAL_NEEDED,
    Kind.TICKET_ESCALATED: Event.ESCALATED,
    Kind.TICKET_RESOLVED: Event.RESOLVED,
}


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to hear of: a headline, what is behind it, and the command to type next.

    `page` is where it is shown in the web console.
    """

    event: Event
    severity: Severity
    headline: str
    lines: tuple[str, ...]
    command: str
    at: datetime
    page: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent: a line, and a text."""

    title: str
    body: str


def notice_of(entry: Entry, ticket: Ticket | None, approval: Approval | None) -> Notice | None:
    """The notice of an entry; None for most. An unknown approval is critical."""
    event = KINDS.get(entry.kind)
    if event is None:
        return None
    payload: Mapping[str, Any] = entry.payload
    severity = ticket.severity if ticket else Severity.CRITICAL
    lines: list[str] = []
    if event is Event.APPROVAL_NEEDED:
        name = str(payload.get("approval", payload).get("id", ""))
        louder = entry.kind is Kind.APPROVAL_ESCALATED
        command = approval.action.command if approval else "a command"
        if approval is not None:
            subject, target = approval.subject, approval.action.target
            lines.append(f"{f'{subject} / {target}' if subject else 'machine'}: {command}")
            lines.append(f"risk {approval.risk}: {approval.explanation}")
            lines.append(f"until {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC")
        if louder:
            lines.append(f"because: {payload.get('reason', 'no decision in time')}")
        if ticket is not None:
            lines.append(f"for ticket {ticket.id}: {ticket.summary}")
        headline = f"approval {'still ' if louder else ''}needed: {command}"
        command, page = f"operator approvals approve {name}", f"/approvals/{quote(name, safe='')}"
    elif ticket is None:  # its story has been purged since
        return None
    else:
        for violation in ticket.violations[:3]:
            lines.append(
                f"{ticket.subject} / {violation.target}: {violation.invariant}: {violation.detail}"
            )
        if len(ticket.violations) > 3:
            lines.append(f"and {len(ticket.violations) - 3} more violations")
        if event is Event.OPENED:
            since = min(violation.since for violation in ticket.violations)
            lines.append(f"since {since:%Y-%m-%d %H:%M:%S} UTC")
        else:
            lines.append(f"because: {payload.get('reason', '')}")
        headline = f"ticket {ticket.id} {event.value} ({severity}): {ticket.summary}"
        command, page = f"operator tickets show {ticket.id}", f"/tickets/{ticket.id}"
    return Notice(event, severity, headline, tuple(lines), command, entry.at, page)


def message_of(
    notices: Sequence[Notice],
    *,
    again: bool = False,
    lost: int = 0,
    held: bool = False,
    web_url: str = "",
) -> Message:
    """All of them in one message.

    `again` when it may have been sent before, `lost` notices could not be delivered, and `held`
    when they had to wait because too many messages were sent within the hour. `web_url` is where
    the web console is, if anywhere.
    """
    parts = []
    if again:
        parts.append("This may have been sent before: sending it was interrupted.")
    if lost:
        parts.append(f"{lost} earlier notices could not be delivered: operator tickets list")
    if held:
        parts.append("These were held back, because there were too many messages within the hour.")
    for notice in notices[:SHOWN_MAX]:
        lines = [_clean(notice.headline), *map(_clean, notice.lines), notice.command]
        if web_url and notice.page:
            lines.append(f"{web_url}{notice.page}")
        parts.append("\n  ".join(lines))
    if len(notices) > SHOWN_MAX:
        parts.append(f"and {len(notices) - SHOWN_MAX} more: operator tickets list")
    if len(notices) == 1:
        headline = _clean(notices[0].headline)
    else:
        counts = Counter(notice.event for notice in notices)
        words = {event: event.value.replace("_", " ") for event in Event}
        headline = ", ".join(f"{counts[event]} {words[event]}" for event in Event if counts[event])
    title = f"{'[again] ' if again else ''}Operator: {headline}"
    return Message(title[:TITLE_CHARACTERS_MAX], "\n\n".join(parts))


def _clean(text: str) -> str:
    """One line, and no longer than people read."""
    line = "".join(letter if letter.isprintable() else " " for letter in text)
    return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[:TEXT_CHARACTERS_MAX]}…"


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours of every day, in the recipient's time zone; they may span midnight."""

    since: time
    until: time
    zone: str = "UTC"

    def left_s(self, now: datetime) -> float:
        """How long it is still quiet; 0 when it is not."""
        here = now.astimezone(ZoneInfo(self.zone))
        at, over_midnight = here.time(), self.until <= self.since
        inside = (
            at >= self.since or at < self.until if over_midnight else self.since <= at < self.until
        )
        if not inside:
            return 0.0
        day = here.date() + timedelta(days=1 if over_midnight and at >= self.since else 0)
        end = datetime.combine(day, self.until, here.tzinfo)
        return max(1.0, (end.astimezone(UTC) - now).total_seconds())


def quiet_of(text: str) -> Quiet:
    """Such as `22:00-07:00 Europe/Berlin`; ValueError with what is wrong."""
    words = _WORDS.fullmatch(text.strip())
    if words is None:
        raise ValueError("must be like '22:00-07:00 Europe/Berlin'")
    try:
        since, until = time.fromisoformat(words[1]), time.fromisoformat(words[2])
        zone = words[3] or "UTC"
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise ValueError("has an invalid time or time zone") from None
    if since == until:
        raise ValueError("begins and ends at the same time")
    return Quiet(since, until, zone)
