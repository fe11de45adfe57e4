"""A Notice is one thing that people are to hear of; a Message holds several. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.ticket import Ticket
from operator_sre.notify.event import Event

__all__ = ["KINDS", "Message", "Notice", "message_of", "notice_of"]

SHOWN_MAX = 20
TITLE_CHARACTERS_MAX = 150
TEXT_CHARACTERS_MAX = 400


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
    """What an entry means for people; None for most. An approval that nobody knows is critical."""
    event = KINDS.get(entry.kind)
    if event is None:
        return None
    if event is Event.APPROVAL_NEEDED:
        return _asked(entry, ticket, approval)
    if ticket is None:  # its story has been purged since
        return None
    severity = ticket.severity
    verb = event.value
    lines = [
        f"{ticket.subject} / {one.target}: {one.invariant}: {one.detail}"
        for one in ticket.violations[:3]
    ]
    if len(ticket.violations) > 3:
        lines.append(f"and {len(ticket.violations) - 3} more violations")
    if event is Event.OPENED:
        lines.append(f"since {min(one.since for one in ticket.violations):%Y-%m-%d %H:%M:%S} UTC")
    else:
        lines.append(f"because: {entry.payload.get('reason', '')}")
    return Notice(
        event=event,
        severity=severity,
        headline=f"ticket {ticket.id} {verb} ({severity}): {ticket.summary}",
        lines=tuple(lines),
        command=f"operator tickets show {ticket.id}",
        at=entry.at,
        page=f"/tickets/{ticket.id}",
    )


def _asked(entry: Entry, ticket: Ticket | None, approval: Approval | None) -> Notice:
    told: Mapping[str, Any] = entry.payload
    name = str(told.get("approval", told).get("id", ""))
    louder = entry.kind is Kind.APPROVAL_ESCALATED
    what = approval.action.command if approval else "a command"
    lines = []
    if approval is not None:
        where = f"{approval.subject} / {approval.action.target}" if approval.subject else "machine"
        lines += [f"{where}: {what}", f"risk {approval.risk}: {approval.explanation}"]
        lines.append(f"until {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC")
    if louder:
        lines.append(f"because: {told.get('reason', 'nobody answered')}")
    if ticket is not None:
        lines.append(f"for ticket {ticket.id}: {ticket.summary}")
    return Notice(
        event=Event.APPROVAL_NEEDED,
        severity=ticket.severity if ticket else Severity.CRITICAL,
        headline=f"approval {'still ' if louder else ''}needed: {what}",
        lines=tuple(lines),
        command=f"operator approvals approve {name}",
        at=entry.at,
        page=f"/approvals/{quote(name, safe='')}",
    )


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
    parts += [
        "\n  ".join(
            [_clean(one.headline), *map(_clean, one.lines), one.command, *_link(one, web_url)]
        )
        for one in notices[:SHOWN_MAX]
    ]
    if len(notices) > SHOWN_MAX:
        parts.append(f"and {len(notices) - SHOWN_MAX} more: operator tickets list")
    title = f"{'[again] ' if again else ''}Operator: {_title(notices)}"
    return Message(title[:TITLE_CHARACTERS_MAX], "\n\n".join(parts))


def _link(one: Notice, web_url: str) -> list[str]:
    return [f"{web_url}{one.page}"] if web_url and one.page else []


def _title(notices: Sequence[Notice]) -> str:
    if len(notices) == 1:
        return _clean(notices[0].headline)
    counts = Counter(one.event for one in notices)
    words = {event: event.value.replace("_", " ") for event in Event}
    return ", ".join(f"{counts[event]} {words[event]}" for event in Event if counts[event])


def _clean(text: str) -> str:
    """One line, and no longer than people read."""
    line = "".join(one if one.isprintable() else " " for one in text)
    return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[:TEXT_CHARACTERS_MAX]}…"
