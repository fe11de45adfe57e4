"""The files of a project, and the secrets that should not be in them."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.config import Config

__all__ = ["LOCK", "Collected", "FoundSecret", "collect", "found_secrets", "refuse_secrets"]

# What a packed project is told by where it is unpacked; it is made anew by each packing.
LOCK = "operator.lock"
FILES_MAX = 2000
FILE_BYTES_MAX = 8 * 1024 * 1024
PROJECT_BYTES_MAX = 64 * 1024 * 1024
PATH_CHARACTERS_MAX = 240
TOLD_MAX = 20
_SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache"}
)
_SKIPPED_NAMES = re.compile(r".*\.(?:pyc|pyo|swp|db|db-wal|db-shm)|\.DS_Store|.*\.operator")
_KEY_NAMES = re.compile(
    r".*\.(?:key|p12|pfx|jks|kdbx|keystore)|id_(?:rsa|dsa|ecdsa|ed25519)|\.env(?:\..+)?|\.netrc"
    r"|\.pgpass|secrets\.box",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Collected:
    """One file of a project: its path with slashes, what is in it, and whether it is a program."""

    path: str
    data: bytes = field(repr=False)
    executable: bool = False


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """Where a file holds a secret, and of which kind; not what it is."""

    file: str
    line: int
    kind: str


def collect(folder: Path, *, without: Iterable[Path] = ()) -> tuple[Collected, ...]:
    """The files of a project in the order of their paths; no links, nothing special, bounded."""
    left_out = {one.resolve() for one in without}
    found: list[Collected] = []
    size = 0
    for path in _walked(folder, left_out):
        inside = path.relative_to(folder).as_posix()
        if inside == LOCK or _SKIPPED_NAMES.fullmatch(path.name):
            continue
        one = _collected(path, inside)
        found.append(one)
        size += len(one.data)
        if len(found) > FILES_MAX or size > PROJECT_BYTES_MAX:
            raise UsageError(
                f"{str(folder)!r} has more than {FILES_MAX} files, or than"
                f" {PROJECT_BYTES_MAX >> 20} MiB.",
                next_step="Name the folder of the project itself, and keep state elsewhere.",
            )
    return tuple(sorted(found, key=lambda one: one.path))


def found_secrets(config: Config, files: Sequence[Collected]) -> Iterator[FoundSecret]:
    """Every place of a secret in these files, known ones included, without a word of it."""
    from operator_sre.app.secret_store import KnownValues, open_secrets
    from operator_sre.ledger.redaction import Redactor

    redactor = Redactor(bytes(32), KnownValues(open_secrets(config)))
    for one in files:
        if _KEY_NAMES.fullmatch(PurePosixPath(one.path).name):
            yield FoundSecret(one.path, 1, "key_file")
            continue
        text = one.data.decode("utf-8", "replace")
        for found in redactor.report(text):
            yield FoundSecret(one.path, text.count("\n", 0, found.start) + 1, found.kind)


def refuse_secrets(config: Config, files: Sequence[Collected]) -> None:
    """Raise when there is a secret in one of these files, naming each place."""
    found = list(found_secrets(config, files))
    if not found:
        return
    told = "; ".join(f"{one.file}:{one.line} ({one.kind})" for one in found[:TOLD_MAX])
    more = f", and {len(found) - TOLD_MAX} more" if len(found) > TOLD_MAX else ""
    refused = OperatorError(
        f"Nothing was packed, because there are secrets in it: {told}{more}.",
        next_step="Take them out, and keep them with: operator secrets set NAME",
    )
    refused.category = ErrorCategory.SECRET_SCAN_FAILED
    refused.next_action = NextAction.FIX_CODE
    raise refused


def _walked(folder: Path, left_out: set[Path]) -> Iterator[Path]:
    def broken(error: OSError) -> None:
        raise UsageError(f"{error.filename!r} cannot be read: {error.strerror}.")

    for base, folders, names in os.walk(folder, onerror=broken, followlinks=False):
        kept = [one for one in sorted(folders) if one not in _SKIPPED_FOLDERS]
        for one in kept:
            if (Path(base) / one).is_symlink():
                raise _no_link(Path(base) / one)
        folders[:] = [one for one in kept if (Path(base) / one).resolve() not in left_out]
        for name in sorted(names):
            yield Path(base) / name


def _collected(path: Path, inside: str) -> Collected:
    if len(inside) > PATH_CHARACTERS_MAX or not inside.isprintable():
        raise UsageError(f"The path {inside[:80]!r} cannot be packed.", next_step="Rename it.")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise _no_link(path) from error
        raise UsageError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{str(path)!r} is no plain file.", next_step="Take it away.")
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise UsageError(
            f"{str(path)!r} has more than {FILE_BYTES_MAX >> 20} MiB.",
            next_step="Keep it outside of the project.",
        )
    return Collected(inside, data, bool(status.st_mode & stat.S_IXUSR))


def _no_link(path: Path) -> UsageError:
    return UsageError(
        f"{str(path)!r} is a link, and links are not packed.",
        next_step="Put what it leads to in its place.",
    )
