"""Secrets that lie in files: read when they are needed, never kept, never shown."""

from __future__ import annotations

from pathlib import Path

from operator_protocols.errors import ObservationError

__all__ = ["read_secret"]

SECRET_BYTES_MAX = 1 << 16


def read_secret(path: str) -> str:
    """The text of a file, without its line end. An ObservationError names the file only."""
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(SECRET_BYTES_MAX + 1)
        if len(content) > SECRET_BYTES_MAX:
            raise ObservationError(
                f"The secret in {path!r} is longer than {SECRET_BYTES_MAX} bytes."
            )
        return content.decode().strip("\r\n")
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not text"
        raise ObservationError(
            f"The secret in {path!r} cannot be read: {why}.",
            next_step="Correct the path, or who may read it.",
        ) from problem
