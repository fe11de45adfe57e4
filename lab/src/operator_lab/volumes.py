"""Volumes of processes: made with a size where the machine can do it, filled up and drained."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from operator_lab.manifest import Layout, Volumes
from operator_lab.plan import User
from operator_sre.processes.identity import process_of
from operator_sre.processes.mounts import mount
from operator_sre.processes.supervision import Volume

__all__ = ["drain", "fill", "is_full", "is_root", "mount_volumes", "sized_volumes"]

FILLER = "scratch.bin"
ROUNDS_MAX = 8
# Less than this is not enough for anything that is written at once.
FULL_BYTES = 4096


def sized_volumes(layout: Layout) -> tuple[Volume, ...]:
    """The volumes of a rig that have a size."""
    return tuple(
        Volume(str(layout.volume(process.name)), process.volume_mb << 20)
        for process in layout.manifest.spec.processes
        if process.volume_mb
    )


def mount_volumes(layout: Layout, user: User | None, *, owned: bool) -> tuple[Volumes, str]:
    """Mount them as root; how it was done, and why it was not. Others leave it to the supervisor.

    What was mounted when it fails half-way is unmounted with everything else of the rig.
    """
    volumes = sized_volumes(layout)
    if not volumes:
        return Volumes.PLAIN, ""
    if not is_root():
        return Volumes.PRIVATE, ""
    owners = {
        str(layout.volume(process.name)): user if process.unprivileged else None
        for process in layout.manifest.spec.processes
    }
    for volume in volumes:
        owner = owners[volume.path]
        try:
            mount(
                volume,
                uid=os.geteuid() if owner is None else owner.uid,
                gid=os.getegid() if owner is None else owner.gid,
                owner=process_of(os.getpid()) if owned else None,
            )
        except OSError as problem:
            return Volumes.PLAIN, f"nothing can be mounted here ({problem.strerror or problem})"
    return Volumes.MOUNTED, ""


def is_root() -> bool:
    """Whether we may mount for all to see."""
    return os.geteuid() == 0


def fill(volume: Path, *, left_bytes: int) -> None:
    """Leave only so much room in a volume."""
    filler = volume / FILLER
    owner = volume.stat()
    with filler.open("ab") as file:
        os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        # Others write and delete meanwhile, so it is read again.
        for _ in range(ROUNDS_MAX):
            more = _free_bytes(volume) - left_bytes
            size = os.fstat(file.fileno()).st_size
            if more > 0:
                _take(file.fileno(), size, more)
            elif more < 0 < size:
                file.truncate(max(0, size + more))
            else:
                return


def _take(file: int, size: int, more: int) -> None:
    """Grow by what is still there: others write meanwhile, and who asks for too much gets none."""
    while more > 0:
        try:
            os.posix_fallocate(file, size, more)
        except OSError as problem:
            if problem.errno != errno.ENOSPC:
                raise
            more //= 2
        else:
            return


def drain(volume: Path) -> None:
    """Give back what was used up."""
    (volume / FILLER).unlink(missing_ok=True)


def is_full(volume: Path) -> bool:
    """It was filled, or there is no room left in it."""
    return (volume / FILLER).exists() or _free_bytes(volume) < FULL_BYTES


def _free_bytes(volume: Path) -> int:
    figures = os.statvfs(volume)
    return figures.f_bavail * figures.f_frsize
