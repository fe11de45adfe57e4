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

from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.ticket import Ticket

__all__ = ["KINDS", "Event", "Message", "Notice", "Quiet", "message_of", "notice_of", "quiet_of"]

SHOWN_MAX = 20
VIOLATIONS_SHOWN_MAX = 3
TICKETS_NAMED_MAX = 8
TICKETS_LISTED_MAX = 50
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

    `page` is where it is shown in the web console, `ticket` the number of its ticket, if any.
    `recipients` are the groups and people that a request is for now.
    """

    event: Event
    severity: Severity
    headline: str
    lines: tuple[str, ...]
    command: str
    at: datetime
    page: str = ""
    ticket: int | None = None
    recipients: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent: a line, and a text."""

    title: str
    body: str


def notice_of(
    entry: Entry,
    ticket: Ticket | None,
    approval: Approval | None,
    diagnosis: Diagnosis | None = None,
) -> Notice | None:
    """The notice of an entry; None for most. An unknown approval is critical.

    `diagnosis` is the newest one of the ticket.
    """
    event = KINDS.get(entry.kind)
    if event is None:
        return None
    payload: Mapping[str, Any] = entry.payload
    severity = ticket.severity if ticket else Severity.CRITICAL
    lines: list[str] = []
    recipients: frozenset[str] = frozenset()
    if event is Event.APPROVAL_NEEDED:
        name = str(payload.get("approval", payload).get("id", ""))
        louder = entry.kind is Kind.APPROVAL_ESCALATED
        command = approval.action.command if approval else "a command"
        if approval is not None:
            subject, target = approval.subject, approval.action.target
            lines.append(f"{f'{subject} / {target}' if subject else 'machine'}: {command}")
            if approval.action.expected:
                lines.append(f"expects: {approval.action.expected}")
            lines.append(f"risk {approval.risk}: {approval.explanation}")
            lines.append(f"urgency: {approval.action.urgency.replace('_', ' ')}")
            step = payload.get("step", 0)
            for approver in approval.chain[step : step + 1]:
                recipients = frozenset({approver.name, *approver.people})
                lines.append(f"asked: {approver.name} ({', '.join(approver.people)})")
            lines.append(f"until {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC")
        if louder:
            lines.append(f"because: {payload.get('reason', 'no decision in time')}")
        if ticket is not None:
            lines.append(f"for ticket {ticket.id} ({severity}): {ticket.summary}")
            lines += _describe_break(ticket) + _describe_diagnosis(diagnosis)
        of = f" ({severity})" if ticket is not None else ""
        headline = f"approval {'still ' if louder else ''}needed{of}: {command}"
        command, page = f"operator approvals approve {name}", f"/approvals/{quote(name, safe='')}"
    elif ticket is None:  # its story has been purged since
        return None
    else:
        lines += _describe_break(ticket)
        if event is Event.OPENED:
            since = min(violation.since for violation in ticket.violations)
            lines.append(f"since {since:%Y-%m-%d %H:%M:%S} UTC")
        else:
            lines += _describe_diagnosis(diagnosis)
            lines.append(f"because: {payload.get('reason', '')}")
        headline = f"ticket {ticket.id} {event.value} ({severity}): {ticket.title}"
        command, page = f"operator tickets show {ticket.id}", f"/tickets/{ticket.id}"
    number = ticket.id if ticket is not None else None
    return Notice(
        event, severity, headline, tuple(lines), command, entry.at, page, number, recipients
    )


def _describe_break(ticket: Ticket) -> list[str]:
    lines = [
        f"{ticket.subject} / {violation.target}: {violation.invariant}: {violation.detail}"
        for violation in ticket.violations[:VIOLATIONS_SHOWN_MAX]
    ]
    more = len(ticket.violations) - VIOLATIONS_SHOWN_MAX
    return [*lines, f"and {more} more violations"] if more > 0 else lines


def _describe_diagnosis(diagnosis: Diagnosis | None) -> list[str]:
    if diagnosis is None:
        return []
    sure = f"{min(diagnosis.confidence, 0.999):.1%}"
    return [
        f"diagnosis: {diagnosis.summary} (confidence {sure})",
        f"proposed: {diagnosis.choice}",
    ]


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
        parts.append("These messages were delayed because the hourly limit was reached.")
    for notice in notices[:SHOWN_MAX]:
        lines = [_clean(notice.headline), *map(_clean, notice.lines), notice.command]
        if web_url and notice.page:
            lines.append(f"{web_url}{notice.page}")
        parts.append("\n  ".join(lines))
    if len(notices) > SHOWN_MAX:
        more = notices[SHOWN_MAX:]
        tickets_left = {notice.ticket: _clean(notice.headline) for notice in more if notice.ticket}
        listed = list(tickets_left.values())[:TICKETS_LISTED_MAX]
        parts.append("\n  ".join([f"and {len(more)} more: operator tickets list", *listed]))
    if len(notices) == 1:
        headline = _clean(notices[0].headline)
    else:
        counts = Counter(notice.event for notice in notices)
        words = {event: event.value.replace("_", " ") for event in Event}
        headline = ", ".join(f"{counts[event]} {words[event]}" for event in Event if counts[event])
        worst = max(notice.severity for notice in notices)
        tickets = sorted({notice.ticket for notice in notices if notice.ticket is not None})
        if tickets:
            named = ", ".join(map(str, tickets[:TICKETS_NAMED_MAX]))
            left = len(tickets) - TICKETS_NAMED_MAX
            named += f" and {left} more" if left > 0 else ""
            headline += f" ({worst}): ticket{'s' * (len(tickets) > 1)} {named}"
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
