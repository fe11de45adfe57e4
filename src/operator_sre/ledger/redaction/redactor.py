"""Redaction: secrets go, the sentence stays, equal secrets remain recognisable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from operator_sre.ledger.redaction.arguments import secret_arguments
from operator_sre.ledger.redaction.assignments import open_assignment
from operator_sre.ledger.redaction.findings import Finding, digest, merge, replace, without_markers
from operator_sre.ledger.redaction.formats import open_pem
from operator_sre.ledger.redaction.lists import open_words
from operator_sre.ledger.redaction.manifests import find_manifest
from operator_sre.ledger.redaction.names import Name, Trust, name_of
from operator_sre.ledger.redaction.nouns import open_noun
from operator_sre.ledger.redaction.scan import Layout, scan
from operator_sre.ledger.redaction.values import is_secret

__all__ = ["Field", "Json", "Leaf", "Redactor", "Stream", "walk_value"]

Leaf: TypeAlias = bool | int | float | str | None
Json: TypeAlias = "Leaf | Sequence[Json] | Mapping[str, Json]"

# Beside a `name` stands a `value`: environment lists, parameters, tags.
_NAMES = ("name", "key", "Name", "Key", "ParameterKey", "variable")
_VALUES = ("value", "Value", "ParameterValue", "default")
_HEADERS = {"authorization": "Authorization", "proxy-authorization": "Authorization"}
_COOKIES = {"cookie": "Cookie", "set-cookie": "Cookie", "cookies": "Cookie"}


@dataclass(frozen=True, slots=True)
class Field:
    """What a field's name says about the values in it."""

    named: Name | None = None
    # The header that its text is, when it is one.
    header: str = ""
    # Whether everything below is a secret, whatever it is called.
    is_all: bool = False


_PLAIN = Field()
_SECRET_DATA = Field(Name("k8s_secret", Trust.ANY), is_all=True)
_Slot: TypeAlias = "tuple[Callable[[Json], None], Json, Field]"


def walk_value(value: Json, leaf: Callable[[Leaf, Field], Leaf], key: Callable[[str], str]) -> Json:
    """A copy of the value with every leaf and every key changed.

    A stack, not recursion: the sender of a value decides how deep it is.
    """
    top: list[Json] = [None]
    todo: list[_Slot] = [(_put(top, 0), value, _PLAIN)]
    while todo:
        put, current, field = todo.pop()
        if isinstance(current, Mapping):
            table: dict[str, Json] = {key(str(name)): None for name in current}
            put(table)
            todo += [
                (_put(table, key(name)), item, below)
                for name, item, below in _fields(current, field)
            ]
        elif isinstance(current, Sequence) and not isinstance(current, str):
            items: list[Json] = list(current)
            put(items)
            secret = secret_arguments(current)  # an option says what the next word is
            for at, item in enumerate(current):
                below = Field(Name(secret[at], Trust.ANY)) if at in secret else field
                todo.append((_put(items, at), item, below))
        else:
            put(leaf(current, field))
    return top[0]


def _put(into: Any, at: object) -> Callable[[Json], None]:
    return lambda value: into.__setitem__(at, value)


def _fields(table: Mapping[str, Json], field: Field) -> Iterator[tuple[str, Json, Field]]:
    is_secret_object = table.get("kind") == "Secret"
    paired = next((text for name in _NAMES if isinstance(text := table.get(name), str)), "")
    for raw, item in table.items():
        name = str(raw)
        if field.is_all:
            yield name, item, field
        elif is_secret_object and name in ("data", "stringData"):
            yield name, item, _SECRET_DATA
        elif paired and name in _VALUES and (named := _name_of(paired)) is not None:
            yield name, item, Field(named)
        else:
            lower = name.lower()
            header = _HEADERS.get(lower) or _COOKIES.get(lower, "")
            yield name, item, Field(None if header else _name_of(name), header)


