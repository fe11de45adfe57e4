"""The key that signs heads: made at first use, readable by its owner only."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.errors import StoreError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["KeyFile", "secret_of", "signature_holds"]

KEY_BYTES = 32


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

        return Ed25519PrivateKey.from_private_bytes(secret_of(self._path))


def secret_of(path: Path) -> bytes:
    """The 32 secret bytes of a key file, made at first use for its owner only."""
    try:
        _make(path)
        secret = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"The key {str(path)!r} cannot be used: {error}.",
            next_step="Check its permissions and those of its directory.",
        ) from error
    if len(secret) != KEY_BYTES:
        raise StoreError(
            f"{str(path)!r} is not a key; it was left as it is.",
            next_step="Restore it from a backup.",
        )
    return secret


def _make(path: Path) -> None:
    """Make the key if there is none; of several processes that try at once, one succeeds."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.urandom(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)  # fails when another was first, and then theirs is the key
    except FileExistsError:
        pass
    finally:
        fresh.unlink()


def signature_holds(key: str, message: bytes, signature: bytes) -> bool:
    """True when the owner of this public key signed these bytes."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
