"""Secrets that people write into sentences and comments, and that SQL and files spell out."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.ledger.redaction.finding import Finding
from operator_sre.ledger.redaction.names import Trust
from operator_sre.ledger.redaction.pattern import Pattern
from operator_sre.ledger.redaction.reading import read_value
from operator_sre.ledger.redaction.values import is_secret, looks_made

__all__ = ["TRIGGERS", "find_beside", "find_said", "find_spelled"]

TRIGGERS = rb"\bpw\b|\bpin\b|identified |login|machine |\d:"
_NOUN = (
    rb"(?:password|passwd|passphrase|passcode|pwd|pw|secret(?: key)?|token|api[ _-]?key"
    rb"|access key|creds?|credentials?)"
)
_WHOSE = rb"(?: (?:for|of|to|on|at|in|from)(?: [\w.@/'\"-]+){1,5}?)"
_WITH = (
    rb"(?:with|using|use|via|and|default|temporary|temp|new|root|admin|initial|got|received|sent"
    rb"|entered|tried|trying)(?: the| a| his| her)? "
)
_IS = (
    rb"(?:is|was|are|will be|should be|set to|changed to|reset to|to|from|now|->|equals)"
    rb"(?: now| still| just| set to)?:?"
)
_OPEN = rb" [\"'`(]?"
_SAID = Pattern(
    rb"(?i)\b(?:"
    + _WITH
    + rb")?"
    + _NOUN
    + _WHOSE
    + rb"? "
    + _IS
    + _OPEN
    + rb"|\b(?:"
    + _WITH
    + rb")?"
    + _NOUN
    + rb"(?: (?:is|was) (?:generated|created|set))?"
    + _WHOSE
    + rb":"
    + _OPEN
    + rb"|\b"
    + _WITH
    + _NOUN
    + rb":?"
    + _OPEN
    + rb"|\bp(?:ass)?w(?:or)?d?[:=] ?[\"'`(]?"
    + rb"|\b(?:creds?|credentials|log ?in|account)(?: (?:is|are|with|as|for))?(?: [\w.-]+)?:? "
    rb"[\w.@-]+ ?[/:] ?"
)
_BESIDE = Pattern(rb"(?i)\b(?:password|passwd|passphrase|token|(?:api|access|secret) key) [\"'`(]?")
_SPELLED = Pattern(
    rb"(?i)\bidentified(?: with [\w']+)? by (?:password )?|\bpassword(?: \(?|\( ?)"
    rb"|\"auth\" (?:\"default\" )?"
)
_FILES = Pattern(
    rb"(?i)\bmachine\s+\S+\s+login\s+\S+\s+password\s+"
    rb"|\blogin\s+\S+\s+password\s+"
)
_PGPASS = Pattern(rb"(?m)^[\w.*-]+:(?:\d{4,5}|\*):[\w*-]+:[\w.@-]+:")


def find_said(data: bytes) -> Iterator[Finding]:
    """`password is hunter2`, `use the token ...`, `creds: admin / ...`."""
    for start, end in _SAID.spans(data):
        value = read_value(data, end)
        noun = data[start:end].lower()
        trust = Trust.SAID if b"pass" in noun or b"pw" in noun else Trust.CHOSEN
        if value is None or not is_secret(value.of(data), trust):
            continue
        kind = "token" if b"token" in noun else "api_key" if b"key" in noun else "password"
        yield Finding(value.start, value.end, kind)


def find_beside(data: bytes) -> Iterator[Finding]:
    """What follows such a noun at once, when it cannot be a word: `token 0f3a...`."""
    for start, end in _BESIDE.spans(data):
        value = read_value(data, end)
        if value is not None and looks_made(value.of(data)):
            kind = "password" if data[start : start + 4].lower() == b"pass" else "token"
            yield Finding(value.start, value.end, kind)


def find_spelled(data: bytes) -> Iterator[Finding]:
    """`IDENTIFIED BY 'x'`, `PASSWORD 'x'`, .netrc and .pgpass."""
    for _, end in _SPELLED.spans(data):
        value = read_value(data, end) if data[end : end + 1] in (b"'", b'"') else None
        if value is not None and value.quote and is_secret(value.of(data), Trust.ANY):
            yield Finding(value.start, value.end, "password")
    for pattern, trust in ((_FILES, Trust.ANY), (_PGPASS, Trust.CHOSEN)):
        for _, end in pattern.spans(data):
            value = read_value(data, end)
            if value is not None and is_secret(value.of(data), trust):
                yield Finding(value.start, value.end, "password")
