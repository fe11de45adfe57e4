"""A Trigger is one door through which alerts come in."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["FIELDS", "SKEW_S_MAX", "Trigger", "TriggerKind", "refusal", "signature_of"]

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
