"""Private keys in PEM, over many lines or in one."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.ledger.redaction.finding import Finding
from operator_sre.ledger.redaction.pattern import Pattern
from operator_sre.ledger.redaction.reading import line_start

__all__ = ["TRIGGERS", "find_pem", "open_pem"]

TRIGGERS = rb"-----BEGIN "
KEY_BYTES_MAX = 32_768
_BEGIN = Pattern(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_END = b"-----END"
_LEAD = Pattern(rb"(?:\\+[nr]|[\s\"'+])*")
_BREAKS = (b"\\n", b"\\r", b'"', b"'", b"\\")
_BASE64 = Pattern(rb"[A-Za-z0-9+/=]{16,}")
# The lines of a key that was cut off: nothing but base64, after headers that old formats have.
_BODY = Pattern(
    rb"(?:[A-Z][\w-]+: [^\n]*\n)*"
    rb"(?:(?:\\+[nr]|[\s\"'+|>])*[A-Za-z0-9+/=]{20,})+(?:(?:\\+[nr]|\s)+[A-Za-z0-9+/]+={1,2})?"
)


def find_pem(data: bytes) -> Iterator[Finding]:
    """What stands between BEGIN and END of a private key, or what is left of it."""
    begins = list(_BEGIN.spans(data)) if b"PRIVATE KEY" in data else []
    for number, (_, end) in enumerate(begins):
        following = begins[number + 1][0] if number + 1 < len(begins) else len(data)
        limit = min(following, end + KEY_BYTES_MAX)
        start = _LEAD.at(data, end, limit)
        ends = data.find(_END, start, limit)
        is_cut = ends < 0
        last = _BODY.at(data, start, limit) if is_cut else _without_breaks(data, start, ends)
        if last > start and _BASE64.first(data, start, last):
            yield Finding(start, last, "private_key")


def _without_breaks(data: bytes, start: int, end: int) -> int:
    """The end of the body without the line break, real or written `\\n`, before END."""
    while end > start:
        if data[end - 1 : end].isspace():
            end -= 1
            continue
        width = next((len(one) for one in _BREAKS if data.endswith(one, start, end)), 0)
        if not width:
            break
        end -= width
    return end


def open_pem(data: bytes) -> int | None:
    """Where the line of a key begins that has not ended yet; None when all have."""
    if b"PRIVATE KEY" not in data:
        return None
    begins = list(_BEGIN.spans(data))
    if not begins or data.find(_END, begins[-1][1]) >= 0:
        return None
    if len(data) - begins[-1][1] > KEY_BYTES_MAX:
        return None
    return line_start(data, begins[-1][0])
