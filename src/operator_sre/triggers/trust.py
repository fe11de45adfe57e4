"""Whether a notification comes from whom it says: pure, and in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping

from operator_sre.triggers.trigger import Trigger

__all__ = ["SKEW_S_MAX", "refusal", "signature_of"]

# How far the sender's clock may be from ours; an older notification is a replay.
SKEW_S_MAX = 300.0
_DIGITS_MAX = 15


def refusal(
    trigger: Trigger,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_s: float,
    secret: Callable[[str], str],
) -> str:
    """Why it is not trusted, or "". Header names are in lower case.

    Where a trigger has a token and a signature, both have to be right.
    """
    if trigger.token_file:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return "the bearer token is missing"
        if not _same(token.strip(), secret(trigger.token_file)):
            return "the bearer token is wrong"
    if trigger.hmac_file:
        return _unsigned(trigger, headers, body, now_s, secret(trigger.hmac_file))
    return ""


def signature_of(secret: str, time: str, body: bytes) -> str:
    """What a sender signs with: HMAC-SHA256 of its clock, a dot and the body, in hex."""
    signed = time.encode() + b"." + body
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def _unsigned(
    trigger: Trigger, headers: Mapping[str, str], body: bytes, now_s: float, secret: str
) -> str:
    given = headers.get(trigger.hmac_header.lower(), "").strip()
    time = headers.get(trigger.time_header.lower(), "").strip()
    if not given or not time:
        return "the signature or its time is missing"
    if not (time.isascii() and time.isdigit() and len(time) <= _DIGITS_MAX):
        return "the time of the signature is not a number of seconds"
    # First the signature: whoever cannot sign learns nothing about our clock.
    if not secret or not _same(given.removeprefix("sha256="), signature_of(secret, time, body)):
        return "the signature is wrong"
    if abs(now_s - int(time)) > SKEW_S_MAX:
        return "the signature is too old, or the sender's clock is wrong"
    return ""


def _same(given: str, expected: str) -> bool:
    """Equal, in a time that does not tell how much of it is; an empty secret equals nothing."""
    one, other = (hashlib.sha256(text.encode("utf-8", "replace")) for text in (given, expected))
    return hmac.compare_digest(one.digest(), other.digest()) and bool(expected)
