"""Values near a noun of secrets: beside it, after a colon, on the line below, or before it."""

from __future__ import annotations

from collections.abc import Iterator

from operator_sre.ledger.redaction.findings import Finding, Pattern, detector
from operator_sre.ledger.redaction.names import NAME, Name, Trust, name_of
from operator_sre.ledger.redaction.values import (
    is_code,
    is_mixed,
    is_secret,
    is_uuid,
    line_end,
    line_start,
    looks_made,
    names_machine,
    read_near,
)

__all__ = [
    "TRIGGERS",
    "find_after",
    "find_before",
    "find_below",
    "find_beside",
    "find_near",
    "open_noun",
]

TRIGGERS = rb"\bcredentials|\bcreds\b"
_SIGN = (
    rb"(?:[ \t]*(?::|=|->|=>|\xe2\x86\x92|,|\||;|\.{4,64})[ \t]*"
    rb"|[ \t]+(?:-[ \t]+|(?:is|was|are|ist|war|lautet|est|es"
    rb"|\xc3[\xa8\xa9]|jest|er|=|->)[: ][ \t]*)?)"
)
_TYPE = rb"(?:[05-9] )?"  # how a router stores it
_HEAD = rb"(?i)" + NAME + rb"[\"'\\`\])*]*(?:" + _SIGN + _TYPE + rb"\(?|\()"
_BESIDE = Pattern(_HEAD)
# Most words after such a noun are only words: RE2 passes them over far quicker than we could.
_BESIDE_MADE = Pattern(
    _HEAD + rb"[\"'`\\]*[^\s\"'`<>]*(?:[0-9!@$%^&*+~?]|(?-i:[a-z][A-Z]|[A-Z]{8}))"
)
_AFTER = Pattern(rb"(?i)" + NAME + rb"(?: [\w()'/.-]+){1,6}: ?")
_ANNOUNCES = (
    rb"(?i)(?:" + NAME + rb"[\"']?|\b(?:password|passphrase|token|secret"
    rb"|(?:api|access|secret|root|unseal|recovery) key)\b[^\n:]{0,80}):[ \t]*"
)
_BELOW = Pattern(_ANNOUNCES + rb"\r?\n(?:[ \t]*\r?\n)?[ \t]*")
_OPEN = Pattern(
    _ANNOUNCES + rb"(?:\r?\n[ \t]*){0,2}\z|'random' passwords\r?\n(?:[\w.-]+:[^\s:]+\r?\n){0,16}\z"
)
_BEFORE = Pattern(
    rb"(?i) (?:(?:as|is|was|are|=) (?:the|our|my|your|his|her|its|an?)"
    rb"|(?:when|if|once) (?:asked|prompted) for (?:the|an?|your))"
    rb"(?: [\w-]+){0,2} (?:password|passwd|passphrase|pw|token|key|secret"
    rb"|credentials|creds)\b"
)
# A random word in a line that speaks of secrets, whatever stands between the two.
_SPEAKS = Pattern(
    rb"(?i)\b(?:\w+_)?(?:token|secret|password|passwd|passphrase|credential|cred|bearer"
    rb"|(?:api|access|private|signing|license|auth|secret)[ _-]?key)s?\b"
    rb"|\bkeys? (?:rotat|chang|replac|renew|issu|generat|creat|revok|us)\w{1,3}\b"
)
_WORD = Pattern(rb"[A-Za-z0-9][\w+/-]{15,255}={0,2}")
_DIGITS, _HEX = b"0123456789", b"0123456789abcdef"
_INSIDE = (b"+", b"/", b".", b":", b"@", b"-", b"\\", b"_")
NEAR_BYTES = 64
MARGIN_BYTES = 16
_RESULTS = (b"> '", b'> "', b"= '", b'= "')
_COMMENT = Pattern(rb"\s*(?:#|//|--|;|/\*|<!--)")
_LONG = Pattern(rb"\\*[\"'`]?[\w+/.:~%=-]{12}")
# An option, an assignment, a call, a type, a macro of a man page.
_EXPRESSION = Pattern(rb"-|[a-z_][\w.-]*=[^=]|[^()\[\]{}|\\]*[()\[\]{}|\\]")
_VERBS = frozenset("is was are ist war lautet est es è é jest er".encode().split())
_UPPER_HEX = Pattern(rb"(?:0x)?[0-9A-F]{8,40}")
# What a colon is about when one of these stands before it.
_OTHERS = frozenset(
    b"id ids uuid hash sha sha1 sha256 md5 digest fingerprint checksum path file commit revision"
    b" version url uri host user username name image ref etag trace span request at address sum"
    b" size type kind status state code error reason message body response".split()
)
KEY_BYTES_BACK = 24
CHOSEN_BYTES_MIN = 6


