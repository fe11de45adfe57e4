"""Entries for people: lines of JSON, a table, or a page."""

from __future__ import annotations

import csv
import html
import io
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.entry import Entry
from operator_sre.codec import to_json

__all__ = ["FORMATS", "Filter", "export_lines"]

_COLUMNS = ("seq", "at", "kind", "ticket", "run", "actor", "payload", "hash")
FORMATS = ("jsonl", "csv", "html")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries are wanted; what is empty asks for nothing."""

    since: datetime | None = None
    until: datetime | None = None
    run: str = ""
    ticket: int | None = None
    actor: str = ""
    kind: str = ""

    def keeps(self, entry: Entry) -> bool:
        """True when an entry is wanted."""
        return (
            (self.since is None or entry.at >= self.since)
            and (self.until is None or entry.at < self.until)
            and (not self.run or entry.run == self.run)
            and (self.ticket is None or entry.ticket == self.ticket)
            and (not self.actor or self.actor in {entry.actor.id, entry.actor.agent})
            and (not self.kind or entry.kind == self.kind)
        )


def export_lines(entries: Iterable[Entry], style: str) -> Iterator[str]:
    """The entries in one of the FORMATS, line by line."""
    match style:
        case "jsonl":
            return (json.dumps(to_json(entry), ensure_ascii=True) for entry in entries)
        case "csv":
            rows = itertools.chain([_COLUMNS], map(_cells, entries))
            return map(_csv_line, rows)
        case "html":
            return _html(entries)
    raise KeyError(style)


def _csv_line(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    # A cell that begins like a formula would be run by a spreadsheet.
    safe = [f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells]
    csv.writer(buffer, lineterminator="").writerow(safe)
    return buffer.getvalue()


def _html(entries: Iterable[Entry]) -> Iterator[str]:
    yield "<!doctype html><html lang='en'><meta charset='utf-8'><title>Operator ledger</title>"
    yield (
        "<style>body{font:14px system-ui;margin:2em}table{border-collapse:collapse}"
        "td,th{border:1px solid #999;padding:.3em .5em;text-align:left;vertical-align:top}"
        "td{white-space:pre-wrap;overflow-wrap:anywhere;max-width:60em}</style>"
    )
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    yield f"<h1>Ledger</h1><table><thead><tr>{head}</tr></thead><tbody>"
    for entry in entries:
        cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in _cells(entry))
        yield f"<tr>{cells}</tr>"
    yield "</tbody></table></html>"


def _cells(entry: Entry) -> list[str]:
    record = to_json(entry)
    record["actor"] = entry.actor.id
    record["payload"] = json.dumps(record["payload"], ensure_ascii=True)
    return ["" if record[name] is None else str(record[name]) for name in _COLUMNS]
