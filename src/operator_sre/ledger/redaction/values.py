"""Values: reads the value at a place in a text, and decides whether it is a secret."""

from __future__ import annotations

import base64
import binascii
import itertools
import re
import string
from dataclasses import dataclass

from operator_sre.ledger.redaction.findings import Pattern, any_of
from operator_sre.ledger.redaction.names import NOTHING, ORDINARY, TECHNICAL, Trust

__all__ = [
    "Value",
    "closing",
    "is_basic",
    "is_code",
    "is_mixed",
    "is_ordinary",
    "is_secret",
    "is_uuid",
    "line_end",
    "line_start",
    "looks_chosen",
    "looks_made",
    "looks_random",
    "names_machine",
    "read_near",
    "read_quoted",
    "read_value",
    "repeats",
]

# How far a closing quote is looked for. A longer value is still taken, up to the next blank.
QUOTED_BYTES_MAX = 16_384
_QUOTES = b"\"'`"
# Backslashes before a quote, by how often the text was put into a string: 0, 1, 3, 7.
_DEPTHS = (0, 1, 3, 7)
# One class of characters is linear in any engine, and this one starts quicker.
_BARE = re.compile(rb"[^\x00-\x20\x7f\"'`<>]+")
_CUTTING = re.compile(rb"[\\&;,|%)]")
# Where a bare value ends before the next blank: `a=1&b=2`, `a=1;b=2`, `a=1,b=2`, "a=1\nb=2".
_CUT = Pattern(
    rb"\[?\\+[nrt]|\\+u00(?:26|3[ce]|22|27)|&(?:amp|quot|lt|gt|#\d+);|&&|\|\||&[\w.%\[\]-]+="
    rb"|[;,](?:(?:[A-Z]\w* ){0,2}[\w.-]+[=:]|[\[{(])|%26[\w.%-]+%3[dD]|\);|%22|%27"
)
# A value is read in windows that double, so that a text of nothing but assignments without a blank
# is still read once, not once for each of them.
_WINDOW_BYTES = 512
_BEYOND_BYTES = 40
REFUSED_BYTES = 16
_REFUSED = Pattern(rb"\b(?:wrong|incorrect|bad|invalid|rejected|refused) [a-z ]{1,24}$")
# The name of a product with a number, such as `redis123`, is a common password.
_MACHINE = Pattern(
    rb"(?i)(?:(?:api|app|backend|cache|controller|db|edge|frontend|gateway|gw|host|lb"
    rb"|leader|master|member|node|primary|proxy|replica|server|srv|standby|storage|store|vm|web"
    rb"|worker)[-.]?|(?:etcd|kafka|mysql|pg|postgres|redis|zk)[-.])+\d{0,2}"
)
_PAIRS = {ord(")"): ord("("), ord("]"): ord("["), ord("}"): ord("{")}


@dataclass(frozen=True, slots=True)
class Value:
    """A value's place, and how it is quoted."""

    start: int
    end: int
    quote: bytes = b""
    # Backslashes before its quotes.
    depth: int = 0

    def of(self, data: bytes) -> bytes:
        """The value as it stands in the text."""
        return data[self.start : self.end]

    def plain(self, data: bytes) -> bytes | None:
        """The value without its escapes, when it is quoted and has some."""
        raw = data[self.start : self.end]
        if self.quote != b'"' or b"\\" not in raw:
            return None
        escape = b"\\" * (self.depth + 1)
        return raw.replace(escape * 2, b"\0").replace(escape, b"").replace(b"\0", b"\\")


def line_start(data: bytes, at: int, most: int = 512) -> int:
    """Where the line of `at` begins, but not more than `most` bytes back."""
    return max(data.rfind(b"\n", max(0, at - most), at) + 1, at - most, 0)


def line_end(data: bytes, at: int, most: int) -> int:
    """Where the line of `at` ends, but not more than `most` bytes on."""
    end = data.find(b"\n", at, at + most)
    return min(at + most, len(data)) if end < 0 else end


