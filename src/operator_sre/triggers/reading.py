"""What a notification says: pure, strict about its form, and bounded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from operator_protocols.domain.health import Severity
from operator_sre.triggers.trigger import Trigger, TriggerKind

__all__ = ["ALERTS_MAX", "Told", "UnreadableError", "read_body"]

ALERTS_MAX = 1000
NAME_CHARACTERS_MAX = 120
TEXT_CHARACTERS_MAX = 1000
LABELS_MAX = 64
WEBHOOK_VERSION = "4"
_SEVERITIES = {
    **dict.fromkeys(("critical", "page", "emergency", "fatal", "high", "p1"), Severity.CRITICAL),
    **dict.fromkeys(("info", "information", "none", "low", "p4", "p5"), Severity.INFO),
}
_OVER = {"ok", "resolved", "cleared", "closed", "recovered", "recovery", "normal", "up", "healthy"}


class UnreadableError(ValueError):
    """The body is not what this trigger understands; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Told:
    """One alert in the words of whoever sent it; `place` is what it says it is at."""

    name: str
    fingerprint: str
    severity: Severity
    summary: str
    since: datetime
    firing: bool
    place: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def read_body(trigger: Trigger, body: bytes, *, at: datetime) -> Sequence[Told]:
    """The alerts of a notification that came at this moment; UnreadableError says what is wrong."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableError("The body is not JSON.") from error
    if trigger.kind is TriggerKind.ALERTMANAGER:
        return _webhook(trigger, document, at)
    return _generic(trigger, document, at)


def _webhook(trigger: Trigger, document: Any, at: datetime) -> Sequence[Told]:
    if not isinstance(document, dict) or not isinstance(document.get("alerts"), list):
        raise UnreadableError("The body is not a notification of Alertmanager.")
    if document.get("version") != WEBHOOK_VERSION:
        raise UnreadableError(f"Only version {WEBHOOK_VERSION!r} of the webhook is understood.")
    return [_alert(trigger, one, at) for one in _bounded(document["alerts"])]


def _alert(trigger: Trigger, body: Any, at: datetime) -> Told:
    if not isinstance(body, dict) or body.get("status") not in ("firing", "resolved"):
        raise UnreadableError("An alert has to be an object that is firing or resolved.")
    labels, notes = _texts(body, "labels"), _texts(body, "annotations")
    name = _name(labels.get("alertname", ""))
    told = next((notes[key] for key in ("summary", "description", "message") if notes.get(key)), "")
    given = body.get("fingerprint")
    identity = given if isinstance(given, str) and given else json.dumps(labels, sort_keys=True)
    return Told(
        name=name,
        fingerprint=_digest(identity),
        severity=_severity(labels.get("severity", "")),
        summary=_text(told or name),
        since=_moment(body.get("startsAt"), at),
        firing=body["status"] == "firing",
        place=labels.get(trigger.target, "") if trigger.target else "",
        labels={key: labels[key] for key in sorted(labels)[:LABELS_MAX]},
    )


def _generic(trigger: Trigger, document: Any, at: datetime) -> Sequence[Told]:
    found = _at(document, trigger.fields["alerts"])
    return [
        _event(trigger, one, at) for one in _bounded(found if isinstance(found, list) else [found])
    ]


def _event(trigger: Trigger, body: Any, at: datetime) -> Told:
    if not isinstance(body, dict):
        raise UnreadableError("An alert has to be an object.")
    fields = trigger.fields
    values = {name: _scalar(_at(body, path)) for name, path in fields.items() if path}
    if not values.get("name"):
        raise UnreadableError(f"An alert has no text at {fields['name']!r}, which names it.")
    name, place = _name(values["name"]), _text(values.get("target", ""))
    identity = values.get("fingerprint") or json.dumps([values["name"], place])
    return Told(
        name=name,
        fingerprint=_digest(identity),
        severity=_severity(values.get("severity", "")),
        summary=_text(values.get("summary") or name),
        since=at,
        firing=not _is_over(_at(body, fields["state"]) if fields["state"] else None),
        place=place,
        labels={"target": place} if place else {},
    )


def _is_over(state: Any) -> bool:
    """Only a word that says so; what is not understood fires, because unknown is not healthy."""
    if isinstance(state, bool):
        return not state
    return isinstance(state, str) and state.strip().lower() in _OVER


def _at(document: Any, path: str) -> Any:
    for step in path.split(".") if path else ():
        if not isinstance(document, dict):
            return None
        document = document.get(step)
    return document


def _scalar(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        return ""
    return str(value)


def _texts(body: Mapping[str, Any], key: str) -> dict[str, str]:
    found = body.get(key) or {}
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise UnreadableError(f"{key!r} of an alert have to be texts.")
    return {_text(name): _text(text) for name, text in found.items()}


def _bounded(alerts: list[Any]) -> list[Any]:
    if len(alerts) > ALERTS_MAX:
        raise UnreadableError(f"There are {len(alerts)} alerts; at most {ALERTS_MAX} at once.")
    return alerts


def _text(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[: TEXT_CHARACTERS_MAX - 1]}…"


def _name(text: str) -> str:
    shown = "".join(one if one.isprintable() else "?" for one in text.strip())
    return shown[:NAME_CHARACTERS_MAX] or "unnamed"


def _severity(word: str) -> Severity:
    return _SEVERITIES.get(word.strip().lower(), Severity.WARNING)


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:16]


def _moment(text: Any, at: datetime) -> datetime:
    """When it began, if that can be read and is not in the future or in the year one."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return at
    try:
        told = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        return at
    return told if datetime(2000, 1, 1, tzinfo=UTC) < told <= at else at
