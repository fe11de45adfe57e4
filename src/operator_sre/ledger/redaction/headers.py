"""Authorization headers and cookies."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.ledger.redaction.findings import Finding, Pattern, detector
from operator_sre.ledger.redaction.names import Trust, name_of
from operator_sre.ledger.redaction.values import is_basic, is_secret, line_end, read_value

__all__ = ["TRIGGERS", "cookie_values", "find_cookies", "find_credentials"]

TRIGGERS = rb"bearer|basic|authorization|cookie"
SCHEMED_BYTES_MIN = 8
_SCHEMES = frozenset(
    b"bearer basic token apikey api-key oauth key splunk geniekey genie-key bot negotiate ntlm jwt"
    b" ssws".split()
)
_CREDENTIAL = Pattern(
    rb"(?i)\bauthorization[\"'\\]*\s{0,2}[:=]\s{0,4}[\[\"'`\\]*(?:[a-z][a-z0-9_-]{1,24}[ :+]+)?"
    rb"|\b(?:bearer|basic|apikey)(?: |%20|\+|: ?|, ?)"
)
_DIGEST = Pattern(rb"(?i)\bresponse=\"[0-9a-f]{32,64}\"")
_COOKIES = Pattern(rb"(?i)\b(?:set-)?cookie2?[\"'\\]*\s{0,2}[:=]\s{0,4}[\[\"'\\]*")
_COOKIE = Pattern(rb"[^\s=;,\"'\\]+=[^\s;,\"'\\]*")
_ATTRIBUTES = frozenset(
    b"path domain expires max-age samesite version priority secure httponly partitioned".split()
)
_SESSIONS = (b"sess", b"sid", b"auth", b"csrf", b"xsrf", b"jwt", b"remember", b"login", b"token")


def find_credentials(data: bytes) -> Iterator[Finding]:
    """What follows `Authorization:` and its scheme, or `Bearer` and `Basic` on their own."""
    yield from _find_schemes(data)
    for start, end in _DIGEST.spans(data):
        yield Finding(start + 10, end - 1, "credential")


@detector(_CREDENTIAL)
def _find_schemes(data: bytes, start: int, end: int) -> Iterator[Finding]:
    value = read_value(data, end)
    if value is None:
        return
    raw = value.of(data)
    head = data[start:end].lower()
    if b"basic" in head:
        found = is_basic(raw)
    elif b"bearer" in head or head.rstrip(b" :+").rpartition(b" ")[2].strip(b"\"'`") in _SCHEMES:
        is_header = head.startswith(b"authorization") and len(raw) >= SCHEMED_BYTES_MIN
        found = is_secret(raw, Trust.ANY if is_header else Trust.RANDOM)
    else:
        found = is_secret(raw, Trust.RANDOM) and b"=" not in raw.rstrip(b"=")
    if found:
        kind = "basic_auth" if b"basic" in head else "token"
        yield Finding(value.start, value.end, kind, value.plain(data))


def find_cookies(data: bytes) -> Iterator[Finding]:
    """Cookies that hold a session or look random, after `Cookie:` and `Set-Cookie:`."""
    done = 0
    for start, end in _COOKIES.spans(data):
        if start >= done:
            done = line_end(data, end, len(data))
            yield from cookie_values(data, end, done)


def cookie_values(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """The secret values among `a=1; b=2`."""
    for begin, last in _COOKIE.spans(data, start, end):
        name, _, value = data[begin:last].partition(b"=")
        lower = name.lower()
        if lower in _ATTRIBUTES or len(value) < 6:
            continue
        is_session = any(part in lower for part in _SESSIONS) or name_of(name) is not None
        trust = Trust.CHOSEN if is_session else Trust.RANDOM
        if is_secret(value, trust) and (is_session or len(value) >= 16):
            yield Finding(last - len(value), last, "session")