def read_value(data: bytes, at: int) -> Value | None:
    """The value that begins at `at`, within its line; None when there is nothing."""
    quoted = read_quoted(data, at)
    if quoted is not None:
        return quoted
    if data[at : at + 1] in (b'"', b"'", b"`"):
        at += 1  # never closed, as in a line that was cut short: what is there counts
    end = _bare_end(data, at)
    if end < 0:
        return None
    # Without brackets that close nothing and the end of a sentence.
    if data[end : end + 1] in (b'"', b"'", b"`"):
        while end > at and data[end - 1] == 0x5C:
            end -= 1
    for _ in range(4):
        last = data[end - 1]
        opener = _PAIRS.get(last)
        is_loose = opener is not None and data.count(opener, at, end) < data.count(last, at, end)
        if end == at or not (last in b",;:." or is_loose):
            break
        end -= 1
    return Value(at, end) if end > at else None


def read_near(data: bytes, at: int) -> Value | None:
    """The same, but None when it is long: then no noun of a sentence is about it."""
    value = read_value(data[at : at + _WINDOW_BYTES], 0)
    if value is None or value.end == _WINDOW_BYTES:
        return None
    return Value(at + value.start, at + value.end, value.quote, value.depth)


def read_quoted(data: bytes, at: int) -> Value | None:
    """The quoted value that begins at `at`; None when there is no quote or it never closes."""
    quote = at
    while data[quote : quote + 1] == b"\\" and quote - at < 8:
        quote += 1
    mark = data[quote : quote + 1]
    if not mark or mark not in _QUOTES or quote - at not in _DEPTHS:
        return None
    end = closing(data, quote + 1, mark, quote - at)
    return None if end < 0 else Value(quote + 1, end, mark, quote - at)


def closing(data: bytes, start: int, mark: bytes, depth: int) -> int:
    """Where the string that began before `start` ends, before the backslashes of its quote."""
    last = line_end(data, start, QUOTED_BYTES_MAX)
    at = data.find(mark, start, last)
    while at >= 0:
        slashes = at
        while slashes > start and data[slashes - 1] == 0x5C:
            slashes -= 1
        # Inside a string every backslash is doubled, so a quote of the string's own level has
        # `depth` of them left over.
        is_own = (at - slashes) % (2 * depth + 2) == depth
        # YAML and SQL write a quote in a string as two.
        is_doubled = mark == b"'" and not depth and data[at + 1 : at + 2] == mark
        if is_own and not (is_doubled and at > start):
            return at - depth
        at = data.find(mark, at + 1 + is_doubled, last)
    return -1


def _bare_end(data: bytes, at: int) -> int:
    size = _WINDOW_BYTES
    while True:
        last = min(at + size, len(data))
        bare = _BARE.match(data, at, last)
        if bare is None:
            return -1
        end = bare.end()
        if _CUTTING.search(data, at, end):
            # `;User Id=` has a blank in it, so the search looks a little beyond the value.
            cut = _CUT.first(data, at, min(end + _BEYOND_BYTES, len(data)))
            if cut and cut[0] < end:
                return cut[0]
        if end < last or last == len(data):
            return end
        size *= 2


# A longer value is nothing that we know by its shape, and is a secret if its name says so.
SHAPED_BYTES_MAX = 256
_DIGITS = string.digits.encode()
_LOWER = string.ascii_lowercase.encode()
_UPPER = string.ascii_uppercase.encode()
# A capital that begins nothing: the next word begins one or two letters later.
_ODD = re.compile(rb"(?<![A-Z])[A-Z](?=[a-z]?(?:[A-Z0-9]|\Z))")
_CONSONANTS = re.compile(rb"(?i)[bcdfghjklmnpqrstvwxz]{6}|[bcdfghjkmpqvwxz]{5}")
# From a letter to a digit or back: words with a number have one or two, what is drawn has many.
_SWITCH = re.compile(rb"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")
_TURN = re.compile(rb"[a-z](?=[A-Z])")
_SIGNS = b"!@#$%^&*+=~?"

