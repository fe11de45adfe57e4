"""A packed project as bytes: the same from the same files, and signed to the last of them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import struct
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.collecting import (
    FILE_BYTES_MAX,
    FILES_MAX,
    LOCK,
    PATH_CHARACTERS_MAX,
    PROJECT_BYTES_MAX,
    Collected,
)
from operator_sre.ledger import KeyFile
from operator_sre.ledger.signing import signature_holds

__all__ = [
    "Bundle",
    "damaged",
    "read_bundle",
    "read_lock",
    "sealed",
    "sha256_of",
    "signed_lock",
]

FORMAT = 1
BUNDLE_BYTES_MAX = 80 * 1024 * 1024
# What tar adds for each file, at most: its headers and what fills the last block.
TAR_BYTES_MAX = PROJECT_BYTES_MAX + FILES_MAX * 2048 + 1024 * 1024
# A gzip file with a comment, no time, and no word of the machine that made it.
_GZIP_HEAD = b"\x1f\x8b\x08\x10\x00\x00\x00\x00\x02\xff"
_COMMENT = re.compile(rb"operator-bundle 1 ed25519 ([0-9a-f]{64}) ([0-9a-f]{128})\0")
_COMMENT_BYTES_MAX = 256
# What is signed says what for, so that no other signature of the same key fits.
_SIGNED = b"operator-bundle 1\n"
_LOCKED = b"operator-lock 1\n"
_PLUGIN_KEYS = ("name", "distribution", "version")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was read whole, and is what its key has signed."""

    key: str
    sha256: str
    manifest: Mapping[str, Any]
    lock: bytes = field(repr=False)
    files: tuple[Collected, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """What the project was called where it was packed."""
        return str(self.manifest["name"])


def signed_lock(
    key: KeyFile,
    *,
    name: str,
    versions: Mapping[str, str],
    plugins: Sequence[Mapping[str, str]],
    files: Sequence[Collected],
) -> bytes:
    """The manifest, signed by itself, so that it can be verified wherever it is unpacked."""
    manifest = {
        "format": FORMAT,
        "name": name,
        "versions": dict(versions),
        "plugins": [dict(one) for one in plugins],
        "files": {
            one.path: {
                "sha256": sha256_of(one.data),
                "bytes": len(one.data),
                "executable": one.executable,
            }
            for one in files
        },
    }
    signature = key.sign(_LOCKED + hashlib.sha256(_canonical(manifest)).digest())
    signed = {"manifest": manifest, "signer": key.key, "signature": signature.hex()}
    return json.dumps(signed, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def read_bundle(file: Path) -> Bundle:
    """A bundle, verified to its last byte; nothing is unpacked. It raises for any damage."""
    data = _read(file, limit=BUNDLE_BYTES_MAX)
    key = _verified(data)
    files = _unpacked(_inflated(data))
    if not files or files[0].path != LOCK:
        raise damaged("it has no manifest")
    manifest, signer = _manifest(files[0].data)
    if signer != key:
        raise damaged("its manifest is signed by another key")
    told = {path: (one["sha256"], one["executable"]) for path, one in manifest["files"].items()}
    there = {one.path: (sha256_of(one.data), one.executable) for one in files[1:]}
    if told != there or len(there) != len(files) - 1:
        raise damaged("its files are not those of its manifest")
    return Bundle(key, hashlib.sha256(data).hexdigest(), manifest, files[0].data, files[1:])


def read_lock(file: Path) -> Mapping[str, Any]:
    """The manifest of an unpacked project, if its signature holds."""
    return _manifest(_read(file, limit=FILE_BYTES_MAX))[0]


def _archive(files: Sequence[Collected]) -> bytes:
    """Files as a tar that is the same wherever it is made."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for one in files:
            told = tarfile.TarInfo(one.path)
            told.size, told.mtime = len(one.data), 0
            told.mode = 0o755 if one.executable else 0o644
            tar.addfile(told, io.BytesIO(one.data))
    return made.getvalue()


def sealed(key: KeyFile, files: Sequence[Collected]) -> bytes:
    """A tar as a gzip file, whose comment is a signature of all that follows it."""
    archive = _archive(files)
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(archive) + packer.flush()
    body += struct.pack("<II", zlib.crc32(archive), len(archive) & 0xFFFFFFFF)
    signature = key.sign(_SIGNED + hashlib.sha256(body).digest())
    comment = f"operator-bundle 1 ed25519 {key.key} {signature.hex()}\0".encode()
    return _GZIP_HEAD + comment + body


def _verified(data: bytes) -> str:
    """The key that signed these bytes, every one of them."""
    begin = len(_GZIP_HEAD)
    found = _COMMENT.match(data, begin, begin + _COMMENT_BYTES_MAX)
    if not data.startswith(_GZIP_HEAD) or found is None:
        raise damaged("it is no bundle, or its beginning is damaged")
    key, signature = found[1].decode(), bytes.fromhex(found[2].decode())
    signed = _SIGNED + hashlib.sha256(data[found.end() :]).digest()
    if not signature_holds(key, signed, signature):
        raise damaged("its signature does not hold")
    return key


def _inflated(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        plain = unpacker.decompress(data, TAR_BYTES_MAX)
    except zlib.error as error:
        raise damaged("it cannot be unpacked") from error
    if not unpacker.eof or unpacker.unused_data:
        raise damaged("it is larger than a project may be, or something hangs on behind it")
    return plain


def _unpacked(archive: bytes) -> tuple[Collected, ...]:
    """The files of a tar, if it holds nothing but plain files inside of its folder."""
    found: list[Collected] = []
    size = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for told in tar:
                size += told.size
                too_much = len(found) > FILES_MAX or size > PROJECT_BYTES_MAX + FILE_BYTES_MAX
                if too_much or told.size > FILE_BYTES_MAX:
                    raise damaged("it is larger than a project may be")
                if not told.isreg() or not _is_inside(told.name):
                    raise damaged(f"{told.name[:80]!r} is no plain file inside of a folder")
                opened = tar.extractfile(told)
                data = opened.read() if opened is not None else b""
                found.append(Collected(told.name, data, bool(told.mode & stat.S_IXUSR)))
    except (tarfile.TarError, EOFError, ValueError, UnicodeDecodeError) as error:
        raise damaged("it cannot be unpacked") from error
    if _archive(found) != archive:
        raise damaged("it holds more than its files")
    return tuple(found)


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    plain = path.isprintable() and "\\" not in path and len(path) <= PATH_CHARACTERS_MAX
    return plain and not any(part in ("", ".", "..") for part in parts)


def _manifest(lock: bytes) -> tuple[dict[str, Any], str]:
    """The manifest of a lock, and who has signed it."""
    try:
        told = json.loads(lock)
        manifest, signer = told["manifest"], str(told["signer"])
        signature = bytes.fromhex(told["signature"])
        files, plugins = manifest["files"], manifest["plugins"]
        shaped = (
            manifest["format"] == FORMAT
            and isinstance(manifest["name"], str)
            and all(isinstance(one["sha256"], str) for one in files.values())
            and all(isinstance(one["executable"], bool) for one in files.values())
            and all(isinstance(one[key], str) for one in plugins for key in _PLUGIN_KEYS)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(f"its {LOCK} makes no sense") from error
    signed = _LOCKED + hashlib.sha256(_canonical(manifest)).digest()
    if not shaped or not signature_holds(signer, signed, signature):
        raise damaged(f"the signature of its {LOCK} does not hold")
    return manifest, signer


def _canonical(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def sha256_of(data: bytes) -> str:
    """The digest of a file, as manifests have it."""
    return hashlib.sha256(data).hexdigest()


def _read(file: Path, *, limit: int) -> bytes:
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise UsageError(f"{str(file)!r} is no file.", next_step="Name a bundle.")
            data = opened.read(limit + 1)
    except OSError as error:
        raise UsageError(
            f"{str(file)!r} cannot be read: {error.strerror}.", next_step="Name a bundle."
        ) from error
    if len(data) > limit:
        raise damaged("it is larger than a project may be")
    return data


def damaged(why: str, *, step: str = "Ask whoever made it for it again.") -> OperatorError:
    """The error of what is not as it was signed."""
    error = OperatorError(f"The bundle cannot be trusted: {why}.", next_step=step)
    error.category = ErrorCategory.PACKAGE_VERIFICATION_FAILED
    error.next_action = NextAction.ASK_USER
    return error