def _name_of(name: str) -> Name | None:
    if "[REDACTED:" in name:
        return None  # what was a secret itself names nothing
    return name_of(name.encode("utf-8", "surrogatepass"))


KEY_BYTES_MIN = 16
# A marker can make a neighbour recognisable that was not before; then there is another pass.
PASSES_MAX = 4
# What a value is called that is known to be a secret, wherever it stands.
KEPT = "kept_secret"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


class Redactor:
    """Replaces secrets by `[REDACTED:kind:hash]`, the hash made with `key`. It never raises.

    `known` tells values that are secrets wherever they stand: each form of one, and the value.
    """

    __slots__ = ("_key", "_known")

    def __init__(self, key: bytes, known: Callable[[], Mapping[bytes, bytes]] = dict) -> None:
        if len(key) < KEY_BYTES_MIN:
            raise ValueError(f"The key has {len(key)} bytes; at least {KEY_BYTES_MIN} are needed.")
        self._key = key
        self._known = known

    def text(self, text: str) -> str:
        """The text without its secrets. Doing it twice changes nothing."""
        return self.redact_counting(text, Layout())[0]

    def redact_counting(self, text: str, layout: Layout) -> tuple[str, Counter[str]]:
        """The text without its secrets, and how many there were of each kind."""
        counts: Counter[str] = Counter()
        data = _encode(text)
        before = layout.copy()
        found = self._scan(data, layout)
        if not found:
            return text, counts
        for _ in range(PASSES_MAX):
            counts.update(finding.kind for finding in found)
            data, changed = replace(data, found, self._key)
            if not self._scan(changed, Layout()):
                break
            found = self._scan(data, before.copy())
        return _decode(data), counts

    def part(self, before: str, text: str, after: str) -> str:
        """The text without its secrets, as what stands around it shows them."""
        return self.part_counting(before, text, after)[0]

    def part_counting(self, before: str, text: str, after: str) -> tuple[str, Counter[str]]:
        """The same, and how many secrets there were of each kind."""
        first, data = _encode(before), _encode(text)
        found: list[Finding] = []
        whole = first + data + _encode(after)
        for finding in self._scan(whole, Layout()):
            start, end = finding.start - len(first), finding.end - len(first)
            if start < len(data) and end > 0:
                plain = finding.plain or whole[finding.start : finding.end]
                place = max(start, 0), min(end, len(data))
                found.append(Finding(*place, finding.kind, plain, finding.quote))
        clean, counts = self.redact_counting(_decode(replace(data, found, self._key)[0]), Layout())
        counts.update(finding.kind for finding in found)
        return clean, counts

    def report(self, text: str) -> list[Finding]:
        """What would be redacted, and where, in characters of the text; not what it is."""
        data = _encode(text)
        places: list[Finding] = []
        at = characters = 0
        for finding in self._scan(data, Layout()):
            start = characters + len(_decode(data[at : finding.start]))
            characters = start + len(_decode(data[finding.start : finding.end]))
            places.append(Finding(start, characters, finding.kind))
            at = finding.end
        return places

    def value(self, value: Json) -> Json:
        """The same value without its secrets: names decide first, then the text of each string."""
        return walk_value(value, self._leaf, self.text)

    def _leaf(self, leaf: Leaf, field: Field) -> Leaf:
        """One string or number, by the field it lies in."""
        if isinstance(leaf, bool | float) or leaf is None:
            return leaf
        text = str(leaf)
        named = field.named
        if named is not None and self._is_secret(_encode(text), field, leaf):
            found = self.report(text)
            is_known = len(found) == 1 and (found[0].start, found[0].end) == (0, len(text))
            kind = found[0].kind if is_known else named.kind
            return f"[REDACTED:{kind}:{digest(self._key, _encode(text))}]"
        if isinstance(leaf, int):
            return self.text(text) if _encode(text) in self._known() else leaf
        if field.header:
            return self.text(f"{field.header}: {leaf}").removeprefix(f"{field.header}: ")
        return self.text(leaf)

    def _scan(self, data: bytes, layout: Layout) -> list[Finding]:
        found, known = scan(data, layout), self._known()
        if not known:
            return found
        data, kept = without_markers(data), []
        for form, plain in known.items():
            at = data.find(form)
            while at >= 0:
                kept.append(Finding(at, at + len(form), KEPT, plain))
                at = data.find(form, at + len(form))
        return merge([*found, *kept]) if kept else found

    @staticmethod
    def _is_secret(raw: bytes, field: Field, leaf: Leaf) -> bool:
        masked = without_markers(raw)
        if field.named is None or not masked.strip(b"\0"):
            return False
        if isinstance(leaf, int) and field.named.trust is not Trust.ANY:
            return False
        return field.is_all or is_secret(masked, field.named.trust)


