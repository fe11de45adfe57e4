"""Secrets that people write into sentences, in any language, and that SQL and files spell out."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.ledger.redaction.findings import Finding, Pattern, detector
from operator_sre.ledger.redaction.names import NAME, Trust, name_of
from operator_sre.ledger.redaction.values import (
    Value,
    is_code,
    is_secret,
    line_end,
    looks_made,
    names_machine,
    read_near,
    read_quoted,
    read_value,
)

__all__ = ["TRIGGERS", "find_foreign", "find_said", "find_spelled"]

# What other languages call passwords, keys and tokens.
_PASSWORDS = "|".join(
    (
        *(r"\bmot de passe", r"\bmdp\b", r"\bcontrase(?:ñ|n)a", r"\bclave\b", r"\bsenha\b"),
        *(r"\bpalavra-passe", r"\bparola\b", r"\bwachtwoord", r"\bhas(?:ł|l)o\b", r"\bheslo\b"),
        *(r"\bl(?:ö|o)senord", r"(?:Ş|ş|\bs)ifre", r"\bjelsz(?:ó|o)", r"\bsalasana"),
        *(r"\badgangskode", r"\bpassord", r"\bkodeord", r"\bpasswort", r"\bkennwort"),
        *(r"\bzugangsdaten", r"\bkata sandi", r"\bparool", r"\bslapta(?:ž|z)odis"),
        *("[Пп]арол[ьяюе](?:м)?", "ПАРОЛЬ", "[Пп]арола", "[Лл]озинка", "[Гг]асло"),
        *("密码", "密碼", "口令", "パスワード", "暗証番号", "비밀번호", "암호", "mật khẩu"),
        *("รหัสผ่าน", "كلمة المرور", "كلمة السر", "סיסמה", "סיסמא", "[Κκ]ωδικός", "पासवर्ड"),
    )
)
_KEYS = "|".join(
    (
        *(r"\bcl(?:é|e) (?:API|d'API|secr)", r"\bclave (?:API|secr)", r"\bchave\b", r"\bchiave\b"),
        *(r"\bschl(?:ü|ue)ssel\b", r"\bsleutel\b", r"\bklucz\b", r"\bnyckel\b", r"\banahtar\b"),
        *(r"\bjeton\b", r"\bgeheimnis\b", r"\bsegreto\b", r"\bsegredo\b", r"\bsecreto\b"),
        *("[Кк]люч", "[Тт]окен", "[Сс]екрет", "密钥", "密鑰", "令牌", "秘密鍵", "トークン", "토큰"),
    )
)
TRIGGERS = (
    rb"form-data; name=|addauth|userinfo=|(?m:^\"[\w.@-]{1,63}\" \")"
    rb"|\bpw\b|identified |log ?in|account|:(?:\d{4,5}|\*):|\bpin\b|\botp\b|\btotp\b|\b[2m]fa\b"
    rb"| codes?:|> *hello|setuser|\bsend(?:line)? |\bcrypt\(|pgp_sym|__construct|\bPASS "
    rb"|code (?:is|\d|sent)|basic auth|authenticated as|(?:activation|license) (?:code|key)"
    rb"|\bLOGIN |hmac-|key-string|key \d+ md5|: (?:PSK|EAP|XAUTH)|(?:SHA|MD5|AES|DES) \""
    rb"|\bPLAIN\b.{0,20}\\|(?:log_?in|authenticate)\([\w.@-]+, ?"
    rb"|\w(?:password|credentials?)[\[(][\w.@-]+, ?|random' passwords|code for|signature"
    rb"|sp_\w+ N?'|_(?:en|de)crypt\(|\bon >|(?:recovery|backup) code|\bset \w*value ?=|"
    + f"{_PASSWORDS}|{_KEYS}".encode()
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
    rb"(?:is|was|are|will be|should be|set to|changed to|reset to|bound to|to|from|now|->|equals)"
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
    + rb"[\"'`]?"
    + _WHOSE
    + rb"? "
    + _IS
    + _OPEN
    + rb"|\b"
    + _WITH
    + _NOUN
    + rb":?"
    + _OPEN
    + rb"|\b(?:wrong|incorrect|bad|invalid|supplied|provided|presented|rejected|submitted|shared)"
    rb" (?:pass(?:word|wd|phrase|code)?|pwd|pw|(?:shared )?secret|credentials?):?"
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
# A user and a password side by side: `login(bob, x)`, `UsernamePassword[bob, x]`, SASL PLAIN.
_BOTH = Pattern(
    rb"(?i)\b(?:log_?in|authenticate)\([\w.@-]+, ?|\w(?:password|credentials?)[\[(][\w.@-]+, ?"
    rb"|\bPLAIN\b[^\n\\]{0,20}\\(?:x00|0|u0000)[\w.@-]+\\(?:x00|u0000|0)"
)
_SIGNED = Pattern(rb"(?i)\bsignature[^\n=]{0,40}\bsha\d{1,3}=")
# A name that touches its value: `u'bob', pw'x'`.
_AFTER_STRING = tuple(bytes([byte]) for byte in b" ,:;.)]}+=|?&<>/")
_TOUCHING = Pattern(rb"[\s(,;](?:pw|pwd|pass|password|passwd|passphrase|secret|token)[\"']")
_SENT = Pattern(rb"\bsend(?:line)?(?: --)? \"")
_USER = Pattern(
    rb"(?i)\b(?:user|username|login|account):? [\w.@-]+[,;]? (?:and )?"
    rb"(?:pass|password|pw|pwd)[: =]+|\bbasic auth [\w.@-]+:|\bauthenticated as [\w.@-]+ with "
    rb"|\b(?:login|userpwd|userinfo)=[\w.@-]{1,64}:|\blogin [\w.@-]{1,64} \""
    rb"|\baddauth \w+ [\w.@-]+:"
)
_DIGITS = Pattern(
    rb"(?i)\b(?:pin|otp|totp|2fa|mfa"
    rb"|(?:one-time|verification|backup|recovery|security|sms|access|login)"
    rb" (?:pass)?(?:word|code|codes|pin)|passcode|password)(?: codes?)?(?: sent)?"
    rb"(?: (?:for|to) [\w.@-]+)?[\"']?(?: is|:| =|=)"
    rb"[ \"']{0,2}"
)
_CODE_SENT = Pattern(
    rb"(?i)\b(?:one-time|verification|2fa|mfa|otp|sms|login|security) (?:pass)?code "
)
_RECOVERY = Pattern(
    rb"(?i)\b(?:recovery|backup|activation|license) (?:code|key)s?(?: is| are)?:? [\"'\[]{0,2}"
)
_CODE = Pattern(rb"[0-9a-zA-Z]{4,6}-[0-9a-zA-Z]{4,6}(?:-[0-9a-zA-Z]{4,6}){0,4}")
# `SET value = 'x' WHERE name = 'api_key'`
_SETTING = Pattern(rb"(?i)\bset \w*value ?= ?")
_NUMBER = Pattern(rb"\d{4,10}(?:[ ,]+\d{4,10})*")
_FILES = Pattern(
    rb"(?im)\bmachine\s+\S+\s+login\s+\S+\s+password\s+|\blogin\s+\S+\s+password\s+"
    rb"|^\s*(?:ENV|setx|set -g?x) \w*(?:PASSWORD|PASS|SECRET|TOKEN|API_KEY)\s+"
)
# cloud-init, once: a line for each user. Each line is a finding of its own.
_RANDOM_PASSWORDS = Pattern(rb"'random' passwords\r?\n(?:[\w.-]+:[^\s:]+(?:\r?\n|\z))+")
# The lines of pgbouncer's list of users: two texts in quotes, and nothing else.
_USER_LIST = Pattern(rb"(?m)^\"[\w.@-]{1,63}\" \"[^\"\n]{6,256}\"\r?$")
# A field of a form that was sent in parts.
_FORM_FIELD = Pattern(
    rb"(?i)form-data; name=\"" + NAME + rb"\"[^\n]{0,200}\r?\n(?:[\w-]+: [^\n]{0,200}\n){0,4}\r?\n"
)
_PGPASS = Pattern(rb"(?m)^[\w.*-]+:(?:\d{4,5}|\*):[\w*-]+:[\w.@-]+:")


@detector(_SAID)
def find_said(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """`password is hunter2`, `use the token ...`, `creds: admin / ...`."""
    value = read_value(data, end)
    noun = data[start:end].lower()
    trust = Trust.SAID if b"pass" in noun or b"pw" in noun else Trust.CHOSEN
    if value is not None and names_machine(data, start, end, value):
        return
    if value is not None and is_secret(value.of(data), trust):
        kind = "token" if b"token" in noun else "api_key" if b"key" in noun else "password"
        yield Finding(value.start, value.end, kind)


def find_spelled(data: bytes) -> Iterator[Finding]:
    """`IDENTIFIED BY 'x'`, `PASSWORD 'x'`, .netrc and .pgpass."""
    yield from _find_in_sql(data)
    yield from _find_in_files(data)
    yield from _find_in_pgpass(data)
    yield from _find_touching(data)
    yield from _find_form_fields(data)
    for start, end in _USER_LIST.spans(data):
        value = read_quoted(data, data.index(b'" "', start, end) + 2)
        if value is not None and is_secret(value.of(data), Trust.CHOSEN):
            yield Finding(value.start, value.end, "password")
    for start, end in _RANDOM_PASSWORDS.spans(data):
        at = data.index(b"\n", start) + 1
        while at < end:
            last = line_end(data, at, 512)
            first = data.index(b":", at, last) + 1
            yield Finding(first, last - (data[last - 1 : last] == b"\r"), "password")
            at = last + 1
    for start, _ in _RARE.spans(data):
        for pattern in _RARES:
            end = pattern.at(data, start)
            if end > 0:
                yield from _read_rare(data, pattern, start, end)
                break


@detector(_SPELLED)
def _find_in_sql(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_quoted(data, end)
    if value is not None and value.quote != b"`" and is_secret(value.of(data), Trust.ANY):
        yield Finding(value.start, value.end, "password")


@detector(_TOUCHING)
def _find_touching(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_quoted(data, end - 1)
    if value is None or data[value.start : value.start + 1] in _AFTER_STRING:
        return  # the quote closes a string that began before the name
    raw = value.of(data)
    if any(48 <= byte < 58 for byte in raw) and is_secret(raw, Trust.SAID):
        yield Finding(value.start, value.end, "password")


@detector(_FORM_FIELD)
def _find_form_fields(data: bytes, start: int, end: int) -> Iterator[Finding]:
    named = name_of(data[start:end].split(b'"')[1])
    last = line_end(data, end, 4096)
    last -= data[last - 1 : last] == b"\r"
    if named is not None and last > end and is_secret(data[end:last], named.trust):
        yield Finding(end, last, named.kind)


@detector(_FILES)
def _find_in_files(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_value(data, end)
    if value is not None and is_secret(value.of(data), Trust.ANY):
        yield Finding(value.start, value.end, "password")


@detector(_PGPASS)
def _find_in_pgpass(data: bytes, _: int, end: int) -> Iterator[Finding]:
    value = read_value(data, end)
    if value is not None and is_secret(value.of(data), Trust.SAID):
        yield Finding(value.start, value.end, "password")


def _read_rare(data: bytes, pattern: Pattern, start: int, end: int) -> Iterator[Finding]:
    """What follows where one of the rare patterns stands."""
    if pattern in (_REDIS, _SENT):
        is_quoted = data[end - 1 : end] == b'"'
        value = read_quoted(data, end - 1) if is_quoted else read_value(data, end)
        stop = value.end if value is not None else 0
        while is_quoted and data[stop - 2 : stop] in (
            b"\\r",
            b"\\n",
        ):  # the Enter that `send` types
            stop -= 2
        is_sent = data[start : start + 4].lower() == b"send"
        trust = Trust.SAID if is_sent else Trust.ANY
        if value is not None and is_secret(data[value.start : stop], trust, is_env=not is_sent):
            yield Finding(value.start, stop, "password")
    elif pattern in (_SMTP, _SIGNED):
        value = read_near(data, end)
        raw = value.of(data) if value is not None else b""
        is_one = looks_made(raw) if pattern is _SIGNED else is_secret(raw, Trust.RANDOM)
        if value is not None and is_one:
            kind = "signature" if pattern is _SIGNED else "credential"
            yield Finding(value.start, value.end, kind)
    elif pattern in (_DIGITS, _CODE_SENT):
        last = _NUMBER.at(data, end)
        if pattern is _DIGITS:
            is_whole = not data[last : last + 2].strip(b" .,;)\"'\n}|*]\r")
        else:
            is_whole = not data[last : last + 1].isalnum()
        if last > 0 and is_whole:
            yield Finding(end, last, "password")
    elif pattern is _RECOVERY:
        last = _CODE.at(data, end)
        if last > 0 and any(48 <= byte < 58 for byte in data[end:last]):
            yield Finding(end, last, "password")
    else:
        found = _read_after_user(data, end)
        if pattern is _TYPED and not found and data[start : start + 5] == b"AUTH ":
            user = read_near(data, end)  # since Redis 6 a user comes first
            if user is not None and data[user.end : user.end + 1] == b" ":
                found = _read_after_user(data, user.end + 1)
        if found and not (pattern is _BOTH and is_code(data[found.start : found.end])):
            yield found


def _read_after_user(data: bytes, end: int) -> Finding | None:
    if data[end - 1] > 32 and data[end - 2 : end - 1] == b" ":
        end -= 1  # the pattern took the first byte of the value
    value = read_near(data, end)
    if value is not None and is_secret(value.of(data), Trust.SAID):
        return Finding(value.start, value.end, "password")
    return None


# Where several stand at one place, the first of them counts.
_RARES = (
    *(_REDIS, _SENT, _SMTP, _TYPED, _BOTH, _SIGNED, _USER, _DIGITS, _CODE_SENT, _RECOVERY),
    _SETTING,
)
_RARE = Pattern(b"|".join(b"(?:" + pattern.source + b")" for pattern in _RARES))


# The noun with its ending; an adjective, a verb and a sign may follow before the value.
_FOREIGN_PASSWORD = Pattern(f"(?i)(?:{_PASSWORDS})[^\\s\"'`:=：<>/|.,;]{{0,16}}".encode())
_FOREIGN_KEY = Pattern(f"(?i)(?:{_KEYS})[^\\s\"'`:=：<>/|.,;]{{0,16}}".encode())
_SIGN = Pattern("(?:[ \\t(/|:=]|：|->|→|は|是|为|為|인)*".encode())
WORDS_MAX = 4


def find_foreign(data: bytes) -> Iterator[Finding]:
    """`mot de passe : ...`, `la contraseña es ...`, `密码：...`."""
    yield from _find_foreign_passwords(data)
    yield from _find_foreign_keys(data)


def _values(data: bytes, at: int) -> Iterator[Value]:
    """The next words, without the signs between them."""
    for _ in range(WORDS_MAX):
        value = read_near(data, max(at, _SIGN.at(data, at)))
        if value is None:
            return
        yield value
        at = value.end + len(value.quote)


@detector(_FOREIGN_PASSWORD)
def _find_foreign_passwords(data: bytes, _: int, end: int) -> Iterator[Finding]:
    for value in _values(data, end):
        raw = value.of(data)
        if any(48 <= byte < 58 for byte in raw) and is_secret(raw, Trust.SAID):
            yield Finding(value.start, value.end, "password")
            return


@detector(_FOREIGN_KEY)
def _find_foreign_keys(data: bytes, _: int, end: int) -> Iterator[Finding]:
    for value in _values(data, end):
        if looks_made(value.of(data)) and is_secret(value.of(data), Trust.RANDOM):
            yield Finding(value.start, value.end, "token")
            return
