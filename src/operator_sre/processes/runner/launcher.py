"""Starting the runner of a folder: one at a time, however many want it at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from operator_sre.processes.control import base_environment
from operator_sre.processes.runner.places import LAUNCH, LOG, listens

__all__ = ["launch"]

LAUNCH_S_MAX = 20.0
# How long an idle runner stays, so that the next command finds it.
IDLE_S = 20.0


def launch(folder: Path) -> None:
    """Return when a runner listens, started by us or by a faster process."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(folder):
        if not listens(folder):
            _start(folder)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    fd = os.open(folder / LAUNCH, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _start(folder: Path) -> None:
    """Start one, and come back when it listens or has given up: then it lets go of a pipe."""
    read, write = os.pipe()
    # -P, because whatever lies in the current directory is not to be imported.
    argv = [sys.executable, "-P", "-m", "operator_sre.processes.runner.daemon"]
    try:
        with (folder / LOG).open("ab") as output:
            os.fchmod(output.fileno(), 0o600)
            subprocess.run(
                [*argv, str(folder), "--idle-s", f"{IDLE_S:g}", "--ready", str(write)],
                cwd="/",
                env=base_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(write,),
                timeout=LAUNCH_S_MAX,
                check=False,
            )
        os.close(write)
        write = -1
        select.select([read], [], [], LAUNCH_S_MAX)
    finally:
        for fd in (read, write):
            if fd >= 0:
                os.close(fd)
