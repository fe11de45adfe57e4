"""A Trigger is one door through which alerts come in."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from operator_protocols.domain.health import Severity

__all__ = [
    "ALERTS_MAX",
    "FIELDS",
    "SKEW_S_MAX",
    "SentAlert",
    "Trigger",
    "TriggerKind",
    "UnreadableError",
    "read_body",
    "refusal",
    "signature_of",
]

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
class SentAlert:
    """One alert as its sender describes it; `place` is the target that it names."""

    name: str
    fingerprint: str
    severity: Severity
    summary: str
    since: datetime
    firing: bool
    place: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def read_body(trigger: Trigger, body: bytes, *, at: datetime) -> Sequence[SentAlert]:
    """The alerts of a notification that arrived at `at`; UnreadableError says what is wrong."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableError("The body is not JSON.") from error
    if trigger.kind is TriggerKind.ALERTMANAGER:
        if not isinstance(document, dict) or not isinstance(document.get("alerts"), list):
            raise UnreadableError("The body is not a notification of Alertmanager.")
        if document.get("version") != WEBHOOK_VERSION:
            raise UnreadableError(f"Only version {WEBHOOK_VERSION!r} of the webhook is supported.")
        alerts, read = document["alerts"], _read_webhook_alert
    else:
        found = _value_at(document, trigger.fields["alerts"])
        alerts, read = found if isinstance(found, list) else [found], _read_generic_alert
    if len(alerts) > ALERTS_MAX:
        raise UnreadableError(
            f"The notification has {len(alerts)} alerts; the limit is {ALERTS_MAX}."
        )
    return [read(trigger, alert, at) for alert in alerts]


def _read_webhook_alert(trigger: Trigger, body: Any, at: datetime) -> SentAlert:
    if not isinstance(body, dict) or body.get("status") not in ("firing", "resolved"):
        raise UnreadableError("An alert must be an object that is firing or resolved.")
    labels, notes = _read_texts(body, "labels"), _read_texts(body, "annotations")
    name = _name(labels.get("alertname", ""))
    texts = (notes.get(key) for key in ("summary", "description", "message"))
    since: datetime = at
    started: Any = body.get("startsAt")
    # When it began, if that can be read and is not in the future or in the year one.
    with suppress(TypeError, ValueError, OverflowError):
        start = datetime.fromisoformat(started)
        start = start.replace(tzinfo=UTC) if start.tzinfo is None else start.astimezone(UTC)
        since = start if datetime(2000, 1, 1, tzinfo=UTC) < start <= at else at
    given = body.get("fingerprint")
    identity = given if isinstance(given, str) and given else json.dumps(labels, sort_keys=True)
    return SentAlert(
        name=name,
        fingerprint=_digest(identity),
        severity=_severity(labels.get("severity", "")),
        summary=_text(next(filter(None, texts), name)),
        since=since,
        firing=body["status"] == "firing",
        place=labels.get(trigger.target, "") if trigger.target else "",
        labels={key: labels[key] for key in sorted(labels)[:LABELS_MAX]},
    )


def _read_generic_alert(trigger: Trigger, body: Any, at: datetime) -> SentAlert:
    if not isinstance(body, dict):
        raise UnreadableError("An alert must be an object.")
    fields = trigger.fields
    values: dict[str, str] = {}
    for name, path in fields.items():
        value = _value_at(body, path) if path else None
        is_scalar = not isinstance(value, bool | dict | list) and value is not None
        values[name] = str(value) if is_scalar else ""
    if not values.get("name"):
        raise UnreadableError(f"An alert has no text at {fields['name']!r}, which names it.")
    name, place = _name(values["name"]), _text(values.get("target", ""))
    state = _value_at(body, fields["state"]) if fields["state"] else None
    # Only a word that says so ends it; what is not understood fires: unknown is not healthy.
    is_over = isinstance(state, str) and state.strip().lower() in _OVER
    identity = values.get("fingerprint") or json.dumps([values["name"], place])
    return SentAlert(
        name=name,
        fingerprint=_digest(identity),
        severity=_severity(values.get("severity", "")),
        summary=_text(values.get("summary") or name),
        since=at,
        firing=state if isinstance(state, bool) else not is_over,
        place=place,
        labels={"target": place} if place else {},
    )


