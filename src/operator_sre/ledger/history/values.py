"""What in a command line varies from time to time: numbers, paths, hosts, ids."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["kind_of"]

# Each is tried in turn on a whole word; all of them are linear in its length.
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("secret", re.compile(r".*\[REDACTED:[^\]]*\].*", re.S)),
    ("url", re.compile(r"[a-z][a-z0-9+.-]*://.+", re.I)),
    ("number", re.compile(r"\d+(?:\.\d+)?(?:%|[smhdKMGT]i?B?|ms)?")),
    ("host", re.compile(r"(?:[\w.-]+@)?\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?")),
    ("host", re.compile(r"(?=[^:]*:[^:]*:)\[?[0-9a-f:.]{2,45}\]?(?::\d{1,5})?", re.I)),
    ("host", re.compile(r"[A-Za-z][\w.-]*:\d{1,5}")),
    ("host", re.compile(r"[\w.-]+@[\w.-]+")),
    ("path", re.compile(r"(?:[\w.-]+:)?[~.\w-]*/\S*")),
    ("id", re.compile(r"(?=[^\d]*\d)[0-9a-f]{8,}(?:-[0-9a-f]+)*", re.I)),
    ("id", re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*[-_](?=[a-z]*\d)[A-Za-z0-9]+")),
    ("host", re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\.(?:com|net|org|io|local|internal)")),
)
WORD_CHARS_MAX = 256


@lru_cache(maxsize=8192)
def kind_of(word: str) -> str:
    """What kind of varying thing a bare word is; '' when it belongs to the command itself."""
    if len(word) > WORD_CHARS_MAX:
        return ""
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(word)), "")
