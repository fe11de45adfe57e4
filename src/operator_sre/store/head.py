"""Keeps the head of a store outside of it, so that an older copy in its place is noticed."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.errors import StoreError

if TYPE_CHECKING:
    from operator_protocols.ports import Clock, Signer
    from operator_sre.store.decisions import Rows

__all__ = ["REMEDY", "Head", "KeptHead", "read_head"]

Head = tuple[int, bytes]
REMEDY = "Bring back the newer store, or accept the older one: operator store restore FILE --force"
# The file may lag behind the store by this time, and is never ahead of it.
WRITE_S = 1.0
FILE_BYTES_MAX = 4096


class KeptHead:
    """The last head of one store that this home has seen, in a small signed file.

    `store` names the store, so that the file of another store does not count.
    """

    def __init__(self, path: Path, signer: Signer, clock: Clock, *, store: str) -> None:
        self.path = path
        self._signer = signer
        self._clock = clock
        self._store = store
        self._written_s: float | None = None
        self._waiting: Head | None = None
        self._follows: bool | None = None

    def trouble(self, rows: Rows) -> str:
        """Why this is not the store that this home has seen, as a sentence; "" when it is."""
        try:
            kept = self.read()
        except StoreError as error:
            return error.message
        if kept is None:
            return ""
        seq, linked = kept
        stored = rows("SELECT hash FROM entries WHERE seq = ?", (seq,))
        if stored and bytes(stored[0][0]) == linked:
            return ""
        last = rows("SELECT coalesce(max(seq), 0) FROM entries", ())[0][0]
        why = f"it ends at entry {last}" if last < seq else f"entry {seq} is another one"
        return f"The store was replaced: {why}, and this home has seen entry {seq}; nothing is run."

    def note(self, rows: Rows, head: Head, *, at_once: bool = False) -> None:
        """Keep a committed head, now or within a second; never that of another store."""
        self._waiting = head
        now = self._clock.monotonic()
        if at_once or self._written_s is None or now - self._written_s >= WRITE_S:
            self.flush(rows)

    def flush(self, rows: Rows) -> None:
        """Write the waiting head. A head that cannot be written only lags behind."""
        if self._waiting is None:
            return
        if self._follows is None:
            self._follows = not self.trouble(rows)
        if self._follows:
            with suppress(OSError, StoreError):
                self.write(self._waiting)
        self._written_s = self._clock.monotonic()
        self._waiting = None

    def write(self, head: Head) -> None:
        """Replace the file, whatever it holds; durable when this returns."""
        text = json.dumps(
            {
                "seq": head[0],
                "hash": head[1].hex(),
                "store": self._store,
                "key": self._signer.key,
                "signature": self._signer.sign(self._message(head)).hex(),
            }
        )
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)

    def read(self) -> Head | None:
        """The kept head, None without a file. StoreError for a file that this home did not sign."""
        kept = read_head(self.path)
        if kept is None:
            return None
        head, signature, store = kept
        if store != self._store or signature != self._signer.sign(self._message(head)):
            raise StoreError(
                f"{str(self.path)!r} was not written by this home.",
                next_step="Restore ledger.key, or a backup: operator store restore FILE --force",
            )
        return head

    def _message(self, head: Head) -> bytes:
        return f"head of {self._store}: {head[0]} {head[1].hex()}".encode()


def read_head(path: Path) -> tuple[Head, bytes, str] | None:
    """The head, signature and store of a file; None when it does not exist."""
    try:
        with path.open("rb") as file:
            record = json.loads(file.read(FILE_BYTES_MAX))
        head = (int(record["seq"]), bytes.fromhex(record["hash"]))
        return head, bytes.fromhex(record["signature"]), str(record["store"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{str(path)!r} cannot be read: it does not hold the head of a store.",
            next_step="Restore it, or a backup: operator store restore FILE --force",
        ) from error
