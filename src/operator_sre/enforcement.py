"""Reports which limits of a command the kernel of this machine can enforce."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from pathlib import Path

__all__ = [
    "ABI_MIN",
    "MACHINES",
    "SCOPES_ABI",
    "enforced_here",
    "landlock_abi",
    "why_not_confined",
    "why_not_covered",
]

# The machines whose system calls the filter knows.
MACHINES = ("x86_64", "aarch64")
# The filter of system calls covers what the first versions of Landlock lack: truncating, devices,
# signals and abstract sockets.
ABI_MIN = 1
SCOPES_ABI = 6
LANDLOCK_CREATE = 444

_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")
PIDFD_GETFD = 438
CLONE_NEWNS, CLONE_NEWUSER = 0x2_0000, 0x1000_0000
MS_REC, MS_SLAVE = 0x4000, 0x8_0000


@cache
def landlock_abi() -> int:
    """The version of Landlock that this kernel has; 0 where it has none."""
    library = ctypes.CDLL(None)
    library.syscall.restype = ctypes.c_long
    found = library.syscall(ctypes.c_long(LANDLOCK_CREATE), None, ctypes.c_size_t(0), 1)
    return max(0, int(found))


@cache
def why_not_confined() -> str:
    """Why commands cannot be confined here, as a clause; "" when they can."""
    if sys.platform != "linux":
        return "only Linux confines commands"
    if os.uname().machine not in MACHINES:
        return f"there is no system call filter for {os.uname().machine}"
    if landlock_abi() < ABI_MIN:
        return "the kernel has no Landlock (Linux 5.13 and later have it, unless it is disabled)"
    try:
        actions = _ACTIONS.read_text().split()
    except OSError:
        actions = []
    if "user_notif" not in actions:
        return "the kernel's seccomp has no user notification"
    if not _takes_descriptors():
        return "this process may not copy descriptors of its children (a container without ptrace)"
    return ""


@cache
def why_not_covered() -> str:
    """Why files cannot be hidden from a command here; "" when they can."""
    flags = CLONE_NEWNS | (0 if os.geteuid() == 0 else CLONE_NEWUSER)
    library = ctypes.CDLL(None)
    # Looked up before the fork: another thread may hold the lock of the dynamic linker then.
    unshare, mount = library.unshare, library.mount
    child = os.fork()
    if child == 0:
        is_done = unshare(flags) == 0 and mount(None, b"/", None, MS_REC | MS_SLAVE, None) == 0
        os._exit(0 if is_done else 1)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        return ""
    return "this user may not create mount namespaces (no user namespaces)"


def enforced_here() -> list[str]:
    """The enforced limits on this machine, a line each."""
    if why_not_confined():
        return []
    lines = [f"files by Landlock {landlock_abi()}", "system calls by seccomp", "no capabilities"]
    if landlock_abi() >= SCOPES_ABI:
        lines.append("signals and abstract sockets by Landlock")
    return lines


def _takes_descriptors() -> bool:
    """Whether a process may copy descriptors; tries it on this one."""
    library = ctypes.CDLL(None, use_errno=True)
    try:
        pidfd = os.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        fd = library.syscall(PIDFD_GETFD, pidfd, pidfd, 0)
        if fd >= 0:
            os.close(fd)
        return bool(fd >= 0)
    finally:
        os.close(pidfd)
