"""File systems of their own size, in memory: mounted for all to see, or in a private namespace."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from operator_protocols.domain.target import Process
from operator_sre.processes.identity import alive
from operator_sre.processes.supervision import Volume

__all__ = ["enter_namespace", "mount", "mounts_below", "unmount_below", "unmount_orphans"]

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUSER = 0x1000_0000
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000
MNT_DETACH = 0x2
_MOUNTS = Path("/proc/self/mounts")
_ESCAPED = re.compile(r"\\([0-7]{3})")
_OWNED = re.compile(r"volume:(\d+):([\d.]+)")


def mount(volume: Volume, *, uid: int, gid: int, owner: Process | None = None) -> None:
    """Mount a volume that belongs to this user; OSError says why not.

    With an `owner` it is known whose it was when that process is gone: see `unmount_orphans`.
    """
    if sys.platform != "linux":
        raise OSError("only Linux has tmpfs volumes")
    options = f"size={volume.size_bytes},mode=0700,uid={uid},gid={gid}"
    name = "volume" if owner is None else f"volume:{owner.pid}:{owner.started}"
    _call("mount", name, volume.path, b"tmpfs", MS_NOSUID | MS_NODEV, options.encode())


def unmount_orphans() -> None:
    """Unmount every volume whose owner is gone, if this user may."""
    for name, place in _table():
        owner = _OWNED.fullmatch(name)
        if owner is not None and not alive(Process(int(owner[1]), float(owner[2]))):
            with contextlib.suppress(OSError):
                _call("umount2", str(place), MNT_DETACH)


def unmount_below(directories: Iterable[Path]) -> None:
    """Unmount everything at or below these directories, the deepest first; OSError says why not."""
    directories = tuple(directories)
    for place in mounts_below(directories):
        try:
            # Detached, because a process that still has a file open there must not keep the mount.
            _call("umount2", str(place), MNT_DETACH)
        except OSError:
            # Another rig that starts at this moment unmounts what dead owners left behind.
            if place in mounts_below(directories):
                raise


def mounts_below(directories: Iterable[Path]) -> list[Path]:
    """Where something is mounted at or below these directories, the deepest first."""
    roots = [Path(os.path.realpath(each)) for each in directories]
    found = [place for _, place in _table() if any(place.is_relative_to(root) for root in roots)]
    return sorted(found, key=lambda place: len(place.parts), reverse=True)


def _table() -> list[tuple[str, Path]]:
    """What is mounted, and where."""
    try:
        lines = _MOUNTS.read_bytes().decode(errors="surrogateescape").splitlines()
    except OSError:
        return []
    rows = [line.split(" ") for line in lines]
    return [(row[0], Path(_unescape(row[1]))) for row in rows]


def enter_namespace(volumes: Sequence[Volume]) -> str:
    """Mount volumes where only we and our children see them; returns why that cannot be, or "".

    The process must have one thread, and stays as it was when it cannot be done.
    """
    if sys.platform != "linux":
        return "only Linux has namespaces"
    # Tried by a child first, because there is no way back out of a namespace.
    child = os.fork()
    if child == 0:
        try:
            _enter(volumes)
        except OSError as problem:
            os._exit(problem.errno or 1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    number = os.waitstatus_to_exitcode(status)
    if number != 0:
        why = os.strerror(number) if number > 0 else "it was killed"
        return f"this user may not mount file systems, not even in its own namespace ({why})"
    _enter(volumes)
    return ""


def _enter(volumes: Sequence[Volume]) -> None:
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    # We stay who we are: what refuses to run as root must not believe that it does.
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _call("mount", None, "/", None, MS_REC | MS_PRIVATE, None)
    for volume in volumes:
        mount(volume, uid=uid, gid=gid)


def _call(function: str, *arguments: str | bytes | int | None) -> None:
    """One function of the C library; OSError when it fails."""
    library = ctypes.CDLL(None, use_errno=True)
    words = [
        ctypes.c_ulong(each)
        if isinstance(each, int)
        else os.fsencode(each)
        if each is not None
        else None
        for each in arguments
    ]
    if getattr(library, function)(*words) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _unescape(text: str) -> str:
    """A path as the kernel writes it into a table: blanks and the like are octal numbers."""
    raw = os.fsencode(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), text))
    return os.fsdecode(raw)
