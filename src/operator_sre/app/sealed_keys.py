"""The keys of a home inside a backup of its store, sealed with a passphrase."""

from __future__ import annotations

import base64
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.errors import StoreError, UsageError
from operator_sre.app.redaction import KEY_FILE
from operator_sre.app.secret_store import open_secrets
from operator_sre.config import Config

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

__all__ = [
    "ReturnedKeys",
    "check_passphrase",
    "has_sealed_keys",
    "keys_of",
    "missing_sentence",
    "return_keys",
    "seal_keys",
]

PASSPHRASE_CHARACTERS_MIN = 8
KEYS_BYTES_MAX = 64 * 1024 * 1024
TABLE = "sealed_keys"
LABEL = b"operator-keys 1"
SALT_BYTES, NONCE_BYTES = 16, 12
# What opening costs in memory and time; stored, so that it may grow.
COST, BLOCK = 1 << 15, 8
_MEANING = {
    "ledger key": "new entries are signed by another key than the old ones",
    "vault key": "sealed contents of the ledger cannot be read",
    "redaction key": "the same secret gets another mark than before",
    "secrets": "no stored secret is there",
    "secrets key": "stored secrets cannot be read",
}


@dataclass(frozen=True, slots=True)
class ReturnedKeys:
    """The keys that a restore wrote, and the needed keys that the home still lacks."""

    written: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def keys_of(config: Config) -> Mapping[str, Path]:
    """The files without which a store cannot be fully used, by their names."""
    box = open_secrets(config)
    return {
        "ledger key": config.ledger_key,
        "vault key": config.home / "vault.key",
        "redaction key": config.home / KEY_FILE,
        "secrets": box.path,
        "secrets key": box.key,
    }


def check_passphrase(passphrase: str) -> None:
    """UsageError for a passphrase that no keys are sealed with."""
    if len(passphrase) < PASSPHRASE_CHARACTERS_MIN:
        raise UsageError(
            f"The passphrase is shorter than {PASSPHRASE_CHARACTERS_MIN} characters.",
            next_step="Choose a longer one.",
        )


def seal_keys(config: Config, backup: Path, passphrase: str) -> tuple[str, ...]:
    """Add the keys of the home to a backup; their names."""
    check_passphrase(passphrase)
    found = {name: path for name, path in keys_of(config).items() if path.exists()}
    plain = json.dumps(
        {name: base64.b64encode(path.read_bytes()).decode() for name, path in found.items()}
    ).encode()
    salt, nonce = os.urandom(SALT_BYTES), os.urandom(NONCE_BYTES)
    cipher = _cipher(passphrase, salt, COST, BLOCK)
    row = (salt, COST, BLOCK, nonce + cipher.encrypt(nonce, plain, LABEL))
    with closing(sqlite3.connect(backup)) as database, database:
        database.execute(
            f"CREATE TABLE {TABLE} (salt BLOB, cost INTEGER, block INTEGER, body BLOB)"
        )
        database.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?)", row)  # noqa: S608
    return tuple(found)


def return_keys(
    config: Config, backup: Path, passphrase: str | None, *, force: bool
) -> ReturnedKeys:
    """Write the keys of a backup to the home, before its store is restored.

    A key of the home that differs is replaced only with `force`, and kept beside its place.
    Without a passphrase nothing is written.
    """
    places = keys_of(config)
    kept = _open(backup, passphrase) if passphrase is not None else {}
    differing = [
        name
        for name, content in kept.items()
        if places[name].exists() and places[name].read_bytes() != content
    ]
    if differing and not force:
        raise UsageError(
            f"The home has another {' and another '.join(differing)} than the backup.",
            next_step="Restore into a new home, or use --force; the replaced keys are kept.",
        )
    written = []
    for name, content in kept.items():
        place = places[name]
        if place.exists() and name not in differing:
            continue
        if name in differing:
            place.rename(place.with_name(f"{place.name}.replaced-{secrets.token_hex(4)}"))
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        written.append(name)
    # Secrets are optional: only a box without its key is a loss.
    needed = [name for name in places if not name.startswith("secrets")]
    needed += ["secrets key"] if places["secrets"].exists() else []
    missing = tuple(name for name in needed if not places[name].exists())
    return ReturnedKeys(tuple(written), missing)


def missing_sentence(missing: tuple[str, ...], *, sealed: bool) -> str:
    """What is missing after a restore, and what to do; "" when nothing is."""
    if not missing:
        return ""
    losses = "; ".join(f"no {name} ({_MEANING[name]})" for name in missing)
    step = "copy the files from the old home"
    if sealed:
        step = "restore again with --force and the passphrase of the backup"
    return f"Missing: {losses}. To complete the home, {step}."


def has_sealed_keys(backup: Path) -> bool:
    """Whether a backup contains keys."""
    return _row(backup) is not None


def _row(backup: Path) -> tuple[bytes, int, int, bytes] | None:
    try:
        with closing(sqlite3.connect(f"file:{backup}?mode=ro", uri=True)) as database:
            row = database.execute(
                f"SELECT salt, cost, block, body FROM {TABLE}"  # noqa: S608
            ).fetchone()
    except sqlite3.Error:
        return None  # it has no such table, or is no backup, as the restore says
    found: tuple[bytes, int, int, bytes] | None = row
    return found


def _open(backup: Path, passphrase: str) -> Mapping[str, bytes]:
    from cryptography.exceptions import InvalidTag

    row = _row(backup)
    if row is None:
        raise UsageError(
            f"The backup {str(backup)!r} contains no keys.",
            next_step="Restore it without a passphrase.",
        )
    salt, cost, block, body = row
    if not (2 <= cost <= 1 << 20 and 1 <= block <= 32 and len(body) <= KEYS_BYTES_MAX):
        raise StoreError(f"The keys in {str(backup)!r} are damaged.", next_step="Name another.")
    try:
        cipher = _cipher(passphrase, salt, cost, block)
        plain = cipher.decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], LABEL)
    except (InvalidTag, ValueError):
        raise UsageError(
            "The passphrase is wrong, or the keys in the backup are damaged; nothing was changed.",
            next_step="Try again with the passphrase of this backup.",
        ) from None
    return {name: base64.b64decode(text) for name, text in json.loads(plain).items()}


def _cipher(passphrase: str, salt: bytes, cost: int, block: int) -> ChaCha20Poly1305:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    key = Scrypt(salt=salt, length=32, n=cost, r=block, p=1).derive(passphrase.encode())
    return ChaCha20Poly1305(key)
