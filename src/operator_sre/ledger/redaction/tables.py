"""Columns under a secret header: CSV, and tables drawn with bars or blanks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from operator_sre.ledger.redaction.findings import Finding, Pattern
from operator_sre.ledger.redaction.names import Name, Trust, name_of
from operator_sre.ledger.redaction.values import is_secret

__all__ = ["Columns", "find_cells"]

LINE_BYTES_MAX = 4096
CELLS_MAX = 64
_HEAD = Pattern(
    rb"(?im)^[\w \t,;|\"'#./()-]*(?:passw|passphrase|pwd|\bpass\b|\bpw\b|secret|token|key"
    rb"|community)"
    rb"[\w \t,;|\"'#./()-]*\r?$"
)
_TITLE = Pattern(rb"[A-Za-z#][\w/()#-]*(?:\.\w+)*(?: [\w/()#-]+){0,2}")
# Columns that only blanks divide are a table when all titles are capital, as kubectl's are.
_CAPITAL = Pattern(rb"[A-Z#][\w/()#-]*(?: [A-Z(#][\w/()#-]*){0,2}")
# A line of code or prose with commas looks like CSV, but is indented, or has brackets or points.
_LIST = Pattern(rb"[ \t].*|.*[(.)].*")
_RULE = Pattern(rb"[\s|+:=-]+")
_GAP = Pattern(rb" {2,}|\t+")


@dataclass(frozen=True, slots=True)
class Columns:
    """The header of a table: how its lines are divided, and which columns are secret."""

    divider: bytes
    count: int
    secret: tuple[tuple[int, int, Name], ...]


def find_cells(data: bytes, carried: Columns | None) -> tuple[list[Finding], Columns | None]:
    """The secret cells, and the header that still holds at the end.

    `carried` is the header that holds from the start, when the text goes on from an earlier one.
    """
    found: list[Finding] = []
    at, columns = 0, carried
    if columns is not None:
        at, columns = _rows(data, 0, columns, found)
    for start, end in _HEAD.spans(data):
        if start < at or end - start > LINE_BYTES_MAX:
            continue
        header = _header(data[start:end].rstrip(b"\r"))
        if header is not None:
            at, columns = _rows(data, end + 1, header, found)
    return found, columns


def _header(line: bytes) -> Columns | None:
    """What a line says as a header; None when it is none."""
    for divider in (b"|", b"\t", b",", b";", b"  "):
        if divider not in line.strip():
            continue
        cells = list(_cells(line, divider))
        titles = [line[start:end] for start, end in cells if end > start]
        if not 2 <= len(titles) <= CELLS_MAX or not all(map(_TITLE.fits, titles)):
            return None
        if divider in (b",", b";") and (len(titles) < len(cells) or _LIST.fits(line)):
            return None
        # `a, b` may be a sentence
        is_loose = divider in (b",", b";") and divider + b" " in line
        if is_loose and any(b" " in title for title in titles):
            return None
        if divider == b"  " and not all(map(_CAPITAL.fits, titles)):
            return None
        secret = tuple(
            (index, start, Name(named.kind, min(named.trust, Trust.SAID)) if is_loose else named)
            for index, (start, end) in enumerate(cells)
            if (named := name_of(line[start:end].replace(b" ", b"_"))) is not None
        )
        return Columns(divider, len(cells), secret) if secret else None
    return None


def _cells(line: bytes, divider: bytes) -> Iterator[tuple[int, int]]:
    """Where the cells of a line are, without blanks and quotes."""
    at = 0
    for part in _parts(line, divider):
        text = part.strip()
        start = at + len(part) - len(part.lstrip())
        if len(text) > 1 and text[:1] == text[-1:] == b'"':
            yield start + 1, start + len(text) - 1
        else:
            yield start, start + len(text)
        at += len(part) + (len(divider) if divider != b"  " else 0)


def _parts(line: bytes, divider: bytes) -> Iterator[bytes]:
    """The parts of a line between dividers; a divider in quotes divides nothing."""
    if divider == b"  ":
        at = 0
        for start, end in _GAP.spans(line):
            if start:
                yield line[at:end]
                at = end
        yield line[at:]
        return
    whole = b""
    for part in line.split(divider):
        whole = whole + divider + part if whole else part
        if whole.lstrip()[:1] != b'"' or whole.count(b'"') % 2 == 0:
            yield whole
            whole = b""
    if whole:
        yield whole


def _rows(
    data: bytes, at: int, columns: Columns, found: list[Finding]
) -> tuple[int, Columns | None]:
    """Read rows from `at` until a line that is none; where that is, and what holds there."""
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = data[at : min(end, at + LINE_BYTES_MAX)]
        if not _RULE.fits(line) or not line.strip():
            cells = list(_cells(line.rstrip(b"\r"), columns.divider))
            is_row = len(cells) == columns.count or columns.divider == b"  "
            if not line.strip() or not is_row:
                return at, None
            for index, offset, named in columns.secret:
                if len(cells) == columns.count:
                    start, last = cells[index]
                else:  # a cell with two blanks in it, or an empty one: then by its header's place
                    start, last = next(((a, b) for a, b in cells if a == offset), (0, 0))
                if last > start and is_secret(line[start:last], named.trust):
                    found.append(Finding(at + start, at + last, named.kind))
        at = end + 1
    return at, columns
