"""Redaction: secrets go, the sentence stays, equal secrets remain recognisable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from operator_sre.ledger.redaction.finding import Finding, digest, merge, replace, without_markers
from operator_sre.ledger.redaction.names import Trust
from operator_sre.ledger.redaction.scan import Layout, scan
from operator_sre.ledger.redaction.structure import Field, Json, Leaf, walked
from operator_sre.ledger.redaction.values import is_secret

__all__ = ["Redactor"]

KEY_BYTES_MIN = 16
# A marker can make a neighbour recognisable that was not before; then there is another pass.
PASSES_MAX = 4
# What a value is called that is known to be a secret, wherever it stands.
KEPT = "kept_secret"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _none_known() -> Mapping[bytes, bytes]:
    return {}


class Redactor:
    """Replaces secrets by `[REDACTED:kind:hash]`, the hash made with `key`. It never raises.

    `known` tells values that are secrets wherever they stand: each form of one, and the value.
    """

    __slots__ = ("_key", "_known")

    def __init__(
        self, key: bytes, known: Callable[[], Mapping[bytes, bytes]] = _none_known
    ) -> None:
        if len(key) < KEY_BYTES_MIN:
            raise ValueError(f"The key has {len(key)} bytes; at least {KEY_BYTES_MIN} are needed.")
        self._key = key
        self._known = known

    def text(self, text: str) -> str:
        """The text without its secrets. Doing it twice changes nothing."""
        return self.counted(text, Layout())[0]

    def counted(self, text: str, layout: Layout) -> tuple[str, Counter[str]]:
        """The text without its secrets, and how many there were of each kind."""
        counts: Counter[str] = Counter()
        data = _encoded(text)
        before = layout.copy()
        found = self._scan(data, layout)
        if not found:
            return text, counts
        for _ in range(PASSES_MAX):
            counts.update(one.kind for one in found)
            data, changed = replace(data, found, self._key)
            if not self._scan(changed, Layout()):
                break
            found = self._scan(data, before.copy())
        return _decoded(data), counts

    def report(self, text: str) -> list[Finding]:
        """What would be redacted, and where, in characters of the text; not what it is."""
        data = _encoded(text)
        places: list[Finding] = []
        at = characters = 0
        for one in self._scan(data, Layout()):
            start = characters + len(_decoded(data[at : one.start]))
            characters = start + len(_decoded(data[one.start : one.end]))
            places.append(Finding(start, characters, one.kind))
            at = one.end
        return places

    def value(self, value: Json) -> Json:
        """The same value without its secrets: names decide first, then the text of each string."""
        return walked(value, self._leaf, self.text)

    def _leaf(self, leaf: Leaf, field: Field) -> Leaf:
        """One string or number, by the field it lies in."""
        if isinstance(leaf, bool | float) or leaf is None:
            return leaf
        text = str(leaf)
        named = field.named
        if named is not None and self._is_secret(_encoded(text), field, leaf):
            found = self.report(text)
            is_known = len(found) == 1 and (found[0].start, found[0].end) == (0, len(text))
            kind = found[0].kind if is_known else named.kind
            return f"[REDACTED:{kind}:{digest(self._key, _encoded(text))}]"
        if isinstance(leaf, int):
            return self.text(text) if _encoded(text) in self._known() else leaf
        if field.header:
            return self.text(f"{field.header}: {leaf}").removeprefix(f"{field.header}: ")
        return self.text(leaf)

    def _scan(self, data: bytes, layout: Layout) -> list[Finding]:
        found, known = scan(data, layout), self._known()
        if not known:
            return found
        kept = list(_kept(without_markers(data), known))
        return merge([*found, *kept]) if kept else found

    @staticmethod
    def _is_secret(raw: bytes, field: Field, leaf: Leaf) -> bool:
        masked = without_markers(raw)
        if field.named is None or not masked.strip(b"\0"):
            return False
        if isinstance(leaf, int) and field.named.trust is not Trust.ANY:
            return False
        return field.is_all or is_secret(masked, field.named.trust)


def _kept(data: bytes, known: Mapping[bytes, bytes]) -> Iterator[Finding]:
    """Where values stand that are known to be secrets."""
    for form, plain in known.items():
        at = data.find(form)
        while at >= 0:
            yield Finding(at, at + len(form), KEPT, plain)
            at = data.find(form, at + len(form))