_PLACEHOLDER = any_of(
    rb"<[\w .:/|'-]*>.*|&lt;.*",  # <password>
    rb"\$\{.*|\$\(.*|\$\[.*",  # ${TOKEN} $(cat file)
    rb"\$[a-z_]+|(?-i:\$[A-Z_][A-Z0-9_]*)",  # $PASSWORD
    rb"\$[a-z_]\w*(?:-|->|::|/|\.|\[).*",  # $self->token $HOME/file
    rb"%[a-z_]+%|(?:%[svdqr]\W?)+|%\(\w+\)s",  # formats
    rb"\{\{.*|\{%.*|\{[\w.:]*\}|#\{.*",  # templates
    rb":[a-z_]+|@[a-z_]+@?|\?+",  # parameters of a query
    rb"(?:[*x.#_\s?-]|\xe2\x80\xa2)+|.{0,8}\*\*\*+.{0,8}|.{0,12}\.\.\.",  # masked already
    rb"[\[({<]+ ?(?:redacted|filtered|masked|hidden|removed|omitted|secret|sensitive|protected"
    rb"|scrubbed|password|token|your|none|null|empty|not set|unset)\b[^\[\]]*[\])}>]*",
    rb"(?:your|insert|replace|enter|put|add)[-_ ](?:\w+[-_ ])*"
    rb"(?:password|passwd|pass|pwd|secret|token|key|credentials?|value)\w*(?:[-_ ]\w+)*",
    rb"\w+(?:[-_ ]\w+)*[-_ ]here|\x00+",
    rb"placeholder|dummy|redacted|replace_?me|insert_?me|todo|tbd",
)
_HEX = any_of(rb"[0-9a-f]+")
_CAMEL = any_of(
    rb"(?-i:(?:[A-Z]?[a-z]{2,}|[A-Z]{1,6}|\d{1,4})"
    rb"(?:[_-]?(?:[A-Z][a-z]{2,}|[A-Z]{1,4}|\d{1,4})){1,12})"
)
_UUID = any_of(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_CAPITAL = any_of(rb"(?-i:[A-Z])[a-z]{2,}[-_.:]\d{2,6}")  # Castle_4912
_PATH = any_of(rb"(?:~|\.{1,2})?(?:/[\w.@%+-]+)+/?")
_REFERENCE = any_of(
    rb"(?:vault|arn|ssm|secretsmanager|keyvault|kms|ref\+\w+|gcp|file|env|op|awssm|azurekeyvault"
    rb"|https?|s3|gs|doppler|sops|conjur|data):\S*",
    rb"!(?:vault|ref|secret|env|sub|join|getatt|importvalue|encrypted|input)\b.*",  # YAML tags
    rb"[&*][a-z_]+",  # YAML anchors and aliases
    rb"[a-z]:\\.*|secrets?/[\w./-]+|projects/[\w./-]+",
    rb"[\w./-]+\.(?:pem|json|ya?ml|txt|key|crt|cer|env|conf|cfg|ini|p12|jks|pfx|sh|py|go|js|md"
    rb"|log)",
)
_CODE = any_of(
    rb"[A-Za-z_][\w.]*(?:\(|\[|->|::).*",  # a call, an index
    rb"[A-Za-z_]+(?:\.[A-Za-z_]+)+",  # settings.DB_PASSWORD
    rb"[a-z_]+\d{0,2}(?:_[a-z\d]+)*(?:\.[A-Za-z_]+)+",
    rb"(?:[A-Za-z]+_)+(?:pass|pwd|psk|secret|token|key|cred|auth|sig)[a-z]*(?:_[a-z]+)*",
    rb"(?:pass|pwd|secret|token|key|cred|auth)[a-z]*(?:_[a-z]+)+",
    rb"_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|_[A-Z][A-Z0-9]+",  # a constant
    rb"&[A-Za-z_][\w.]*[{(<].*|&\[.*|\[\]\w+.*",  # a reference, a slice
    rb"[A-Z]\w*(?:Types?|Bytes|Str|String|Provider|Field|Config)",
    rb"[A-Za-z_]{1,24}=",  # the next name: this one has no value
    rb"[\[({]+[\w.-]*[\])}:,]*|[&|=;,)}\]]+[A-Za-z_]*|\+|-{1,2}[a-z][a-z-]*|\\.{0,2}",
    flags=b"s",
)
# Names of objects, which a jumble of upper and lower case is not.
_OBJECTS = any_of(
    rb"[a-z]+(?:[-_./][a-z]+)*[-_.]\d{1,5}",  # web-01
    rb"[a-z]+(?:[-./][a-z]+\d{0,2})+",  # default/db-credentials
    rb"[a-z]+(?:-[a-z0-9]+)*-[a-z0-9]{8,10}-[a-z0-9]{5}",  # pods
)
_SHAPES = any_of(
    rb"v?\d+(?:\.\d+)+[\w.+-]*|v\d+(?:(?:alpha|beta|rc)\d+)?",  # versions, addresses
    rb"[\w.-]+:\d{1,5}|\d+(?:\.\d+){3}(?::\d+)?(?:/\d+)?",
    rb"\d{4}-\d\d-\d\d.*|\d{1,2}:\d\d(?::\d\d.*)?",  # times
    rb"[\d.,]+(?:[mun]?s|m|h|d|w|%|[kmgtp]i?b?(?:/s)?|bytes?|x|th|st|nd)",  # quantities
    rb"\d+[- ]?(?:char|character|bit|byte|digit|day|hour|min|minute|second|sec|week|month|year)\w*",
    rb"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|[a-z_-]+@[a-z.-]+\d{0,3}",  # people, logins
    rb"sha(?:1|256|384|512)[:=-].*|[\w./-]+@sha256.*",  # digests
    rb"(?-i:[A-Z]{2,8}-?\d+)|[a-z]+/\d[\d.]*",  # RFC7519, HTTP/1.1
    rb"(?-i:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]?[a-z]+(?:(?:[A-Z][a-z])?[A-Z][a-z]{2,})+)",
    rb"[\d.,:/+-]+(?:/(?:tcp|udp))?|0x[0-9a-f]{1,8}|#[0-9a-f]{3,8}",
    rb"(?:"
    + b"|".join(TECHNICAL)
    + rb")(?:[-_/.:](?:[a-z]{1,14}|[a-z]{0,5}\d{1,4}|[0-9a-f]{32,128}))*",
)


def is_secret(value: bytes, trust: Trust, *, is_env: bool = False, at_least: int = 3) -> bool:
    """Whether a value under a name of secrets is one. In the environment every word may be."""
    if len(value) > SHAPED_BYTES_MAX:
        return not _is_sentence(value)
    stripped = value.strip()
    # The cheap questions first: most values that stand after such a name are ordinary words.
    if len(stripped) < at_least or (not is_env and is_ordinary(stripped)):
        return False
    if trust is Trust.MADE:
        is_one = looks_made(stripped) and not is_uuid(stripped)
    elif trust is Trust.RANDOM:
        is_one = looks_random(stripped) or is_basic(stripped)
    elif is_env or trust is Trust.ANY:
        is_one = is_env or not (b" " in stripped and _is_sentence(stripped))
    else:
        is_one = looks_chosen(stripped) or (trust is Trust.SAID and _is_phrase(stripped))
    if not is_one or stripped.lower() in NOTHING:
        return False
    if _PLACEHOLDER.fits(stripped) or _REFERENCE.fits(stripped):
        return False
    # Base64 may begin with a slash; the parts of a path are words.
    return not (stripped[:1] in b"/~." and _PATH.fits(stripped)) or any(
        len(part) > 11 and _counts(part)[1] and part not in (part.lower(), part.upper())
        for part in stripped.split(b"/")
    )


def is_ordinary(value: bytes) -> bool:
    """Whether it is a word that stands after names of secrets all day."""
    return value.lower().rstrip(b".,;:!") in ORDINARY


def names_machine(data: bytes, start: int, end: int, value: Value) -> bool:
    """Whether what follows the noun at `start` up to `end` is where a secret was refused.

    As in `rejected password web01`: a machine, by what it does and its number.
    """
    if value.quote or data[end - 1 : end] != b" " or b":" in data[start:end]:
        return False
    before, name = data[max(0, start - REFUSED_BYTES) : end].lower(), value.of(data)
    return _REFUSED.first(before) is not None and not name.isalpha() and _MACHINE.fits(name)


def is_code(value: bytes) -> bool:
    """Whether a bare value is an expression: a call, a member, a variable named like a secret."""
    return len(value) <= SHAPED_BYTES_MAX and _CODE.fits(value)


def repeats(name: bytes, value: bytes) -> bool:
    """Whether a value is only its name again, as names are: apiKey = "apiKey", db_password."""
    if value == value.lower() and value.isalpha():
        return False
    plain = value.lower().translate(None, b"-_.")
    known = name.lower().translate(None, b"-_.$ ")
    return plain.isalpha() and (plain in known or known in plain)


def looks_chosen(value: bytes) -> bool:
    """Letters with digits or signs, as in a password; not a version, an address, a known term."""
    value = value.strip(b"*_`")  # emphasis
    letters, digits, _ = _counts(value)
    if len(value) < 5 or not letters or b" " in value:
        return False
    signs = _counts(value.rstrip(b"!?"))[2]  # at the end they belong to the sentence
    if not (digits or signs or _is_jumbled(value) or _is_gibberish(value)):
        return False
    return not _has_known_shape(value)


def looks_random(value: bytes) -> bool:
    """Long and mixed, as a machine makes it."""
    letters, digits, _ = _counts(value)
    if len(value) < 8 or b" " in value or not letters:
        return False
    if not (digits or _is_jumbled(value) or _is_gibberish(value)):
        return False
    return not _has_known_shape(value)


def looks_made(value: bytes) -> bool:
    """Random beyond doubt: digits and letters of both cases follow each other without an order."""
    if not len(value) >= 12 or not looks_random(value):
        return False
    if not value.translate(None, _DIGITS + b"abcdefABCDEF-"):
        return len(value) >= 16
    if _is_jumbled(value) and not _OBJECTS.fits(value):
        return True
    size = min(len(value), 96)
    switches = len(_SWITCH.findall(value[:96]))
    return switches * 7 >= size or (switches + len(_TURN.findall(value[:96]))) * 5 >= size


def is_mixed(value: bytes) -> bool:
    """Random beyond doubt, and neither hexadecimal nor a name: letters of both cases with digits.

    Or letters of one case and digits that change places again and again.
    """
    if len(value) < 16 or not looks_made(value) or is_uuid(value):
        return False
    if b"/" in value and not any(len(part) > 11 and is_mixed(part) for part in value.split(b"/")):
        return len(value) > 39 and value[-1:] == b"="
    upper = sum(byte in _UPPER for byte in value)
    lower = sum(byte in _LOWER for byte in value)
    digits = sum(byte in _DIGITS for byte in value)
    if not (lower and upper):
        jumps = len(_SWITCH.findall(value))
        return value.isalnum() and digits > 2 and jumps > 4 and not _HEX.fits(value)
    return digits > 1 and upper > 1 and lower > 1 and not _CAMEL.fits(value)


def is_uuid(value: bytes) -> bool:
    """Whether it is written as a UUID, which more often names a request than it is a secret."""
    return _UUID.fits(value)


def is_basic(value: bytes) -> bool:
    """Whether this is base64 of `user:password`."""
    text = value.rstrip(b"=")
    if not 4 <= len(text) <= SHAPED_BYTES_MAX:
        return False
    try:
        decoded = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        return False
    return b":" in decoded and all(31 < byte < 127 for byte in decoded)


def _has_known_shape(value: bytes) -> bool:
    if len(value) > SHAPED_BYTES_MAX:
        return False
    if _SHAPES.fits(value) or _CODE.fits(value) or value.lower() in ORDINARY:
        return True
    return _OBJECTS.fits(value) and not (_is_jumbled(value) and _counts(value)[1])


def _is_jumbled(value: bytes) -> bool:
    """Upper and lower case in an order that no word or camelCase name has."""
    short = value[:64]
    if short in (short.lower(), short.upper()):
        return False
    turns = sum(before in _LOWER and after in _UPPER for before, after in itertools.pairwise(short))
    return (turns > 2 and turns * 6 > len(short)) or len(_ODD.findall(short)) > 2


def _is_gibberish(value: bytes) -> bool:
    """Letters of one case that are no word: too many of them, or consonants without a vowel."""
    if not value.isalpha() or len(value) < 8 or value not in (value.lower(), value.upper()):
        return False
    return len(value) > 15 or _CONSONANTS.search(value) is not None


def _counts(value: bytes) -> tuple[int, int, int]:
    """How many letters, digits and signs; bytes beyond ASCII are letters."""
    rest = value.translate(None, _DIGITS)
    digits = len(value) - len(rest)
    plain = rest.translate(None, _SIGNS)
    signs = len(rest) - len(plain)
    letters = len(plain) - len(plain.translate(None, _LOWER + _UPPER + bytes(range(128, 256))))
    return letters, digits, signs


def _is_phrase(value: bytes) -> bool:
    """Words with dashes and a digit, as password managers make them; or a word and a number."""
    words = value.split(b"-")
    if len(words) > 2 and value[-1:].isdigit() and all(word.isalnum() for word in words):
        return True
    spoken = value.split()  # as it is read out from a list of words
    if len(spoken) > 2 and spoken[-1].isdigit() and all(word.isalpha() for word in spoken[:-1]):
        return not _is_sentence(value)
    return _CAPITAL.fits(value)


def _is_sentence(value: bytes) -> bool:
    """Several words of which one is an ordinary one: `must be at least 8 characters`."""
    words = value.lower().split(None, 12)
    return len(words) > 1 and any(word.strip(b".,;:!()") in ORDINARY for word in words)
