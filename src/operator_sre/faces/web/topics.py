"""Which parts of pages an entry concerns, and which entries become a notification. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from operator_protocols.domain.entry import Entry, Kind
from operator_sre.app.story import brief_of
from operator_sre.drawing import visible

__all__ = ["TOPICS", "note_of", "topics_of"]

WORDS_MAX = 160
# Each topic with how the kinds begin that belong to it. A ticket and a run have their own besides.
TOPICS: dict[str, tuple[str, ...]] = {
    "health": ("observed", "alert", "silence", "ticket_opened", "ticket_resolved", "ticket_closed"),
    "tickets": ("ticket",),
    "approvals": ("approval", "kill_switch", "policy"),
    "confirmations": ("confirmation",),
    "rules": ("rule",),
    "runs": ("run",),
    "commands": ("tool", "permit", "refused", "verdict", "pattern"),
    "restraints": ("kill_switch", "mode", "session", "limits", "policy"),
    "policy": ("policy", "rule", "confirmation"),
    "silences": ("silence",),
    "secrets": ("secret",),
    "tokens": ("token", "access", "signed", "listener"),
    "workflows": ("workflow",),
}


def topics_of(entry: Entry) -> list[str]:
    """The topics of one entry; `ledger` is a topic of all."""
    kind = entry.kind.value
    found = [name for name, starts in TOPICS.items() if kind.startswith(starts)]
    found += [f"ticket:{entry.ticket}"] if entry.ticket is not None else []
    found += [f"run:{entry.run}"] if entry.run else []
    return [*found, "ledger"]


def note_of(entry: Entry) -> dict[str, Any]:
    """The desktop notification of an entry; empty for most."""
    place = f"/tickets/{entry.ticket}" if entry.ticket is not None else "/"
    match entry.kind:
        case Kind.APPROVAL_REQUESTED:
            approval = _document(entry, "approval")
            action = approval.get("action")
            brief = brief_of(action) if isinstance(action, Mapping) else ""
            return _note(
                "Approval required",
                visible(brief[:WORDS_MAX]) or "An action needs approval.",
                _place_of("/approvals", approval),
            )
        case Kind.CONFIRMATION_REQUESTED:
            approval = _document(entry, "confirmation")
            text = visible(str(approval.get("rationale", ""))[:WORDS_MAX])
            return _note("Confirmation required", text, _place_of("/confirmations", approval))
        case Kind.TICKET_OPENED:
            return _note(f"Ticket {entry.ticket}", _text(entry, "summary"), place)
        case Kind.TICKET_ESCALATED:
            return _note(f"Ticket {entry.ticket} is escalated", _text(entry, "reason"), place)
        case Kind.KILL_SWITCH_ON:
            return _note("The kill switch is on", _text(entry, "reason"), "/")
        case _:
            return {}


def _document(entry: Entry, name: str) -> Mapping[str, Any]:
    """A document that an entry holds; empty where it was purged."""
    found = entry.payload.get(name)
    return found if isinstance(found, Mapping) else {}


def _place_of(place: str, document: Mapping[str, Any]) -> str:
    """Where it is answered."""
    name = str(document.get("id", ""))
    return f"{place}/{quote(name, safe='')}" if name else place


def _note(title: str, text: str, place: str) -> dict[str, Any]:
    return {"note": {"title": title, "text": text, "place": place}}


def _text(entry: Entry, name: str) -> str:
    return visible(str(entry.payload.get(name, ""))[:WORDS_MAX])
