"""Secrets in the text of a script, where every reader of the script sees them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from operator_sre.executor.scripts.flaws import Flaw, Layer

__all__ = ["secrets_in"]

# Each is linear: nothing that repeats holds something that repeats.
_ASSIGNED = re.compile(
    r"(?i)(?:api_?key|access_?key|auth|passw(?:or)?d|passphrase|private_?key|secret|token"
    r"|credential)[a-z0-9_]{0,40}[\"']?\s{0,8}(?:=|:)\s{0,8}[rbuf]{0,2}"
    r"[\"'](?P<value>[^\"'\n]{1,500})"
)
_KINDS = {
    "an AWS key id": re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b"),
    "a private key": re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY-----"),
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60})"),
    "a Slack token": re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10}"),
    "a Google API key": re.compile(r"\bAIza[0-9A-Za-z_-]{35}"),
    "a model API key": re.compile(r"\bsk-[A-Za-z0-9_-]{20}"),
    "a JSON web token": re.compile(r"\beyJ[A-Za-z0-9_-]{8,2000}\.eyJ[A-Za-z0-9_-]{8}"),
    "a password in a URL": re.compile(
        r"\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"']{0,99}:[^\s/@\"'$]{1,99}@"
    ),
    "a bearer token": re.compile(
        r"(?i)\bauthorization[\"']?\s?[:=,]\s?[\"']?bearer\s[a-z0-9._~+/-]{16}"
    ),
}
# What stands for a secret, and what only looks like one.
_HOLLOW = re.compile(
    r"(?i)[\$%{<]|^(?:x+|\*+|\.+|none|null|true|false|changeme|redacted|example)?$"
)


def secrets_in(text: str) -> Iterator[Flaw]:
    """Every line that holds one; the sentence never does."""
    for number, line in enumerate(text.splitlines(), start=1):
        for kind, pattern in _KINDS.items():
            if pattern.search(line):
                yield _flaw(kind, number)
        for found in _ASSIGNED.finditer(line):
            if not _HOLLOW.search(found["value"]):
                yield _flaw("a quoted secret", number)
                break


def _flaw(kind: str, line: int) -> Flaw:
    sentence = f"{kind} is in the script; remove it and pass it in another way."
    return Flaw(Layer.SECRETS, sentence, line)