@detector(_BESIDE_MADE)
def find_beside(data: bytes, start: int, _: int) -> Iterator[Finding]:
    """What follows such a noun at once, when it cannot be a word: `token 0f3a...`, `key=0f3a`."""
    end = _BESIDE.at(data, start)
    text = data[start:end]
    if data[end : end + 1] in (b"$", b"<", b"{", b"%", b"["):
        return  # a placeholder
    name = text.rstrip(b" \t:=->,|;(['\"\\`])*.").lstrip(b"-")
    name = name.split(b"\xe2")[0]
    words = name.split(b" ")
    while len(words) > 1 and (words[-1].isdigit() or words[-1].lower() in _VERBS):
        words.pop()
    name = b" ".join(words).rstrip(b" \t:=->,|;(['\"\\`])*")
    named = _name_at(data, start, name)
    if named is None or named.kind == "signature" or name == b"PASS":  # a test that passed
        return
    if name.endswith(b"passwd") and text[-1:] in b" \t":
        return  # the file, the command
    is_password = named.kind == "password"
    if not is_password and _LONG.at(data, end) < 0:
        return
    value = read_near(data, end)
    if value is None:
        return
    raw = value.of(data)
    if names_machine(data, start, end, value):
        return
    if not value.quote and (_EXPRESSION.at(raw, 0) > 0 or is_code(raw)):
        return
    if _UPPER_HEX.fits(raw):  # a key of GnuPG, by its fingerprint
        return
    if text.endswith(b"(") and text[-2:-1].isalnum() and not looks_made(raw):
        return  # a call
    if is_password:
        is_note = _COMMENT.at(data, line_start(data, start)) > 0  # it has no verbs
        is_sure = named.trust is Trust.ANY or is_note or looks_made(raw)
        is_one = is_sure and (is_note or _has_digit(raw)) and len(raw) >= CHOSEN_BYTES_MIN
    elif named.trust is Trust.MADE:  # keys by nothing but that word: of rows, of caches, of GnuPG
        is_field = data[start - 1 : start] in (b'"', b"'", b"\\")
        is_one = looks_made(raw) and not (is_field and is_uuid(raw))
    else:
        is_one = looks_made(raw)
    if is_one and is_secret(raw, Trust.SAID if is_password else Trust.CHOSEN):
        yield Finding(value.start, value.end, named.kind, value.plain(data))


def _name_at(data: bytes, start: int, name: bytes) -> Name | None:
    """What the noun names with the word before it: a public key or a page token is no secret."""
    if (
        data[start : start + 1] != b"-"
        and b"_" not in name
        and b"-" not in name
        and b"." not in name
        and b" " not in name
    ):
        words = data[max(0, start - KEY_BYTES_BACK) : start].split(b"\n")[-1].split()
        if words and data[start - 1 : start] == b" ":
            before = words[-1].strip(b"\"'`(")
            if before.isalnum():
                name = before + b" " + name
    if name.lower() == b"key":
        return Name("api_key", Trust.MADE)
    return name_of(name)


