"""A box of bubblewrap for commands, where the kernel has no Landlock to confine them with.

It holds files and the network. Signals to other processes of the same user and sockets of local
services are held by the verdict alone there.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from operator_sre.enforcement import why_not_covered
from operator_sre.executor.sandbox.bubblewrap import bwrap
from operator_sre.processes.runner.wire import Bounds

__all__ = ["TEMPORARY", "box_words", "why_no_box"]

# A file system in memory that only the command sees.
TEMPORARY = "/dev/own"
SHARED = "/dev/shm"  # noqa: S108


@cache
def why_no_box() -> str:
    """Why there is no box for commands on this machine, in half a sentence, or nothing."""
    if not bwrap():
        return "there is no bubblewrap"
    return why_not_covered()


def box_words(bounds: Bounds, cwd: str) -> tuple[str, ...]:
    """The words before those of a command that put it into a box."""
    words = [bwrap(), "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-ipc", "--unshare-uts"]
    words += ["--ro-bind-try", SHARED, SHARED, "--tmpfs", TEMPORARY]
    words += ["--cap-drop", "ALL", "--new-session", "--die-with-parent"]
    for path in bounds.hidden:
        if Path(path).is_dir():
            words += ["--tmpfs", path]
        elif Path(path).exists():
            words += ["--ro-bind", "/dev/null", path]
    for path in (*bounds.shown, *(bounds.writable or ())):
        if Path(path).exists():
            words += ["--bind" if path in (bounds.writable or ()) else "--ro-bind", path, path]
    if bounds.hosts == () and not bounds.sockets and not bounds.abilities:
        words.append("--unshare-net")
    return (*words, "--chdir", cwd, "--")
