"""The key that signs heads: made at first use, readable by its owner only."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from operator_sre.ledger.keys import load_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["KeyFile", "signature_holds"]


class KeyFile:
    """An Ed25519 key in a file of 32 bytes, mode 0600. Loaded when it is first needed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def key(self) -> str:
        """The public key, as hex."""
        return self._private.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> bytes:
        """The signature of these bytes."""
        return self._private.sign(message)

    @cached_property
    def _private(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(load_key(self._path))


def signature_holds(key: str, message: bytes, signature: bytes) -> bool:
    """True when the owner of this public key signed these bytes."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
