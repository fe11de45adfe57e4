"""Secrets that people write into sentences and comments, and that SQL and files spell out."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.ledger.redaction.finding import Finding, Look, each
from operator_sre.ledger.redaction.names import Trust
from operator_sre.ledger.redaction.pattern import Pattern
from operator_sre.ledger.redaction.reading import read_near, read_quoted, read_value
from operator_sre.ledger.redaction.values import is_secret

__all__ = ["TRIGGERS", "find_said", "find_spelled"]

TRIGGERS = (
    rb"\bpw\b|identified |log ?in|account|:(?:\d{4,5}|\*):|\bpin\b|\botp\b|\btotp\b|\b[2m]fa\b"
    rb"| codes?:|> *hello|setuser|\bsend(?:line)? |\bcrypt\(|pgp_sym|__construct|code is|\bPASS "
    rb"|\bLOGIN |hmac-|key-string|key \d+ md5|: (?:PSK|EAP|XAUTH)|(?:SHA|MD5|AES|DES) \""
    rb"|sp_\w+ N?'|_(?:en|de)crypt\(|\bon >|(?:recovery|backup) code|\bset \w*value ?="
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
    rb"|\bpragma (?:re)?key ?= ?|\b(?:aes|des)_(?:en|de)crypt\([^()'\n]*, ?"
    rb"|\bcrypt\( ?|\bPDO->__construct\('[^'\n]*', '[^'\n]*', "
    rb"|(?:\bdb\.|\b)(?:auth|login|authenticate|signin|sign_in|changeUserPassword|set_password)"
    rb"\([\"'][^\"'\n]{1,64}[\"'], ?"
)
# Redis: what its monitor prints and what is typed at its prompt.
_REDIS = Pattern(
    rb"(?i)\"auth\" (?:\"[^\"\n]*\" )?\"|\"(?:requirepass|masterauth)\" \""
    rb"|\d> *auth (?:[\w.-]+ )?|\d> *hello \d auth \S+ "
    rb"|\d> *config set (?:requirepass|masterauth) "
    rb"|\b(?:acl setuser|user) [\w.-]+ [^\n]{0,200}?[ '\"]>"
)
_SMTP = Pattern(rb"(?i)\bauth (?:plain|login|xoauth2|cram-md5)(?: [\w.@-]{1,64})? ")
_TYPED = Pattern(
    rb"\b(?:PASS|AUTH|LOGIN [\w.@-]+) |\bauth-pass [\w.-]+ |(?i:\bidentified by \S+ replace )"
    rb"|(?i:\bIDENTIFIED BY )[^'\"\s]|(?i:\bkey-string |\bmessage-digest-key \d+ md5 )"
    rb"|: (?:PSK|EAP|XAUTH|NTLM) |\b(?:SHA|MD5|AES|DES)(?:-?\d+)? [\"]"
    rb"|(?i:\bsp_(?:addlogin|password)(?: N?'[^'\n]*',)+? N?)|\bencrypt_string "
    rb"|\bauth=\([\"'][^\"'\n]{1,64}[\"'], ?"
    rb"|\bhmac-(?:sha\d+|md5)(?: |:[a-zA-Z][\w.-]*:)|(?i:\bx-[\w-]*signature[\w-]*: ?(?:\w{1,6}=)?)"
)
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
_RECOVERY = Pattern(rb"(?i)\b(?:recovery|backup) codes?(?: is| are)?:? [\"'\[]{0,2}")
_CODE = Pattern(rb"[0-9a-zA-Z]{4,6}-[0-9a-zA-Z]{4,6}(?:-[0-9a-zA-Z]{4,6}){0,4}")
# `SET value = 'x' WHERE name = 'api_key'`
_SETTING = Pattern(rb"(?i)\bset \w*value ?= ?")
_NUMBER = Pattern(rb"\d{4,10}(?:[ ,]+\d{4,10})*")
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


def find_spelled(data: bytes) -> Iterator[Finding]:
    """`IDENTIFIED BY 'x'`, `PASSWORD 'x'`, .netrc and .pgpass."""
    yield from each(data, _SPELLED, _spelled)
    yield from each(data, _FILES, _in_file)
    yield from each(data, _PGPASS, _in_pgpass)
    for start, _ in _RARE.spans(data):
        for pattern, look in _RARES:
            end = pattern.at(data, start)
            if end > 0:
                yield from look(data, start, end)
                break


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
    if data[end - 1] > 32 and data[end - 2 : end - 1] == b" ":
        end -= 1  # the pattern took the first byte of the value
    value = read_near(data, end)
    if value is not None and is_secret(value.of(data), Trust.SAID):
        yield Finding(value.start, value.end, "password")


def _recovery(data: bytes, _: int, end: int) -> Iterator[Finding]:
    last = _CODE.at(data, end)
    if last > 0 and any(48 <= byte < 58 for byte in data[end:last]):
        yield Finding(end, last, "password")


def _digits(data: bytes, _: int, end: int) -> Iterator[Finding]:
    last = _NUMBER.at(data, end)
    if last > 0 and not data[last : last + 2].strip(b" .,;)\"'\n}|*]\r"):
        yield Finding(end, last, "password")


_RARES: tuple[tuple[Pattern, Look], ...] = (
    (_REDIS, _typed),
    (_SENT, _typed),
    (_SMTP, _encoded),
    (_TYPED, _after_user),
    (_USER, _after_user),
    (_DIGITS, _digits),
    (_RECOVERY, _recovery),
    (_SETTING, _after_user),
)
_RARE = Pattern(b"|".join(b"(?:" + pattern.source + b")" for pattern, _ in _RARES))
