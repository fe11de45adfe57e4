"""The head, written down where nobody who can change the ledger can change it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from operator_protocols.errors import UsageError
from operator_sre.ledger.verify import Anchor

__all__ = ["add_anchor", "anchor_line", "read_anchors"]


def anchor_line(anchor: Anchor, *, at: str, key: str) -> str:
    """One line of JSON that names a head."""
    return json.dumps({"seq": anchor.seq, "hash": anchor.hash, "at": at, "key": key})


def add_anchor(path: Path, line: str) -> None:
    """Append a line, durable when this returns; what is there already stays."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    with os.fdopen(descriptor, "ab") as file:
        file.write(line.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_anchors(path: Path) -> Sequence[Anchor]:
    """All anchors of a file. UsageError names the line that is none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"The anchors {str(path)!r} cannot be read: {why}.",
            next_step="Write them with: operator audit anchor --file FILE",
        ) from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            found.append(Anchor(int(record["seq"]), str(record["hash"])))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"Line {number} of {str(path)!r} is not an anchor.") from error
    return found
