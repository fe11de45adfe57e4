"""The bare alternative: a list of patterns for the standard library, which proves little."""

from __future__ import annotations

import re

__all__ = ["naive"]

_NAIVE = [
    re.compile(pattern)
    for pattern in (
        r"(?i)((?:password|passwd|pwd|secret|token|api_?key)[\"']?\s*[:=]\s*[\"']?)([^\s\"',;&]+)",
        r"(://[^:/\s]*:)([^@/\s]+)(?=@)",
        r"(?i)(bearer |basic )([\w.+/=-]+)",
        r"()(ghp_\w{36}|sk-[\w-]{20,}|AKIA[A-Z0-9]{16}|xox[abp]-[\w-]{10,})",
        r"()(eyJ[\w-]+\.[\w-]+\.[\w-]+)",
        r"(-----BEGIN [A-Z ]*PRIVATE KEY-----)((?:.|\n)*?)(?=-----END)",
        r"(?i)(--\S*(?:password|token)[ =])(\S+)",
    )
]


def naive(text: str) -> str:
    """What is usually written first."""
    for pattern in _NAIVE:
        text = pattern.sub(r"\1[REDACTED]", text)
    return text
