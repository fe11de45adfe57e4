"""Whole outputs, each in a file named by its hash: this machine's, its owner's, for a while."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

__all__ = ["Spool"]

KEPT_S = 24 * 3600.0


class Spool:
    """A folder of outputs. The reader must redact them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, path: Path, digest: str) -> None:
        """Take a whole output in; old ones make room first."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        oldest = time.time() - KEPT_S
        for old in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process tidies up as well
                if old.stat().st_mtime < oldest:
                    old.unlink()
        with contextlib.suppress(OSError):  # it was taken before, or there is no room
            path.replace(self.folder / digest)
            os.utime(self.folder / digest)

    def path_of(self, digest: str) -> Path | None:
        """Where an output lies; None when it is gone, or was never here."""
        path = self.folder / digest
        known = len(digest) == hashlib.sha256().digest_size * 2 and digest.isalnum()
        return path if known and path.is_file() else None
