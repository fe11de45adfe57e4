"""The ledger in files: a bundle that verifies by itself, or JSON lines, a table, a page."""

from __future__ import annotations

import csv
import html
import io
import itertools
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from operator_protocols.domain.entry import Checkpoint, Entry
from operator_protocols.errors import UsageError
from operator_protocols.ports import Checkpoints, Entries, RawEntry
from operator_sre.chain import entry_from
from operator_sre.codec import to_json

__all__ = ["FORMATS", "Bundle", "Filter", "export_lines", "write_bundle"]

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


FORMAT = "operator-ledger-bundle/1"
PAGE = 5_000
CHECKPOINTS_MAX = 1_000_000


def write_bundle(
    path: Path,
    entries: Entries,
    checkpoints: Checkpoints,
    *,
    key: str,
    keep: Callable[[Entry], bool],
) -> int:
    """Write all entries to `path`; of those not kept only the digest, which still proves them.

    Returns how many were kept whole.
    """
    kept = total = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        with bundle.open("entries.jsonl", "w", force_zip64=True) as file:
            for row in _rows(entries):
                seq, body, digest, previous, linked = row
                total += 1
                whole = body is not None and keep(entry_from(seq, body, previous, linked))
                kept += whole
                line = {
                    "seq": seq,
                    "body": body.decode() if whole and body is not None else None,
                    "digest": digest.hex(),
                    "previous": previous.hex(),
                    "hash": linked.hex(),
                }
                file.write(json.dumps(line).encode() + b"\n")
        signed = [
            {"seq": checkpoint.seq, "body": checkpoint.body.decode(), "key": checkpoint.key}
            | {"signature": checkpoint.signature.hex()}
            for checkpoint in checkpoints.after(0, limit=CHECKPOINTS_MAX)
        ]
        bundle.writestr("checkpoints.json", json.dumps(signed))
        manifest = {"format": FORMAT, "key": key, "entries": total, "whole": kept}
        bundle.writestr("manifest.json", json.dumps(manifest))
    return kept


def _rows(entries: Entries) -> Iterator[RawEntry]:
    seq = 0
    while page := entries.raw(seq, limit=PAGE):
        yield from page
        seq = page[-1][0]


class Bundle:
    """A bundle that was written elsewhere. It has the face of a ledger, for `verify`."""

    def __init__(self, path: Path) -> None:
        try:
            with zipfile.ZipFile(path) as bundle:
                self._manifest = json.loads(bundle.read("manifest.json"))
                self._checkpoints = json.loads(bundle.read("checkpoints.json"))
                lines = bundle.read("entries.jsonl").splitlines()
            if self._manifest["format"] != FORMAT:
                raise UsageError(f"{str(path)!r} is a bundle of another format.")
            self._rows: list[RawEntry] = []
            for line in map(json.loads, lines):
                body = line["body"].encode() if line["body"] is not None else None
                digest, previous = bytes.fromhex(line["digest"]), bytes.fromhex(line["previous"])
                row = (line["seq"], body, digest, previous, bytes.fromhex(line["hash"]))
                self._rows.append(row)
        except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"{str(path)!r} is not a bundle: {why}.",
                next_step="Write one with: operator audit export FILE",
            ) from error

    @property
    def key(self) -> str:
        """The public key that the bundle names."""
        return str(self._manifest["key"])

    def raw(self, seq: int, *, limit: int) -> Sequence[RawEntry]:
        """Rows behind `seq` as they lie."""
        # Rows are in order of their place; an index by number would hide a wrong order.
        start = next((at for at, row in enumerate(self._rows) if row[0] > seq), len(self._rows))
        return self._rows[start : start + limit]

    def after(self, seq: int, *, limit: int) -> Sequence[Checkpoint]:
        """Checkpoints behind `seq`, oldest first."""
        found = [
            Checkpoint(
                row["seq"], row["body"].encode(), row["key"], bytes.fromhex(row["signature"])
            )
            for row in self._checkpoints
            if row["seq"] > seq
        ]
        return found[:limit]
