"""What running processes may have: taken away, given back, and seen."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from operator_lab.manifest import Layout, Volumes
from operator_lab.plan import User
from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_sre.processes.files import write_atomically
from operator_sre.processes.identity import process_of, tree_of
from operator_sre.processes.mounts import mount
from operator_sre.processes.supervision import Volume

__all__ = [
    "AVAILABLE",
    "drain",
    "fill",
    "is_full",
    "is_lowered",
    "is_root",
    "lower",
    "mount_volumes",
    "raise_again",
    "sized_volumes",
]

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


AVAILABLE = sys.platform == "linux"
LIMITS_FILE = "limits.json"
HELPER_S_MAX = 5.0
_OPTIONS = {
    "as": resource.RLIMIT_AS,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "fsize": resource.RLIMIT_FSIZE,
}
_TITLES = {
    "as": "Max address space",
    "nofile": "Max open files",
    "nproc": "Max processes",
    "fsize": "Max file size",
}

# By resource: how much a process may have now.
Softs = Mapping[str, int]


def lower(directory: Path, process: Process, wanted: Softs) -> None:
    """A process and all that came out of it may have no more than that."""
    before = _read_limits(directory)
    pids = _pids(process)
    for pid in pids:
        # What was lowered twice goes back to what it was at first.
        before.setdefault(_key(pid, process), {name: _soft(pid, name) for name in _OPTIONS})
    write_atomically(directory / LIMITS_FILE, json.dumps(before))
    for pid in pids:
        _set(pid, wanted)


def raise_again(directory: Path, process: Process) -> None:
    """It may have what it could have before."""
    before = _read_limits(directory)
    pids = _pids(process)
    root = before.get(_key(process.pid, process), {})
    for pid in pids:
        # A process that was forked meanwhile has the limits of its parent.
        _set(pid, before.pop(_key(pid, process), root))
    write_atomically(directory / LIMITS_FILE, json.dumps(before))


def is_lowered(process: Process, supervisor: Process) -> bool:
    """It may have less than who started it gave to it."""
    unlimited = resource.RLIM_INFINITY
    try:
        for name in _OPTIONS:
            own, given = _soft(process.pid, name), _soft(supervisor.pid, name)
            if own != unlimited and (given == unlimited or own < given):
                return True
    except RigError:
        return False
    return False


def _soft(pid: int, name: str) -> int:
    """How much a process may have now, as /proc tells it to everybody."""
    title = _TITLES[name]
    try:
        text = Path(f"/proc/{pid}/limits").read_text()
    except OSError as problem:
        raise RigError(f"The limits of pid {pid} cannot be read: {problem.strerror}.") from problem
    line = next(line for line in text.splitlines() if line.startswith(title))
    word = line.removeprefix(title).split()[0]
    return resource.RLIM_INFINITY if word == "unlimited" else int(word)


def _set(pid: int, softs: Softs) -> None:
    try:
        for name, soft in softs.items():
            _, hard = resource.prlimit(pid, _OPTIONS[name])
            resource.prlimit(pid, _OPTIONS[name], (soft, hard))
    except ProcessLookupError:
        return
    except PermissionError:
        _set_as_its_user(pid, softs)
    except (OSError, ValueError) as problem:
        raise RigError(f"The limits of pid {pid} cannot be changed: {problem}.") from problem


def _set_as_its_user(pid: int, softs: Softs) -> None:
    """Even root may not do it to another user's process without a capability of its own."""
    tool = shutil.which("prlimit")
    try:
        owner = Path(f"/proc/{pid}").stat()
    except OSError:
        return
    if tool is None or os.geteuid() != 0:
        raise RigError(f"The limits of pid {pid} cannot be changed by this user.")
    words = [
        f"--{name}={'unlimited' if soft == resource.RLIM_INFINITY else soft}:"
        for name, soft in softs.items()
    ]
    done = subprocess.run(
        [tool, "--pid", str(pid), *words],
        user=owner.st_uid,
        group=owner.st_gid,
        extra_groups=[],
        env={"LC_ALL": "C"},
        cwd="/",
        capture_output=True,
        text=True,
        errors="replace",
        timeout=HELPER_S_MAX,
        check=False,
    )
    if done.returncode != 0 and Path(f"/proc/{pid}").exists():
        lines = done.stderr.strip().splitlines()
        raise RigError(f"The limits of pid {pid} cannot be changed: {' '.join(lines[-1:])}.")


def _pids(process: Process) -> tuple[int, ...]:
    return (process.pid, *(each.pid for each in tree_of(process.pid)))


def _key(pid: int, process: Process) -> str:
    return f"{pid}@{process.pid}.{process.started}"


def _read_limits(directory: Path) -> dict[str, dict[str, int]]:
    try:
        found: dict[str, dict[str, int]] = json.loads((directory / LIMITS_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return found
