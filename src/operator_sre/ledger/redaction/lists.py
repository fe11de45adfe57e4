"""Secrets by their place in a list: words of a command, columns of an INSERT, bytes of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from operator_sre.ledger.redaction.arguments import NAMES, find_options, find_tools
from operator_sre.ledger.redaction.findings import Finding, Pattern
from operator_sre.ledger.redaction.names import STEMS, Name, Trust, name_of
from operator_sre.ledger.redaction.values import is_secret, line_start, read_quoted

__all__ = [
    "TRIGGERS",
    "Columns",
    "find_bytes",
    "find_cells",
    "find_inserted",
    "find_words",
    "open_words",
]

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
# Where the middle of an output was left out, its table goes on.
_OMITTED = Pattern(rb"\n?\[\.\.\. \d+ bytes left out \.\.\.\]\n")
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
        if data[at] in b"\n[" and (after := _OMITTED.at(data, at)) > 0:
            at = after
            continue
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


WORDS_MAX = 64
ROWS_MAX = 256
_TOOL = rb"(?:[\w./-]*/)?(?:" + b"|".join(NAMES) + rb")"
# The first word of a list that is a command: in JSON, in YAML, in the records of auditd.
_COMMAND = Pattern(
    rb"(?i)\[\s*[\"']" + _TOOL + rb"[\"'],\s*|\ba0=[\"']" + _TOOL + rb"[\"'] a1="
    rb"|- [\"']?" + _TOOL + rb"[\"']?\r?\n\s*- "
)
TRIGGERS = rb"\[\d{1,3}, ?\d{1,3}, ?\d|insert into|\ba0=|[\[-]\s*[\"']?" + _TOOL + rb"[\"'\n]"
_BEGUN = Pattern(rb"(?i)\[\s*\z|- [\"']?" + _TOOL + rb"[\"']?\s*\z")
_BETWEEN = Pattern(rb",\s*| a\d{1,2}=|\r?\n\s*- ")
_PLAIN = Pattern(rb"[^\s\"',\[\]{}][^\n\"',\[\]{}]*")
_INSERT = Pattern(
    rb"(?i)\binsert (?:ignore )?into \S+ ?\([^()\n]*(?:" + STEMS + rb")[^()\n]*\)\s*values\s*\("
)
_IN = Pattern(rb"(?i)\b[\w.]*(?:" + STEMS + rb")\w* in \(")
_CELL = Pattern(rb"\s*[^\s,()'\"]*(?:\([^()\n]*\))?\s*")
_NEXT_ROW = Pattern(rb"\s*\)\s*,\s*\(")
_BYTES = Pattern(rb"\[\s*\d{1,3}(?:\s*,\s*\d{1,3}){11,}\s*\]")
BYTES_MAX = 65_536


def find_words(data: bytes) -> Iterator[Finding]:
    """What a command takes as a secret when its words are a list: `["mysql", "-phunter2"]`."""
    for start, _ in _COMMAND.spans(data):
        places = list(_words(data, start))
        line = b" ".join(data[a:b] for a, b in places)
        for detector in (find_options, find_tools):
            for finding in detector(line):
                at = 0
                for begin, stop in places:
                    size = stop - begin
                    first, last = max(finding.start, at), min(finding.end, at + size)
                    if first < last:
                        yield Finding(begin + first - at, begin + last - at, finding.kind)
                    at += size + 1


def open_words(data: bytes) -> int | None:
    """Where the line begins of a command whose list of words goes on after the text."""
    match = _BEGUN.first(data)
    if match is not None:
        return line_start(data, match[0])
    for start, _ in _COMMAND.spans(data):
        places = list(_words(data, start))
        if places and len(places) < WORDS_MAX and not data[places[-1][1] :].strip(b" \r\n\t,\"'-"):
            return line_start(data, start)
    return None


def _words(data: bytes, start: int) -> Iterator[tuple[int, int]]:
    at = start
    while data[at : at + 1] in b"[- \n\r\t" or data[at : at + 3] == b"a0=":
        at += 3 if data[at : at + 3] == b"a0=" else 1
    for _ in range(WORDS_MAX):
        value = read_quoted(data, at)
        if value is not None:
            yield value.start, value.end
            at = value.end + value.depth + 1
        else:
            end = _PLAIN.at(data, at)
            if end < 0:
                return
            yield at, end
            at = end
        at = _BETWEEN.at(data, at)
        if at < 0:
            return


def find_inserted(data: bytes) -> Iterator[Finding]:
    """What an INSERT writes into a column of secrets, and what `token IN (...)` looks for."""
    for start, end in _INSERT.spans(data):
        columns = data[data.index(b"(", start) + 1 : data.index(b")", start)].split(b",")
        named = [name_of(column.strip(b" \"'`[]")) for column in columns]
        at = end
        for _ in range(ROWS_MAX):
            for name in named:
                at = _spaces(data, at)
                value = read_quoted(data, at)
                if value is None:
                    at = _CELL.at(data, at)
                else:
                    at = value.end + value.depth + 1
                    if name is not None and is_secret(value.of(data), name.trust):
                        yield Finding(value.start, value.end, name.kind)
                at = _spaces(data, at)
                if data[at : at + 1] != b",":
                    break
                at += 1
            at = _NEXT_ROW.at(data, at)
            if at < 0:
                break
    for start, end in _IN.spans(data):
        found = name_of(data[start:end].split()[0])
        at = end
        for _ in range(ROWS_MAX if found is not None else 0):
            value = read_quoted(data, at)
            if value is None or found is None:
                break
            if is_secret(value.of(data), min(found.trust, Trust.SAID)):
                yield Finding(value.start, value.end, found.kind)
            at = _spaces(data, value.end + value.depth + 1)
            if data[at : at + 1] != b",":
                break
            at = _spaces(data, at + 1)


def _spaces(data: bytes, at: int) -> int:
    while data[at : at + 1] in (b" ", b"\t", b"\n", b"\r"):
        at += 1
    return at


def find_bytes(data: bytes, scan: Callable[[bytes], bool]) -> Iterator[Finding]:
    """A text written as its bytes, as journald does when it has colours, and that has a secret."""
    for start, end in _BYTES.spans(data):
        if end - start > BYTES_MAX:
            continue
        numbers = [int(number) for number in data[start + 1 : end - 1].split(b",")]
        if max(numbers) < 256 and scan(bytes(numbers)):
            yield Finding(start, end, "secret", bytes(numbers), b'"')
