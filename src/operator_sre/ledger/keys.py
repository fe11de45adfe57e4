"""Keys in files: made at first use, for their owner only; they sign heads and seal secrets."""

from __future__ import annotations

import os
import secrets
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.errors import StoreError
from operator_sre.ownership import must_be_trusted

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

__all__ = ["KeyFile", "Vault", "load_key", "signature_holds"]

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
            next_step="Restore it from a backup, or move it away to start with a new one.",
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
            return  # another process was first, and its key counts
    finally:
        draft.unlink(missing_ok=True)


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