def _has_digit(value: bytes) -> bool:
    return any(48 <= byte < 58 for byte in value)


@detector(_AFTER)
def find_after(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """What follows after more words and a colon: `API key not accepted: 0f3a...`."""
    if _LONG.at(data, end) < 0:
        return
    words = data[start:end].rstrip(b" :=").lower().split()
    if words[-1].strip(b"()'") in _OTHERS:
        return
    for count in (1, 2):
        named = name_of(b" ".join(words[:count]))
        value = read_near(data, end)
        if named is not None and value is not None and looks_made(value.of(data)):
            if not is_uuid(value.of(data)) and is_secret(value.of(data), Trust.CHOSEN):
                yield Finding(value.start, value.end, named.kind)
            return


@detector(_BELOW)
def find_below(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """What stands alone on the line below a sentence that announces it."""
    last = line_end(data, end, 256)
    value = data[end:last].strip(b" \t\r\"'`")
    is_word = b" " not in value and _EXPRESSION.at(value, 0) < 0
    name = data[start : data.index(b":", start)].strip(b"\"'")
    named = _name_at(data, start, name) if b" " not in name else None
    if named is None and b" " not in name:
        return
    is_password = named is not None and named.kind == "password" and named.trust is Trust.ANY
    trust = Trust.SAID if is_password else Trust.CHOSEN
    is_likely = _has_digit(value) if is_password else looks_made(value)
    if is_word and is_likely and is_secret(value, trust):
        at = data.index(value, end)
        kind = "password" if b"pass" in name.lower() else "token"
        yield Finding(at, at + len(value), kind)


def open_noun(data: bytes) -> int | None:
    """Where the line begins of a sentence whose secret may be on the next line."""
    found = _OPEN.first(data, max(0, len(data) - 512))
    return None if found is None else line_start(data, found[0])


def find_near(data: bytes) -> Iterator[Finding]:
    """Random words near such a noun: `GITHUB_TOKEN is set (x)`, `key rotated: old=x new=y`."""
    for start, end in _WORD.spans(data):
        word = data[start:end]
        # Most long words are paths, names and digests, which is found out at once.
        if len(word) - len(word.translate(None, _DIGITS)) < 2 or not word.strip(_HEX):
            continue
        if (word.islower() or word.isupper()) and not word.isalnum():
            continue
        if data[start - 1 : start] in _INSIDE or data[end : end + 1] in _INSIDE:
            continue
        # A result on a line of its own belongs to the line before: `=> 'x'`.
        begin = line_start(data, start)
        if start - begin <= MARGIN_BYTES and data[start - 3 : start] in _RESULTS:
            begin = line_start(data, max(begin - 1, 0))
        first = max(begin, start - NEAR_BYTES)
        last = line_end(data, end, NEAR_BYTES)
        if _SPEAKS.first(data, first, last) and is_mixed(word):
            yield Finding(start, end, "token")


@detector(_BEFORE)
def find_before(data: bytes, start: int, end: int) -> Iterator[Finding]:
    """What stands before: `hunter2 is the admin password`, `0f3a... as the key`."""
    line = data[line_start(data, start) : start]
    words = line.split()
    if not words:
        return
    word = words[-1]
    value = word.strip(b"\"'`(),*")
    if _EXPRESSION.at(value, 0) > 0:
        return
    noun = data[start:end].lower().rpartition(b" ")[2]
    if noun.startswith(b"cred"):
        value = value.rpartition(b":")[2].rpartition(b"/")[2]
    if noun in (b"key", b"token", b"secret"):
        is_one = looks_made(value)
    else:
        is_one = len(value) >= CHOSEN_BYTES_MIN and _has_digit(value)
    if is_one and is_secret(value, Trust.SAID):
        at = data.rindex(value, 0, start)
        yield Finding(at, at + len(value), "token" if noun in (b"key", b"token") else "password")
