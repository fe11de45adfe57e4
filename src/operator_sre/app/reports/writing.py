"""A report in a file: all of it or none."""

from __future__ import annotations

import os
from pathlib import Path

from operator_protocols.errors import UsageError

__all__ = ["write_report"]

# Whoever may read the home may read a report of it; nobody else has a say by default.
PRIVATE = 0o600


def write_report(file: Path, text: str) -> None:
    """Write it, in the place of what was there. UsageError when that cannot be done."""
    try:
        # A link leads to what is replaced; what is no ordinary file, such as a device, stays.
        place = Path(os.path.realpath(file))
        if place.exists() and not place.is_file():
            raise OSError(0, "it is no ordinary file")
        draft = place.with_name(f".{place.name}.{os.getpid()}")
        _write(draft, text)
        try:
            draft.replace(place)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        raise UsageError(
            f"The report cannot be written to {str(file)!r}:"
            f" {getattr(error, 'strerror', None) or error}.",
            next_step="Name another file with --output FILE.",
        ) from None


def _write(draft: Path, text: str) -> None:
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
