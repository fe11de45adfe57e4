"""Credentials inside URLs and connection strings: what stands before the `@`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from operator_sre.ledger.redaction.findings import Finding, Pattern, detector
from operator_sre.ledger.redaction.names import Trust
from operator_sre.ledger.redaction.values import is_secret, is_uuid, looks_made

__all__ = ["TRIGGERS", "find_logins"]

_LINKS = rb"reset|confirm|verify|activate|invite|magic|unsubscribe|password|hooks?"
TRIGGERS = (
    rb"://\S*@|[:/][^\s:/@]{3,64}@[\w.-]+[:/]|[^\s/@]@//|/[\w-]*(?:" + _LINKS + rb")[\w-]*/"
    rb"|:\\/\\/|%3A%2F%2F|@(?:tcp|udp|unix)\(|sqlplus |expdp |impdp |jdbc:oracle:"
)
# Up to the colon before the password. A password may hold a slash or an at sign that is not
# encoded, so where it ends is decided afterwards.
_LOGIN = Pattern(
    rb"(?i)(?::|%3A)(?://|\\/\\/|%2F%2F)[^\s:/@\"'`<>?#]*(?::|%3A)"
    rb"|\b(?:sqlplus|expdp|impdp|sqlldr)(?: -\S+)* [\"']?\w+/|jdbc:oracle:\w+:\w+/"
)
_USER_ONLY = Pattern(rb"://[^\s:/@\"'`<>?#]{16,}@")
_DRIVER = Pattern(rb"[\w.-]+:[^\s:/@\"'`]+@(?:tcp|udp|unix)\(")
# Tokens in the place of the user, with a password that says nothing.
_USER_TOKEN = Pattern(rb"://[^\s:/@\"'`<>?#]{12,}:(?:x-oauth-basic|x|oauth2|api|token|)@")
# Paths that are secrets by themselves: the link alone gives access.
_LINK = Pattern(
    rb"(?i)/[\w-]*(?:" + _LINKS + rb")[\w-]*"
    rb"(?:/[\w-]{1,15}){0,3}/"
)
# Such a path may name a digest, which is no secret: `/hooks/x/commits/89e6c98d...`.
_DIGESTS = re.compile(rb"(?i)/(?:blobs?|commits?|digests?|refs?|revisions?|revs?|sha\d*|trees?)/$")
_DIGEST = re.compile(rb"[0-9a-f]{7,64}")
# Without a scheme, as some tools take it: `app:password@db:5432`, `app/password@//db:1521/x`.
_BARE_LOGIN = Pattern(
    rb"(?m)(?:^|[\s\"'=(])[\w.-]{1,32}:[^\s:/@\"'`<>]{4,64}@[\w.-]{2,64}(?::\d{2,5}|/)"
    rb"|\b[\w.-]+/[^\s/@\"']{3,64}@//"
)
_REST = Pattern(rb"[^\s\"'`<>\x00-\x1f]*")
_SEGMENT = Pattern(rb"[\w.~%=-]{16,256}")
REST_BYTES_MAX = 512


def find_logins(data: bytes) -> Iterator[Finding]:
    """Passwords in `scheme://user:password@host`, and tokens that stand for both."""
    yield from _find_passwords(data)
    yield from _find_users(data)
    yield from _find_drivers(data)
    yield from _find_user_tokens(data)
    yield from _find_links(data)
    yield from _find_bare_logins(data)


@detector(_LOGIN)
def _find_passwords(data: bytes, _: int, at: int) -> Iterator[Finding]:
    # It ends at the last `@` before the host.
    rest = data[at : _REST.at(data, at, min(at + REST_BYTES_MAX, len(data)))]
    following = rest.find(b"://")
    if following >= 0:
        rest = rest[:following]
    slash = rest.find(b"/")
    head = rest if slash < 0 else rest[:slash]
    last = head.rfind(b"@")
    if last < 0 and slash > 0 and not head.isdigit():
        # No at sign before the first slash: then the slash belongs to the password.
        last = rest.rfind(b"@")
        if b"?" in rest[:last] or b"," in rest[:last]:
            last = -1
    if last < 0:
        lowered = rest.lower()
        last = lowered.find(b"%40") if b"%2f" in lowered else -1
    raw = rest[: max(last, 0)]
    if is_secret(raw, Trust.ANY, is_env=True, at_least=1):
        yield Finding(at, at + len(raw), "password", unquote_to_bytes(raw))


@detector(_USER_ONLY)
def _find_users(data: bytes, start: int, end: int) -> Iterator[Finding]:
    if is_secret(data[start + 3 : end - 1], Trust.RANDOM):
        yield Finding(start + 3, end - 1, "token")


@detector(_BARE_LOGIN)
def _find_bare_logins(data: bytes, start: int, end: int) -> Iterator[Finding]:
    last = data.rindex(b"@", start, end)
    begin = start + next(at for at, byte in enumerate(data[start:end]) if byte in b":/") + 1
    if not data.startswith(b"sha", last + 1) and is_secret(data[begin:last], Trust.SAID):
        yield Finding(begin, last, "password", unquote_to_bytes(data[begin:last]))


@detector(_USER_TOKEN)
def _find_user_tokens(data: bytes, start: int, _: int) -> Iterator[Finding]:
    end = data.index(b":", start + 3)
    if is_secret(data[start + 3 : end], Trust.RANDOM):
        yield Finding(start + 3, end, "token")


@detector(_LINK)
def _find_links(data: bytes, start: int, end: int) -> Iterator[Finding]:
    last = _SEGMENT.at(data, end)
    if _DIGESTS.search(data[start:end]) and _DIGEST.fullmatch(data[end:last]):
        return
    if last > 0 and looks_made(data[end:last]) and not is_uuid(data[end:last]):
        yield Finding(end, last, "token")


@detector(_DRIVER)
def _find_drivers(data: bytes, start: int, end: int) -> Iterator[Finding]:
    begin = data.index(b":", start) + 1
    last = data.rindex(b"@", begin, end)
    if is_secret(data[begin:last], Trust.ANY, is_env=True, at_least=1):
        yield Finding(begin, last, "password")
