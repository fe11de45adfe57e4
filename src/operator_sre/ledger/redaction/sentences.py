"""Secrets that people write into sentences and comments, and that SQL and files spell out."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.ledger.redaction.finding import Finding, each
from operator_sre.ledger.redaction.names import Trust
from operator_sre.ledger.redaction.pattern import Pattern
from operator_sre.ledger.redaction.reading import line_start, read_quoted, read_value
from operator_sre.ledger.redaction.values import is_secret, looks_chosen, looks_made

__all__ = ["TRIGGERS", "find_beside", "find_said", "find_spelled"]

TRIGGERS = rb"\bpw\b|identified |log ?in|account|:(?:\d{4,5}|\*):"
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
    + rb"(?: (?:is|was) (?:generated|created|set))?"
    + _WHOSE
    + rb":"
    + _OPEN
    + rb"|\b(?:"
    + _WITH
    + rb")?"
    + _NOUN
    + _WHOSE
    + rb"? "
    + _IS
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
_BESIDE = Pattern(
    rb"(?i)\b(?:password|passwd|passphrase|pw|token|(?:api|access|secret) key) [\"'`(]?"
)
_COMMENT = Pattern(rb"\s*(?:#|//|--|;|/\*|<!--)")
_LONG = Pattern(rb"[\w+/.:-]{16}")
_SPELLED = Pattern(
    rb"(?i)\bidentified(?: with [\w']+)? by (?:password )?|\bpassword(?: \(?|\( ?)"
    rb"|\"auth\" (?:\"default\" )?"
)
_FILES = Pattern(
    rb"(?im)\bmachine\s+\S+\s+login\s+\S+\s+password\s+|\blogin\s+\S+\s+password\s+"
    rb"|^\s*(?:ENV|setx|set -g?x) \w*(?:PASSWORD|PASS|SECRET|TOKEN|API_KEY)\s+"
)
_PGPASS = Pattern(rb"(?m)^[\w.*-]+:(?:\d{4,5}|\*):[\w*-]+:[\w.@-]+:")


def find_said(data: bytes) -> Iterator[Finding]:
    """`password is hunter2`, `use the token ...`, `creds: admin / ...`."""
    return each(data, _SAID, _said)


def _said(data: bytes, start: int, end: int) -> Iterator[Finding]:
    value = read_value(data, end)
    noun = data[start:end].lower()
    trust = Trust.SAID if b"pass" in noun or b"pw" in noun else Trust.CHOSEN
    if value is not None and is_secret(value.of(data), trust):
        kind = "token" if b"token" in noun else "api_key" if b"key" in noun else "password"
        yield Finding(value.start, value.end, kind)


def find_beside(data: bytes) -> Iterator[Finding]:
    """What follows such a noun at once, when it cannot be a word: `token 0f3a...`."""
    return each(data, _BESIDE, _beside)


def _beside(data: bytes, start: int, end: int) -> Iterator[Finding]:
    is_password = data[start : start + 1].lower() == b"p"
    if is_password and _COMMENT.at(data, line_start(data, start)) > 0:
        is_one = looks_chosen  # notes to oneself have no verbs
    elif _LONG.at(data, end) > 0:
        is_one = looks_made
    else:
        return
    value = read_value(data, end)
    if value is not None and is_one(value.of(data)) and is_secret(value.of(data), Trust.CHOSEN):
        yield Finding(value.start, value.end, "password" if is_password else "token")


def find_spelled(data: bytes) -> Iterator[Finding]:
    """`IDENTIFIED BY 'x'`, `PASSWORD 'x'`, .netrc and .pgpass."""
    yield from each(data, _SPELLED, _spelled)
    yield from each(data, _FILES, _in_file)
    yield from each(data, _PGPASS, _in_pgpass)


def _spelled(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_quoted(data, end)
    if value is not None and value.quote != b"`" and is_secret(value.of(data), Trust.ANY):
        yield Finding(value.start, value.end, "password")


def _in_file(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_value(data, end)
    if value is not None and is_secret(value.of(data), Trust.ANY):
        yield Finding(value.start, value.end, "password")


def _in_pgpass(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_value(data, end)
    if value is not None and is_secret(value.of(data), Trust.CHOSEN):
        yield Finding(value.start, value.end, "password")
