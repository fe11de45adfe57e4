"""Secrets that people write into sentences and comments, and that SQL and files spell out."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.ledger.redaction.finding import Finding, each
from operator_sre.ledger.redaction.names import Trust
from operator_sre.ledger.redaction.pattern import Pattern
from operator_sre.ledger.redaction.reading import read_near, read_quoted, read_value
from operator_sre.ledger.redaction.values import is_secret

__all__ = ["TRIGGERS", "find_said", "find_spelled"]

TRIGGERS = (
    rb"\bpw\b|identified |log ?in|account|:(?:\d{4,5}|\*):|\bpin\b|\botp\b|\btotp\b|\b[2m]fa\b"
    rb"| codes?:"
    rb"|> *hello|setuser|\bsend(?:line)? |\bcrypt\(|pgp_sym|__construct|code is"
)
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
_SPELLED = Pattern(
    rb"(?i)\bidentified(?: with [\w']+)? by (?:password )?|\bpassword(?: \(?|\( ?)"
    rb"|\bset password(?: for [\w'\"@%.*-]+)? ?= ?N?"
    rb"|\bpassword ?= ?N|\bpgp_sym_(?:en|de)crypt(?:_bytea)?\([^()'\n]*(?:'[^'\n]*')?, ?"
    rb"|\bcrypt\( ?|\bPDO->__construct\('[^'\n]*', '[^'\n]*', "
    rb"|(?:\bdb\.|\b)(?:auth|login|authenticate|signin|sign_in|changeUserPassword|set_password)"
    rb"\([\"'][^\"'\n]{1,64}[\"'], ?"
)
# Redis: what its monitor prints and what is typed at its prompt.
_REDIS = Pattern(
    rb"(?i)\"auth\" (?:\"[^\"\n]*\" )?\"|\"(?:requirepass|masterauth)\" \""
    rb"|\d> *auth (?:[\w.-]+ )?|\d> *hello \d auth \S+ "
    rb"|\d> *config set (?:requirepass|masterauth) "
    rb"|\bacl setuser [^\n]*?[ '\"]>"
)
_SMTP = Pattern(rb"(?i)\bauth (?:plain|login|xoauth2|cram-md5)(?: [\w.@-]{1,64})? ")
_SENT = Pattern(rb"\bsend(?:line)?(?: --)? \"")
_USER = Pattern(
    rb"(?i)\b(?:user|username|login|account):? [\w.@-]+[,;]? (?:and )?"
    rb"(?:pass|password|pw|pwd)[: =]+"
)
_DIGITS = Pattern(
    rb"(?i)\b(?:pin|otp|totp|2fa|mfa"
    rb"|(?:one-time|verification|backup|recovery|security|sms|access|login)"
    rb" (?:pass)?(?:word|code|codes|pin)|passcode|password)(?: codes?)?[\"']?(?: is|:| =|=)"
    rb"[ \"']{0,2}"
)
_NUMBER = Pattern(rb"\d{4,10}(?:[ ,]+\d{4,10})*")
_FILES = Pattern(
    rb"(?im)\bmachine\s+\S+\s+login\s+\S+\s+password\s+|\blogin\s+\S+\s+password\s+"
    rb"|^\s*(?:ENV|setx|set -g?x) \w*(?:PASSWORD|PASS|SECRET|TOKEN|API_KEY)\s+"
)
_PGPASS = Pattern(rb"(?m)^[\w.*-]+:(?:\d{4,5}|\*):[\w*-]+:[\w.@-]+:")

_RARE = Pattern(
    b"|".join(b"(?:" + one.source + b")" for one in (_REDIS, _SENT, _SMTP, _USER, _DIGITS))
)


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


def find_spelled(data: bytes) -> Iterator[Finding]:
    """`IDENTIFIED BY 'x'`, `PASSWORD 'x'`, .netrc and .pgpass."""
    yield from each(data, _SPELLED, _spelled)
    yield from each(data, _FILES, _in_file)
    yield from each(data, _PGPASS, _in_pgpass)
    if _RARE.first(data) is None:
        return
    yield from each(data, _REDIS, _typed)
    yield from each(data, _SENT, _typed)
    yield from each(data, _SMTP, _encoded)
    yield from each(data, _USER, _after_user)
    yield from each(data, _DIGITS, _digits)


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
    if value is not None and is_secret(value.of(data), Trust.SAID):
        yield Finding(value.start, value.end, "password")


def _typed(data: bytes, start: int, end: int) -> Iterator[Finding]:
    is_quoted = data[end - 1 : end] == b'"'
    value = read_quoted(data, end - 1) if is_quoted else read_value(data, end)
    if value is None:
        return
    stop = value.end
    while is_quoted and data[stop - 2 : stop] in (b"\\r", b"\\n"):  # the Enter that `send` types
        stop -= 2
    raw = data[value.start : stop]
    trust = Trust.SAID if data[start : start + 4].lower() == b"send" else Trust.ANY
    if is_secret(raw, trust, is_env=trust is Trust.ANY):
        yield Finding(value.start, stop, "password")


def _encoded(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_near(data, end)
    if value is not None and is_secret(value.of(data), Trust.RANDOM):
        yield Finding(value.start, value.end, "credential")


def _after_user(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_near(data, end)
    if value is not None and is_secret(value.of(data), Trust.SAID):
        yield Finding(value.start, value.end, "password")


def _digits(data: bytes, _: int, end: int) -> Iterator[Finding]:
    last = _NUMBER.at(data, end)
    if last > 0 and not data[last : last + 2].strip(b" .,;)\"'\n}|*]\r"):
        yield Finding(end, last, "password")