def _value_at(document: Any, path: str) -> Any:
    for step in path.split(".") if path else ():
        if not isinstance(document, dict):
            return None
        document = document.get(step)
    return document


def _read_texts(body: Mapping[str, Any], key: str) -> dict[str, str]:
    texts = body.get(key) or {}
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise UnreadableError(f"{key!r} of an alert must be strings.")
    return {_text(name): _text(text) for name, text in texts.items()}


def _text(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else f"{text[: TEXT_CHARACTERS_MAX - 1]}…"


def _name(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in text.strip())
    return shown[:NAME_CHARACTERS_MAX] or "unnamed"


def _severity(word: str) -> Severity:
    return _SEVERITIES.get(word.strip().lower(), Severity.WARNING)


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:16]


# Where a generic body has what we look for, unless the trigger says otherwise.
FIELDS: Mapping[str, str] = {
    "alerts": "",
    "name": "name",
    "target": "target",
    "state": "state",
    "severity": "severity",
    "summary": "summary",
    "fingerprint": "",
}

# How far the sender's clock may be from ours; an older notification is a replay.
SKEW_S_MAX = 300.0

_DIGITS_MAX = 15


class TriggerKind(StrEnum):
    """Whose words it understands."""

    ALERTMANAGER = "alertmanager"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Trigger:
    """One door: whose words it understands, how senders prove themselves, what its alerts are of.

    Secrets lie in files. With a `subject` its alerts are checked by our own look; `target` is the
    label that names the part of it, and `invariant` what they break, instead of one of their own.
    `fields` are the paths into a generic body.
    """

    name: str
    kind: TriggerKind
    token_file: str = ""
    hmac_file: str = ""
    hmac_header: str = "x-operator-signature"
    time_header: str = "x-operator-timestamp"
    subject: str = ""
    target: str = ""
    invariant: str = ""
    open: bool = False
    fields: Mapping[str, str] = field(default_factory=lambda: dict(FIELDS))

    @property
    def guarded(self) -> bool:
        """True when a sender has to authenticate."""
        return bool(self.token_file or self.hmac_file)

    @property
    def about(self) -> str:
        """The subject that its tickets are filed under."""
        return self.subject or self.name


def refusal(
    trigger: Trigger,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_s: float,
    secret: Callable[[str], str],
) -> str:
    """Why it is not trusted, or "". Header names are in lower case.

    Where a trigger has a token and a signature, both must be right.
    """
    if trigger.token_file:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return "the bearer token is missing"
        if not _same(token.strip(), secret(trigger.token_file)):
            return "the bearer token is wrong"
    if not trigger.hmac_file:
        return ""
    key = secret(trigger.hmac_file)
    given = headers.get(trigger.hmac_header.lower(), "").strip()
    time = headers.get(trigger.time_header.lower(), "").strip()
    if not given or not time:
        return "the signature or its time is missing"
    if not (time.isascii() and time.isdigit() and len(time) <= _DIGITS_MAX):
        return "the time of the signature is not a number of seconds"
    # First the signature: a caller who cannot sign learns nothing about our clock.
    if not key or not _same(given.removeprefix("sha256="), signature_of(key, time, body)):
        return "the signature is wrong"
    if abs(now_s - int(time)) > SKEW_S_MAX:
        return "the signature is too old, or the sender's clock is wrong"
    return ""


def signature_of(secret: str, time: str, body: bytes) -> str:
    """What a sender signs with: HMAC-SHA256 of its clock, a dot and the body, in hex."""
    signed = time.encode() + b"." + body
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _same(given: str, expected: str) -> bool:
    """True if equal, compared in constant time; an empty secret equals nothing."""
    actual, other = (hashlib.sha256(text.encode("utf-8", "replace")) for text in (given, expected))
    return hmac.compare_digest(actual.digest(), other.digest()) and bool(expected)
