"""The head of a request, read strictly: what two readers could read in two ways is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

from operator_sre.executor.porter.rules import Refused

__all__ = ["BODY_BYTES_MAX", "HEAD_BYTES_MAX", "Head", "read_head"]

HEAD_BYTES_MAX = 16 * 1024
HEADERS_MAX = 64
# A script goes into a container as variables, and the kernel takes no more than two megabytes.
BODY_BYTES_MAX = 2 * 1024 * 1024
BAD, LENGTH_REQUIRED, TOO_LARGE = 400, 411, 413

_LINE = re.compile(rb"(GET|HEAD|POST) (/[!-~]{0,12000}) HTTP/1\.1")
_OTHER = re.compile(rb"([A-Z]{1,16} /[!-~]{0,150})[!-~]* HTTP/1\.1")
_HEADER = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]+):([ -~\t]*)")
_DIGITS = re.compile(r"[0-9]{1,10}")
_CONNECTION = frozenset({"close", "keep-alive", "upgrade"})
# Duplicates would be ambiguous.
_ONCE = ("host", "content-length", "upgrade", "connection")


@dataclass(frozen=True, slots=True)
class Head:
    """One request without its body. `upgrades` when both sides want to speak afterwards."""

    method: str
    path: str
    query: str
    length: int
    upgrades: bool = False


def read_head(raw: bytes) -> Head | Refused:
    """What a head says, which ends with an empty line. Pure."""
    lines = raw.removesuffix(b"\r\n\r\n").split(b"\r\n")
    first = _LINE.fullmatch(lines[0])
    if first is None:
        other = _OTHER.fullmatch(lines[0])
        if other is None:
            return _bad("malformed request line")
        return Refused(f"{other[1].decode()} is not allowed.")
    if len(lines) > HEADERS_MAX:
        return _bad("too many headers")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        found = _HEADER.fullmatch(line)
        if found is None:
            return _bad("malformed header")
        name = found[1].decode().lower()
        if name in headers and name in _ONCE:
            return _bad(f"duplicate header {name}")
        headers[name] = found[2].decode().strip(" \t")
    # The head as a whole: how long its body is, and what becomes of the connection.
    method = first[1].decode()
    target = first[2].decode()
    if "host" not in headers:
        return _bad("missing Host header")
    if "transfer-encoding" in headers or "trailer" in headers or "te" in headers:
        return Refused("Send a Content-Length header: chunked bodies are refused.", LENGTH_REQUIRED)
    if "expect" in headers:
        return _bad("Expect header")
    digits = headers.get("content-length", "0")
    if _DIGITS.fullmatch(digits) is None:
        return _bad("malformed Content-Length")
    length = int(digits)
    if length > BODY_BYTES_MAX:
        return Refused(f"The body is larger than {BODY_BYTES_MAX // 1024**2} MB.", TOO_LARGE)
    if length and method != "POST":
        return _bad("unexpected body")
    words = {each.strip().lower() for each in headers.get("connection", "close").split(",")}
    if not words <= _CONNECTION:
        return _bad("malformed Connection header")
    upgrades = "upgrade" in words
    if upgrades is not ("upgrade" in headers) or headers.get("upgrade", "tcp").lower() != "tcp":
        return Refused("A connection can only be upgraded to a plain stream.")
    path, _, query = target.partition("?")
    return Head(method, path, query, length, upgrades)


def _bad(reason: str) -> Refused:
    return Refused(f"This request is not valid: {reason}.", BAD)
