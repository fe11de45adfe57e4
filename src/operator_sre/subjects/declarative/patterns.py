"""Patterns of RE2, whose time is linear in the text whatever they are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

__all__ = ["PATTERN_CHARACTERS_MAX", "PatternError", "pattern_of"]

PATTERN_CHARACTERS_MAX = 500
PATTERN_BYTES_MAX = 1 << 20


class PatternError(ValueError):
    """What is wrong with a pattern, in a few words."""


@lru_cache(maxsize=256)
def pattern_of(pattern: str) -> Any:
    """Compile a pattern in which a dot matches any character. PatternError for an invalid one."""
    import re2  # type: ignore[import-untyped]

    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise PatternError(f"it is longer than {PATTERN_CHARACTERS_MAX} characters")
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True
    options.max_mem = PATTERN_BYTES_MAX
    try:
        return re2.compile(pattern, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else "it is not valid RE2"
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(reason) from error
