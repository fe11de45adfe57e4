"""Parts of a text that is too long, cut so that no piece of a secret stands without its name.

Redaction finds most secrets by what stands before them. Where that was cut away, so is what may
belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["find_start", "keep_first", "keep_last_line", "note_omission"]

# The longest private key, and more than any value on lines of its own.
CONTINUED_BYTES_MAX = 32_768
# A line that ends so near before the cut is worth cutting at.
NEAR_BYTES = 4_096
# In so many lines after a cut, a value may belong to a name before it.
PAIR_LINES = 4
BODY_BYTES_MIN = 16
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_"
# What Docker and Kubernetes write before each line.
_TIME = re.compile(rb"\d{4}-\d\d-\d\dT\S{8,24} ")
_SECRET = re.compile(rb"kind[\"'\\]*:\s*[\"'\\]*Secret\b")
_HEXADECIMAL = re.compile(rb"(?=.*[a-f])(?=.*\d)[0-9a-f]{16,}").fullmatch
_RANDOM = re.compile(rb"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[^/]{12,}").fullmatch
_DIVIDERS = b" \t\r\n,;&\"'(){}[]<>|"
_VALUES = ("value", "parametervalue", "defaultvalue", "default", "content", "data", "string")


def note_omission(count: int) -> bytes:
    """The line that stands where bytes were left out; redaction reads tables across it."""
    return f"\n[... {count} bytes left out ...]\n".encode()


def find_start(data: bytes, *, inside: bool) -> int:
    """Where a text begins whose first lines may belong to what was left out before it.

    That is the rest of a line, when the text begins `inside` of one, and the lines that a key, a
    value below its name, or an item of a list takes.
    """
    at = data.find(b"\n") + 1 if inside else 0
    if inside and not at:
        return len(data)
    at = _skip_entries(data, at)
    limit, number, is_body = at + CONTINUED_BYTES_MAX, 0, False
    while at < min(limit, len(data)):
        end = data.find(b"\n", at) + 1 or len(data)
        line = _TIME.sub(b"", data[at:end], count=1)
        words = line.split()
        if words[:1] in ([b"-"], [b"|"], [b">"]):
            words, line = words[1:], b" " + line
        word = words[-1].strip(b"\"',;|\\") if words else b""
        had_body = is_body
        is_body = _is_body(word)
        if len(words) == 1:
            is_apart = line[:1] in b" \t\"'" or number == 0
            belongs = is_apart or is_body or (had_body and not word.strip(_BASE64))
        else:
            is_text = line[:1] in b" \t" and b":" not in line and b"=" not in line
            belongs = not words or is_body or is_text
        belongs = belongs or _is_row(line) or _is_entry(line, words)
        if not belongs and not (number < PAIR_LINES and _is_value(line)):
            return at
        number += bool(words)
        at = end
    return at


def _skip_entries(data: bytes, at: int) -> int:
    """Where the entries of a Kubernetes Secret end whose kind follows them."""
    indent = len(data[at:]) - len(data[at:].lstrip(b" "))
    found = _SECRET.search(data, at, at + CONTINUED_BYTES_MAX) if indent else None
    while found and at < found.start():
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end]
        if line.strip() and len(line) - len(line.lstrip(b" ")) < indent:
            break
        at = end
    return at


def _is_entry(line: bytes, words: Sequence[bytes]) -> bool:
    """Whether it looks like an entry of a Kubernetes Secret: a name, and base64."""
    if line[:1] not in b" \t" or len(words) != 2 or not words[0].endswith(b":"):
        return False
    value = words[1].strip(b"\"',")
    if len(value) < 8 or len(value) % 4 or value.strip(_BASE64):
        return False
    text = value.decode("ascii")
    return text.endswith("=") or (
        not (text.isalpha() and (text.islower() or text.istitle())) and (not text.isdigit())
    )


def _is_body(word: bytes) -> bool:
    """Whether it looks like a line of a key in base64."""
    if len(word) < BODY_BYTES_MIN or word.strip(_BASE64):
        return False
    return any(map(str.isdigit, (text := word.decode("ascii")))) and not (
        text.islower() or text.isupper()
    )


def _is_row(line: bytes) -> bool:
    """Whether it looks like a row of a table whose header is elsewhere."""
    text = line.strip()
    if b"\t" in text or text.count(b" | ") > 1:
        return True
    if text[:1] not in b"{[" and (b";" in text or b"," in text) and b" " not in text:
        return True
    # Of tables that blanks divide, or that have two columns, the rows with something random.
    is_table = b"   " in text or b" | " in text
    return is_table and any(_RANDOM(word) or _HEXADECIMAL(word) for word in text.split())


def _is_value(line: bytes) -> bool:
    """Whether it is the value of a pair whose name stands on another line."""
    name, sign, _ = line.replace(b"=", b":").partition(b":")
    return bool(sign) and name.strip(b" \t\"'-{\\").decode("latin-1").lower() in _VALUES


def keep_first(data: bytes, bytes_max: int) -> bytes:
    """The beginning, up to the end of a line, or of a word where the line is long."""
    if len(data) <= bytes_max:
        return data
    at = data.rfind(b"\n", max(0, bytes_max - NEAR_BYTES), bytes_max) + 1
    if at:
        return data[:at]
    cut = bytes_max
    while cut and data[cut - 1] not in _DIVIDERS:
        cut -= 1
    return data[:cut]


def keep_last_line(text: str, chars_max: int) -> str:
    """The last line that says something, up to the end of a word where it is too long."""
    lines = text.strip().splitlines()
    line = lines[-1].strip() if lines else ""
    if len(line) <= chars_max:
        return line
    return keep_first(line.encode("utf-8", "replace"), chars_max).decode("utf-8", "replace").strip()
