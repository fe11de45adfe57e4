"""Keys in files: made at first use, for their owner only, the same ever after."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from operator_protocols.errors import StoreError
from operator_sre.ownership import must_be_trusted

__all__ = ["load_key"]

KEY_BYTES = 32


def load_key(path: Path) -> bytes:
    """The key in a file. The first who asks makes it; of several at once, one wins for all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _make(path)
        must_be_trusted(path, StoreError)
        key = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"The key {str(path)!r} cannot be read or made: {error.strerror}.",
            next_step="Check who owns the folder, or choose another with --home.",
        ) from error
    if len(key) != KEY_BYTES:
        raise StoreError(
            f"The key {str(path)!r} has {len(key)} bytes instead of {KEY_BYTES}.",
            next_step="Restore it from a backup, or move it away to begin with a new one.",
        )
    return key


def _make(path: Path) -> None:
    """Write the key beside its place and link it there: it is whole, or it is not there."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # somebody else was first, and theirs is the key
    finally:
        draft.unlink(missing_ok=True)
