"""Every detector over one text: what is found, in order and apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from operator_sre.ledger.redaction import (
    addresses,
    arguments,
    assignments,
    formats,
    headers,
    languages,
    lists,
    manifests,
    nouns,
    pem,
    sentences,
)
from operator_sre.ledger.redaction.colours import Uncoloured
from operator_sre.ledger.redaction.finding import Finding, merge, without_markers
from operator_sre.ledger.redaction.manifests import Manifest
from operator_sre.ledger.redaction.pattern import Pattern
from operator_sre.ledger.redaction.tables import Columns, find_cells
from operator_sre.ledger.redaction.values import looks_random

__all__ = ["Layout", "scan"]

# Structure first, then names, then shapes: of two that find the same place, the later names it.
DETECTORS: tuple[Callable[[bytes], Iterable[Finding]], ...] = (
    manifests.find_compact,
    assignments.find_pairs,
    assignments.find_elements,
    assignments.find_calls,
    assignments.find_members,
    assignments.find_parameters,
    assignments.find_assignments,
    arguments.find_options,
    arguments.find_unknown_tools,
    arguments.find_tools,
    addresses.find_logins,
    headers.find_credentials,
    headers.find_cookies,
    sentences.find_said,
    nouns.find_beside,
    nouns.find_after,
    nouns.find_below,
    nouns.find_before,
    languages.find_foreign,
    lists.find_words,
    lists.find_inserted,
    sentences.find_spelled,
    formats.find_hashes,
    formats.find_formats,
    pem.find_pem,
)
# A text without any of these has nothing that a detector could find. One pass, no more, is what
# ordinary lines cost.
_ANYTHING = Pattern(
    rb"(?i)"
    + b"|".join(
        module.TRIGGERS
        for module in (
            addresses,
            arguments,
            assignments,
            formats,
            headers,
            languages,
            lists,
            manifests,
            nouns,
            pem,
            sentences,
        )
    )
)
# A secret that was found once is looked for in the whole text; but only so many of them.
ECHOES_MAX = 32


@dataclass(slots=True)
class Layout:
    """What the lines before a text say about it: the header of a table, an open manifest."""

    columns: Columns | None = None
    manifest: Manifest = field(default_factory=Manifest)

    def copy(self) -> Layout:
        """The same, apart."""
        return Layout(self.columns, self.manifest.copy())

    @property
    def is_open(self) -> bool:
        """Whether the next line can hold a secret for what stood before it."""
        return self.columns is not None or bool(self.manifest.kinds)


def scan(data: bytes, layout: Layout) -> list[Finding]:
    """All secrets of a text, in order and apart. The layout moves on to what follows."""
    data = without_markers(data)
    plain = Uncoloured(data)
    if not layout.is_open and _ANYTHING.first(plain.data) is None:
        return []
    found = list(_structured(plain.data, layout))
    for detector in DETECTORS:
        found += detector(plain.data)
    found += lists.find_bytes(plain.data, lambda text: bool(scan(text, Layout())))
    if not found:
        return []
    found += _echoes(plain.data, found)
    found = list(plain.restore(found))
    return merge(_whole(data, one) for one in found if data[one.start : one.end].strip(b"\0"))


def _structured(data: bytes, layout: Layout) -> Iterator[Finding]:
    cells, layout.columns = find_cells(data, layout.columns)
    yield from cells
    if layout.manifest.kinds or manifests.has_secret(data):
        yield from manifests.find_manifest(data, layout.manifest)


def _whole(data: bytes, one: Finding) -> Finding:
    """The finding with whole characters: a byte in the middle of one is no place to cut."""
    start, end = one.start, one.end
    while start > 0 and start < len(data) and 0x80 <= data[start] < 0xC0:
        start -= 1
    while end < len(data) and 0x80 <= data[end] < 0xC0:
        end += 1
    if (start, end) == (one.start, one.end):
        return one
    return Finding(start, end, one.kind, None, one.quote)


def _echoes(data: bytes, found: Iterable[Finding]) -> Iterator[Finding]:
    """Other places of secrets that were found: a password in the line after its assignment."""
    secrets: dict[bytes, str] = {}
    for one in found:
        secret = data[one.start : one.end]
        if len(secrets) < ECHOES_MAX and secret not in secrets and looks_random(secret):
            secrets[secret] = one.kind
    for secret, kind in secrets.items():
        at = data.find(secret)
        while at >= 0:
            yield Finding(at, at + len(secret), kind)
            at = data.find(secret, at + len(secret))
