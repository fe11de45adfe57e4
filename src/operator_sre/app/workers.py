"""Who runs workflows: processes, told apart by machine, number and the space of their numbers."""

from __future__ import annotations

import os
import socket
from pathlib import Path

__all__ = ["is_gone", "this_worker"]

NAMESPACE = Path("/proc/self/ns/pid")


def this_worker() -> str:
    """The name of this process among all that run workflows."""
    return f"{socket.gethostname()}:{os.getpid()}:{_namespace()}"


def is_gone(worker: str) -> bool:
    """True when it was a process of this machine, seen from here, that is no more."""
    host, _, rest = worker.partition(":")
    pid, _, namespace = rest.partition(":")
    if (host, namespace) != (socket.gethostname(), _namespace()) or not namespace:
        return False  # elsewhere, or nobody can tell: its lease says when it is over
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return True
    except OSError:
        return False  # somebody else's, and alive
    return False


def _namespace() -> str:
    """Two containers may have the same name, and the same number means another process there."""
    try:
        return str(NAMESPACE.readlink()).strip("pid:[]")
    except OSError:
        return ""
