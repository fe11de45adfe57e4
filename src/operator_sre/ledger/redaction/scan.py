"""Every detector over one text, with or without colours: what is found, in order and apart."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from operator_sre.ledger.redaction import (
    addresses,
    arguments,
    assignments,
    formats,
    headers,
    lists,
    manifests,
    nouns,
    sentences,
)
from operator_sre.ledger.redaction.findings import Finding, Pattern, merge, without_markers
from operator_sre.ledger.redaction.lists import Columns, find_cells
from operator_sre.ledger.redaction.manifests import Manifest
from operator_sre.ledger.redaction.values import looks_random

__all__ = ["Layout", "Uncoloured", "scan"]

# As bytes, and as JSON, shells, syslog and Python write them.
_SEQUENCE = Pattern(rb"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e|#033)\[[0-9;]{0,16}[A-Za-z]")


class Uncoloured:
    """A text in which a name and its value stand beside each other, whatever colour they have."""

    __slots__ = ("_offsets", "_starts", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        # Where each piece begins here, and how many bytes were dropped before it.
        self._starts: list[int] = [0]
        self._offsets: list[int] = [0]
        if _SEQUENCE.first(data) is None:
            return
        pieces: list[bytes] = []
        at = size = 0
        for start, end in _SEQUENCE.spans(data):
            pieces.append(data[at:start])
            size += start - at
            self._starts.append(size)
            self._offsets.append(end - size)
            at = end
        self.data = b"".join([*pieces, data[at:]])

    def restore(self, found: Iterable[Finding]) -> Iterator[Finding]:
        """The findings where they stand in the text with its colours."""
        for finding in found:
            if len(self._starts) == 1:
                yield finding
                continue
            start = finding.start + self._offset(finding.start)
            end = finding.end - 1 + self._offset(finding.end - 1) + 1
            yield Finding(
                start,
                end,
                finding.kind,
                finding.plain or self.data[finding.start : finding.end],
                finding.quote,
            )

    def _offset(self, at: int) -> int:
        return self._offsets[bisect_right(self._starts, at) - 1]


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
    sentences.find_foreign,
    lists.find_words,
    lists.find_inserted,
    sentences.find_spelled,
    formats.find_hashes,
    formats.find_formats,
    formats.find_pem,
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
            lists,
            manifests,
            nouns,
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
    found, layout.columns = find_cells(plain.data, layout.columns)
    if layout.manifest.kinds or manifests.has_secret(plain.data):
        found += manifests.find_manifest(plain.data, layout.manifest)
    for detector in DETECTORS:
        found += detector(plain.data)
    # What others have found is found exactly; this only knows that a word is random.
    known = merge(found)
    starts = [finding.start for finding in known]
    for finding in nouns.find_near(plain.data):
        before = bisect_right(starts, finding.end) - 1
        if before < 0 or known[before].end < finding.start:
            found.append(finding)
    found += lists.find_bytes(plain.data, lambda text: bool(scan(text, Layout())))
    if not found:
        return []
    # Other places of secrets that were found: a password in the line after its assignment.
    secrets: dict[bytes, str] = {}
    for finding in found:
        secret = plain.data[finding.start : finding.end]
        if len(secrets) < ECHOES_MAX and secret not in secrets and looks_random(secret):
            secrets[secret] = finding.kind
    for secret, kind in secrets.items():
        at = plain.data.find(secret)
        while at >= 0:
            found.append(Finding(at, at + len(secret), kind))
            at = plain.data.find(secret, at + len(secret))
    found = list(plain.restore(found))
    return merge(
        _align(data, finding) for finding in found if data[finding.start : finding.end].strip(b"\0")
    )


def _align(data: bytes, finding: Finding) -> Finding:
    """The finding with whole characters: a byte in the middle of one is no place to cut."""
    start, end = finding.start, finding.end
    while start > 0 and start < len(data) and 0x80 <= data[start] < 0xC0:
        start -= 1
    while end < len(data) and 0x80 <= data[end] < 0xC0:
        end += 1
    if (start, end) == (finding.start, finding.end):
        return finding
    return Finding(start, end, finding.kind, None, finding.quote)
