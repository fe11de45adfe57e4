"""What was redacted and is still needed, sealed with a key of this home."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from operator_sre.ledger.keys import load_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

__all__ = ["Vault"]

NONCE_BYTES = 12


class Vault:
    """Seals and opens bytes with a key in a file of mode 0600. Loaded when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def seal(self, plain: bytes, *, label: str) -> bytes:
        """Bytes that only this key opens, and only under this label."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, plain, label.encode())

    def open(self, sealed: bytes, *, label: str) -> bytes | None:
        """What was sealed; None when the key, the label or the bytes are others."""
        from cryptography.exceptions import InvalidTag

        try:
            nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
            return self._cipher.decrypt(nonce, rest, label.encode())
        except (InvalidTag, ValueError):
            return None

    @cached_property
    def _cipher(self) -> ChaCha20Poly1305:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return ChaCha20Poly1305(load_key(self._path))
