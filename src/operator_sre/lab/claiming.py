"""Make a directory the place of a rig, unless somebody else uses it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from operator_protocols.domain.rig import RigSpec
from operator_protocols.errors import RigError
from operator_sre.lab.manifest import MANIFEST_FILE, Manifest, read_manifest, write_manifest
from operator_sre.processes.identity import process_of

__all__ = ["alone_in", "take"]

LOCK_S_MAX = 5.0
POLL_S = 0.01


def take(spec: RigSpec, directory: Path) -> bool:
    """Write our manifest into a directory that nobody uses; True when a dead rig lies there."""
    me = process_of(os.getpid())
    if me is None:
        raise RigError("The lab cannot see its own process.")
    before = read_manifest(directory)
    if before is not None and before.live:
        raise RigError(
            f"A rig of {before.spec.subject!r} is up already in {str(directory)!r}.",
            next_step="Use it, or end it with: operator lab down",
        )
    directory.mkdir(mode=0o700, exist_ok=True)
    if before is None and not all(map(_is_draft, directory.iterdir())):
        raise RigError(
            f"{str(directory)!r} is not empty and is not a rig.",
            next_step="Choose another directory; nothing was touched.",
        )
    # What a dead rig has elsewhere must not be forgotten before it is removed.
    homes = {} if before is None else before.homes
    write_manifest(directory, Manifest(spec, datetime.now(UTC), me, homes=homes))
    return before is not None


def _is_draft(path: Path) -> bool:
    """A manifest that somebody was killed over while writing it."""
    return path.name.startswith(f".{MANIFEST_FILE}.")


@contextlib.asynccontextmanager
async def alone_in(directory: Path) -> AsyncIterator[None]:
    """Be alone in a directory for a moment, without leaving a file there."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    ends = time.monotonic() + LOCK_S_MAX
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise RigError(f"Somebody else holds {str(directory)!r} locked.") from None
            await asyncio.sleep(POLL_S)
        yield
    finally:
        os.close(handle)
