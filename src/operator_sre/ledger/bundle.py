"""A bundle: entries, checkpoints and the public key in one file that verifies by itself."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from operator_protocols.domain.checkpoint import Checkpoint
from operator_protocols.domain.entry import Entry
from operator_protocols.errors import UsageError
from operator_protocols.ports import Checkpoints, Entries, RawEntry
from operator_sre.chain import entry_from

__all__ = ["Bundle", "write_bundle"]

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
