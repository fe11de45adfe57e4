"""Names with values: `KEY=value`, `key: value`, JSON and YAML fields, query parameters, XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote_to_bytes

from operator_sre.ledger.redaction.findings import Finding, Pattern, detector
from operator_sre.ledger.redaction.names import NAME, STEMS, Name, Trust, name_of
from operator_sre.ledger.redaction.values import (
    Value,
    closing,
    is_code,
    is_ordinary,
    is_secret,
    is_uuid,
    line_end,
    line_start,
    looks_made,
    looks_random,
    read_quoted,
    read_value,
    repeats,
)

__all__ = [
    "TRIGGERS",
    "find_assignments",
    "find_calls",
    "find_elements",
    "find_members",
    "find_pairs",
    "find_parameters",
    "open_assignment",
]

TRIGGERS = STEMS + rb"|connect(?:ion)?\(|[?&;](?:key|code|sid|session|hmac|sas|ticket|t)="
BLOCK_BYTES_MAX = 16_384
ELEMENT_BYTES_MAX = 1024
ENV_TOKEN_BYTES_MIN = 6
_SITE = Pattern(
    rb"(?i)"
    + NAME
    + rb"(?: \d|\[\w*\])?[\"'\\`\])*]*(?:: ?(?:str|string|String|bytes|&str|SecretStr) ?)?[ \t]*"
    rb"(?:=>|:=|\?=|={1,2}|:|%3D)(?:\*{1,2}[ \t]+|[ \t]*)"
)
_PAIR = Pattern(
    rb"(?i)\b(?:name|key|variable|parameterkey|id|label|path|field|option|setting|property)"
    rb"[\"'\\]*\s*[:=]\s*[\"'\\]*[\w./-]*?"
    + NAME
    + rb"[\"'\\]*[\s,]*(?:[\"'\\]*type[\"'\\]*\s*[:=]\s*[\"'\\]*\w{1,24}[\"'\\]*[\s,]*)?"
    rb"[\"'\\]*(?:value|parametervalue|defaultvalue|new|new_?value|to|content)[\"'\\]*\s*[:=]\s*"
)
_PAIR_REVERSED = Pattern(
    rb"(?i)[\"'\\]value[\"'\\]*\s*:\s*[\"'][^\"'\n]{3,256}[\"'],\s*"
    rb"[\"'](?:name|key)[\"']\s*:\s*[\"']" + NAME + rb"[\"']"
)
_ELEMENT = Pattern(
    rb"(?i)<key>"
    + NAME
    + rb"</key>\s*<string>|<(?:\w+:)?"
    + NAME
    + rb"(?: [^<>\n]{0,200})?>|<\w+ (?:name|key|id)=[\"']"
    + NAME
    + rb"[\"'][^<>\n]{0,200}>"
)
_CALL = Pattern(rb"(?i)[\[(][\"']" + NAME + rb"[\"'], ?[\"']")
# `.setPassword("x")`, `Secret("x")`, `login("bob", "x")`: the last string of a call named so.
_NAMED_CALL = Pattern(
    rb"(?i)\b[\w.]*(?:passw(?:or)?d|passphrase|secret|token|api_?key|log_?in|sign_?in|auth"
    rb"|credentials?(?:\.basic)?|connection|connect)\((?:[\"'][^\"'\n]{0,128}[\"'], ?){0,2}[\"']"
)
# One level below: `"token": {"value": "x"}`, `variable "password" { default = "x" }`.
_OBJECT = Pattern(rb"(?i)" + NAME + rb"[\"'\\]*\s*[:=]?\s*\{")
_FIELD = Pattern(rb"[\s,]*[\"'\\]*[\w.-]+[\"'\\]*\s*[:=]\s*")
_DIGEST = Pattern(rb"[0-9a-f]+")
_VALUE_FIELD = Pattern(rb"(?i)\b(?:value|secret|plain\w*|data|content)[\"'\\]")
FIELDS_MAX = 8
_PARAMETER = Pattern(rb"(?i)[?&;](?:amp;)?(?:key|code|sid|session|hmac|sas|ticket|t)=")
# At the end of a text: a name whose value is on the next line, or a block that may go on there.
_OPEN = Pattern(
    rb"(?i)(?:[\"'\\]value[\"'\\]*\s*:\s*[\"'][^\"'\n]{3,256}[\"'],\s*[\"'])?"
    rb"\b(?:name|key|variable)[\"'\\]*\s*[:=]\s*[\"'\\]*"
    + NAME
    + rb"[\"'\\]*[\s,]*\z|"
    + NAME
    + rb"[\"']?:[ \t]*[|>][+-]?\d?[ \t]*(?:\r?\n(?:[ \t]+[^\n]*)?)*\z|\blogin\s+\S+\s*\z"
    rb"|[\"'\\]value[\"'\\]*\s*:\s*[\"'][^\"'\n]{3,256}[\"'],\s*\z"
    rb"|form-data; name=\"" + NAME + rb"\"[^\n]{0,200}\n(?:[\w-]+: [^\n]{0,200}\n){0,4}\s*\z"
    rb"|(?:^|[\s\"'])--?[\w.-]*(?:" + STEMS + rb")[\w.-]*[\"']?,?\s*\z"
)
# Another member, or the end, of `{Password:x Port:1}` and `{password: x, port: 1}`.
_MEMBER = Pattern(rb"\}| [A-Za-z]\w*:\S|, ?[\"']?[\w-]+[\"']?: ")
_AFTER_NAME = (b'"', b"'", b"\\")
_PARAMETERS = {b"key": "api_key", b"code": "token", b"sid": "session", b"session": "session"}
_PLURAL = re.compile(rb"(?i)(key|token|secret|credential)s")
# What a language writes around a string: Some("x"), <<"x">>, b"x", N'x', !!str x.
_WRAPPER = Pattern(
    rb"(?:(?:Some|Ok|Just|Optional|Secret\w*|String::from)\(|<<|[bBrRfFuUN@]{1,2})[\"']"
    rb"|!!str +|&\w+ +"
)
_WRAPPED = b"SOJ<bBrRfFuUN@!&"
_BLOCK = Pattern(rb"[|>][+-]?\d?[ \t]*(?:\r?\n)")


@detector(_SITE)
def find_assignments(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """Values that follow a name of secrets and a sign."""
    # The name and the sign: `"password" : ` -> `password`, `:`.
    text = data[start:end].rstrip(b" \t*")
    if text[-3:].upper() == b"%3D":
        is_encoded = start and data[start - 1 : start] == b"%"  # `%3Ftoken%3D`
        name, sign = text[2:-3] if is_encoded else text[:-3], b"="
    else:
        name = text.rstrip(b"=>:?")
        sign = text[len(name) :]
        name = name.partition(b":")[0] if sign == b"=" else name  # `password: str = `
        name, sign = name.rstrip(b" \t\"'\\`])*"), b":" if sign in (b":", b"=>") else b"="
    named = name_of(name)
    first = data[end : end + 1]
    is_list = first == b"[" and read_quoted(data, end + 1) is not None
    if named is None and is_list:
        single = _PLURAL.sub(rb"\1", name)  # `"tokens": [...]`, `"unseal_keys_b64": [...]`
        words = single.lower().split(b"_")
        listed = Name("api_key", Trust.MADE) if words[0] == b"key" else name_of(single)
        trust = Trust.MADE if single.isalpha() else Trust.RANDOM
        named = listed and Name(listed.kind, trust)
    if named is None or (sign == b":" and (name == b"PASS" or named.kind == "signature")):
        return  # `PASS: TestLogin2`, `signature: v4`
    if is_list:
        yield from _items(data, end, named)
        return
    if first == b"[":  # `password=[x]`, as Java and Ruby print it
        value = read_value(data, end + 1)
        if value is None or data[value.end : value.end + 1] != b"]":
            return
        raw = value.of(data)
        is_one = b"," not in raw and not is_code(raw)
        if is_one and is_secret(raw, min(named.trust, Trust.CHOSEN)):
            yield Finding(value.start, value.end, named.kind)
        return
    if named.trust is not Trust.RANDOM and first in (b"|", b">"):
        block_end = _BLOCK.at(data, end)
        if block_end > 0:
            yield from _block(data, start, block_end, named)
            return
    wrapped = _WRAPPER.at(data, end) if first and first in _WRAPPED else -1
    if wrapped > 0:
        end = wrapped - (data[wrapped - 1 : wrapped] in (b'"', b"'"))
    value = _read_enclosed(data, start, end, name) or read_value(data, end)
    if value is None or not _is_secret(data, start, end, name, sign, named, value):
        return
    raw = value.of(data)
    is_parameter = data[start - 1 : start] in (b"?", b"&") and b"%" in raw
    plain = unquote_to_bytes(raw) if is_parameter else value.plain(data)
    is_number = not value.quote and raw.isdigit() and data[start - 1 : start] == b'"'
    quote = data[start + len(name) : data.index(b'"', start) + 1] if is_number else b""
    yield Finding(value.start, value.end, named.kind, plain, quote)
    if value.quote and data[value.end + 1 : value.end + 5] == b" -> ":  # what it becomes
        following = read_quoted(data, value.end + 5)
        if following is not None and is_secret(following.of(data), named.trust):
            yield Finding(following.start, following.end, named.kind, following.plain(data))


def _is_secret(
    data: bytes, start: int, end: int, name: bytes, sign: bytes, named: Name, value: Value
) -> bool:
    raw = value.of(data)
    if not name.isupper() and is_ordinary(raw):
        return False  # most values after such a name, and the cheapest question
    is_structural = bool(value.quote) or _is_structural(data, start, name, sign, value)
    # A variable of the environment: `DB_PASS=x`, in YAML `DB_PASS: x`.
    is_tight = data[end - 1 : end] == b"=" and data[end - 2 : end - 1] not in b" \t"
    if name.isupper() and (is_tight or (is_structural and b"_" in name)):
        long_enough = named.trust is Trust.ANY or len(raw) >= ENV_TOKEN_BYTES_MIN
        trust = named.trust if named.trust <= Trust.RANDOM else Trust.ANY
        return long_enough and is_secret(raw, trust, is_env=True)
    if repeats(name, raw):
        return False
    is_compared = data[start:end].rstrip().endswith(b"==") and not looks_random(raw)
    if not value.quote and (is_compared or is_code(raw)):
        return False
    is_sure = named.trust is not Trust.ANY or is_structural
    return is_secret(raw, named.trust if is_sure else Trust.SAID)


def _is_structural(data: bytes, start: int, name: bytes, sign: bytes, value: Value) -> bool:
    """Whether the place, not the value, shows that this is an assignment and no sentence."""
    before = data[start - 1 : start]
    after = data[value.end : value.end + 1]
    if sign == b":" and _MEMBER.at(data, value.end) > 0:
        return True
    if before == b"(" or (data[start - 2 : start] == b", " and after in (b",", b")")):
        return False  # the arguments of a call
    if sign == b"=" and data[value.start - 1 : value.start] == b"=":
        return True
    if before in (b'"', b"'") and data[start + len(name) : start + len(name) + 1] in _AFTER_NAME:
        return True
    if sign == b":" and data[value.start - 1 : value.start] == b":":
        return False  # YAML has a blank there
    line = data[line_start(data, start) : start]
    rest = data[value.end : line_end(data, value.end, 160)]
    ends = rest.strip(b" \t\r,;\"'}])")
    return not line.strip(b" \t-\"'>|+{,$") and (not ends or ends.startswith(b"#"))


def _read_enclosed(data: bytes, start: int, end: int, name: bytes) -> Value | None:
    """The value of `"PASSWORD=two words"`, a string that is one whole assignment."""
    mark = data[start - 1 : start]
    if mark not in (b'"', b"'") or data[end - 1 : end] != b"=" or b" " in name:
        return None
    slashes = start - 1
    while slashes > 0 and data[slashes - 1] == 0x5C and start - slashes < 9:
        slashes -= 1
    depth = start - 1 - slashes
    last = closing(data, end, mark, depth)
    if last <= end or b"=" in data[end:last].partition(b" ")[2]:
        return None
    return Value(end, last, mark, depth)


def _items(data: bytes, at: int, named: Name) -> Iterator[Finding]:
    """The strings of a list: `"passwords": ["a", "b"]`."""
    at += 1
    count = 0
    while True:
        while data[at : at + 1] in (b" ", b",", b"\n", b"\t"):
            at += 1
        value = read_quoted(data, at)
        if value is None:
            return
        # `"creds": ["bob", "x"]`: the second is the password of the first.
        trust = Trust.SAID if count == 1 and named.kind == "credential" else named.trust
        if is_secret(value.of(data), trust):
            yield Finding(value.start, value.end, named.kind, value.plain(data))
        at = value.end + value.depth + 1
        count += 1


def _block(data: bytes, start: int, at: int, named: Name) -> Iterator[Finding]:
    """The lines of a YAML block (`key: |`): those further in than the line of the key."""
    first = line_start(data, start)
    indent = len(data[first:start]) - len(data[first:start].lstrip(b" "))
    last = at
    limit = min(len(data), at + BLOCK_BYTES_MAX)
    while last < limit:
        end = line_end(data, last, BLOCK_BYTES_MAX)
        line = data[last:end]
        if line.strip() and len(line) - len(line.lstrip(b" ")) <= indent:
            break
        last = end + 1
    body = data[at : min(last, len(data))]
    value = body.strip()
    if b"-----BEGIN" not in value and is_secret(value, named.trust):
        begin = at + len(body) - len(body.lstrip())
        yield Finding(begin, begin + len(value), named.kind)


def open_assignment(data: bytes) -> int | None:
    """Where the line begins of a name whose value has not come yet; None when there is none."""
    found = _OPEN.first(data, max(0, len(data) - BLOCK_BYTES_MAX))
    return None if found is None else line_start(data, found[0])


def find_pairs(data: bytes) -> Iterator[Finding]:
    """The value of a pair whose name stands beside it: `name: DB_PASSWORD`, `value: ...`."""
    yield from _find_ordered_pairs(data)
    for start, end in _PAIR_REVERSED.spans(data):
        name = data[start:end].strip(b"\"'").replace(b"'", b'"').rpartition(b'"')[2]
        named = name_of(name)
        colon = data.index(b":", start) + 1
        value = read_quoted(data, colon + data[colon : colon + 1].isspace())
        if named is None or value is None:
            continue
        if is_secret(value.of(data), named.trust, is_env=name.isupper()):
            yield Finding(value.start, value.end, named.kind, value.plain(data))


@detector(_PAIR)
def _find_ordered_pairs(data: bytes, start: int, end: int) -> Iterator[Finding]:
    head = data[start:end].replace(b"=", b":").partition(b":")[2].strip(b" \t\r\n\"'\\")
    words = head.replace(b'"', b" ").replace(b"'", b" ").replace(b",", b" ").split()
    named = name_of(words[0].strip(b"\\")) if words else None
    value = read_value(data, end)
    if named is None or value is None:
        return
    if is_secret(value.of(data), named.trust, is_env=words[0].isupper()):
        yield Finding(value.start, value.end, named.kind, value.plain(data))


def find_calls(data: bytes) -> Iterator[Finding]:
    """The second argument after such a name: `define('DB_PASSWORD', '...')`."""
    yield from _find_plain_calls(data)
    yield from _find_named_calls(data)


@detector(_CALL)
def _find_plain_calls(data: bytes, start: int, end: int) -> Iterator[Finding]:
    name = data[start:end].split(b",")[0].strip(b"[(\"'")
    named = name_of(name)
    value = read_quoted(data, end - 1)
    if named is None or value is None:
        return
    is_env = name.isupper()
    trust = named.trust if is_env else min(named.trust, Trust.SAID)
    if is_secret(value.of(data), trust, is_env=is_env):
        yield Finding(value.start, value.end, named.kind, value.plain(data))


@detector(_NAMED_CALL)
def _find_named_calls(data: bytes, start: int, end: int) -> Iterator[Finding]:
    value = read_quoted(data, end - 1)
    if value is None or data[value.end + 1 : value.end + 2] != b")":
        return
    raw = value.of(data)
    named = name_of(data[start:end].partition(b"(")[0])
    kind = "password" if named is None else named.kind
    if any(48 <= byte < 58 for byte in raw) and is_secret(raw, Trust.SAID):
        yield Finding(value.start, value.end, kind, value.plain(data))


@detector(_ELEMENT)
def find_elements(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """The text of an XML element with such a name."""
    inner = data[start + 1 : end - 1]
    if b">" in inner:
        name = inner.partition(b">")[2].partition(b"<")[0]
    else:
        name, _, attributes = inner.partition(b" ")
        name = name.rpartition(b":")[2]
        if name_of(name) is None:
            name = (
                attributes.partition(b"=")[2].strip(b"\"'").replace(b'"', b"'").partition(b"'")[0]
            )
    named = name_of(name)
    last = data.find(b"</", end, line_end(data, end, ELEMENT_BYTES_MAX))
    if named is not None and last > end and is_secret(data[end:last], named.trust):
        yield Finding(end, last, named.kind)


@detector(_OBJECT)
def find_members(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """Random strings in an object that has such a name: `"token": {"value": "x"}`."""
    name = _PLURAL.sub(rb"\1", data[start:end].rstrip(b"{=: \t\r\n\"'\\"))
    named = name_of(name)
    if named is None or (named.kind == "signature"):
        return
    at = end
    for _ in range(FIELDS_MAX):
        field, at = at, _FIELD.at(data, at)
        value = read_quoted(data, at) if at > 0 else None
        if value is None:
            return
        is_value = _VALUE_FIELD.first(data, field, at) is not None
        may_be_chosen = named.kind == "password" or (
            is_value and named.kind in ("credential", "secret", "token")
        )
        is_chosen = may_be_chosen and is_secret(value.of(data), Trust.SAID)
        # A word like `refresh` names many things: an id or a commit below it is no secret.
        raw = value.of(data)
        is_digest = len(raw) in (40, 64) and _DIGEST.at(raw, 0) == len(raw)
        is_id = named.trust is Trust.MADE and not is_value and (is_uuid(raw) or is_digest)
        if is_chosen or (looks_made(raw) and not is_id):
            yield Finding(value.start, value.end, named.kind, value.plain(data))
        at = value.end + value.depth + 1


@detector(_PARAMETER)
def find_parameters(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """Values of query parameters whose names say little outside of a query."""
    value = read_value(data, end)
    if value is not None and is_secret(value.of(data), Trust.RANDOM):
        name = data[start:end].lower().rpartition(b";")[2].strip(b"?&=")
        kind = _PARAMETERS.get(name, "signature")
        yield Finding(value.start, value.end, kind, unquote_to_bytes(value.of(data)))
