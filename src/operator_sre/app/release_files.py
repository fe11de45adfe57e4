"""The files of a release, and whether they are what its key has signed; without a network."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.errors import NotFoundError, OperatorError, UsageError
from operator_sre.release import documentation

__all__ = [
    "BILL",
    "KEY",
    "SIGNATURE",
    "SIGNED",
    "SUMS",
    "VerifiedRelease",
    "shipped_key",
    "sum_of",
    "verify_release",
]

SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
KEY = "release.pub"
BILL = "sbom.cdx.json"
# What is signed says what for, so that no other signature of the same key fits.
SIGNED = b"operator-release 1\n"
FILE_BYTES_MAX = 1 << 20
_LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9][A-Za-z0-9._+-]*)")


@dataclass(frozen=True, slots=True)
class VerifiedRelease:
    """A release whose files are all there and unchanged, and the key that signed it."""

    folder: str
    files: tuple[str, ...]
    key: str


def shipped_key() -> str:
    """The public key that this installation came with; empty in an unsigned one."""
    folder = documentation()
    try:
        return (folder / KEY).read_text(encoding="ascii").strip() if folder else ""
    except (OSError, ValueError):
        return ""


def sum_of(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def verify_release(folder: Path, *, key: str) -> VerifiedRelease:
    """Check every file of a release against the sums that this public key has signed."""
    from operator_sre.ledger.keys import signature_holds

    if not re.fullmatch(r"[0-9a-f]{64}", key):
        raise UsageError(
            "The key must be 64 hexadecimal digits.", next_step=f"It is the text of {KEY}."
        )
    sums = _read(folder / SUMS)
    signature = _read(folder / SIGNATURE).decode("ascii", "replace").strip()
    try:
        holds = signature_holds(key, SIGNED + sums, bytes.fromhex(signature))
    except ValueError:
        holds = False
    if not holds:
        raise OperatorError(
            f"{SUMS} in {str(folder)!r} was not signed by this key.",
            next_step="Do not install it; fetch the release again, and compare the key.",
        )
    names = []
    for line in sums.decode("utf-8", "replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise OperatorError(f"{SUMS} has a line that is not a checksum: {line[:80]!r}.")
        file = folder / match[2]
        if not file.is_file():
            raise NotFoundError(f"{match[2]!r} is missing.", next_step="Fetch the release again.")
        if sum_of(file) != match[1]:
            raise OperatorError(
                f"{match[2]!r} is not the file that was released.",
                next_step="Do not install it; fetch the release again.",
            )
        names.append(match[2])
    known = {*names, SUMS, SIGNATURE, KEY}
    if more := sorted(path.name for path in folder.glob("*.whl") if path.name not in known):
        raise OperatorError(
            f"{more[0]!r} does not belong to this release.", next_step="Remove it, and try again."
        )
    return VerifiedRelease(str(folder), tuple(names), key)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(FILE_BYTES_MAX)
    except OSError as error:
        raise NotFoundError(
            f"{str(file)!r} cannot be read: {error.strerror}.",
            next_step="Name the directory of a signed release.",
        ) from error