HELD_CHARACTERS_MAX = 65_536
LINE_CHARACTERS_MAX = 1_048_576
# What is searched before and after a place where such a line is cut.
AROUND_CHARACTERS = 65_536


class Stream:
    """Redacts a text that comes in parts; memory is bounded by one line and one held block."""

    def __init__(self, redactor: Redactor) -> None:
        self.counts: Counter[str] = Counter()
        self._redactor = redactor
        self._layout = Layout()
        self._rest = ""  # a line without its end
        self._held = ""  # whole lines whose end decides what they are
        self._before = ""  # the end of what was passed on of the line that `_rest` goes on

    def feed(self, text: str) -> str:
        """Whole lines, redacted, as far as this much more of the text allows."""
        self._rest += text
        if "\n" not in self._rest:
            return self._cut_line() if len(self._rest) >= LINE_CHARACTERS_MAX else ""
        last = self._end_line(self._rest.find("\n") + 1) if self._before else ""
        end = self._rest.rfind("\n") + 1
        lines, self._rest = self._held + self._rest[:end], self._rest[end:]
        self._held = ""
        # The first block that goes on after these lines is held back.
        data = lines.encode("utf-8", "surrogatepass")
        places = [open_pem(data), open_assignment(data), open_noun(data), open_words(data)]
        if b"data" in data or b"stringData" in data:
            state = self._layout.manifest.copy()
            list(find_manifest(data, state))  # what it finds is not asked for, only where it ends
            places.append(state.find_unresolved())
        found = [place for place in places if place is not None]
        at = len(data[: min(found)].decode("utf-8", "surrogatepass")) if found else None
        if at is not None and len(lines) - at < HELD_CHARACTERS_MAX:
            lines, self._held = lines[:at], lines[at:]
        return last + self._redact(lines)

    def end(self) -> str:
        """The redacted rest, at the end of the text."""
        if self._before:
            return self._end_line(len(self._rest))
        last, self._held, self._rest = self._held + self._rest, "", ""
        return self._redact(last)

    def _cut_line(self) -> str:
        """Most of a line that is too long. Where there is a blank, it is the best place to cut."""
        held, self._held = self._held, ""
        self._before += held[-AROUND_CHARACTERS:]
        most = len(self._rest) - AROUND_CHARACTERS
        return self._redact(held) + self._pass_on(self._rest.rfind(" ", 0, most) + 1 or most)

    def _end_line(self, size: int) -> str:
        """The end of a line that was cut."""
        last = self._pass_on(size)
        self._before = ""
        return last

    def _pass_on(self, size: int) -> str:
        """This much of a long line, redacted as what stands before and after it shows."""
        text, self._rest = self._rest[:size], self._rest[size:]
        after = self._rest[:AROUND_CHARACTERS]
        redacted, counts = self._redactor.part_counting(self._before, text, after)
        self.counts += counts
        self._before = (self._before + text)[-AROUND_CHARACTERS:]
        return redacted

    def _redact(self, text: str) -> str:
        if not text:
            return ""
        redacted, counts = self._redactor.redact_counting(text, self._layout)
        self.counts += counts
        return redacted
