"""The runner of a home, for tests that end what they started."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path

from operator_protocols.domain.target import Process
from operator_sre.processes.identity import alive, process_of, rows
from operator_sre.processes.runner.places import reachable

__all__ = ["end_runner", "runner_of"]

END_S_MAX = 10.0
_MODULE = b"operator_sre.processes.runner.daemon"
# The pid of whoever listens, its user and its group.
_PEER = (socket.SOL_SOCKET, socket.SO_PEERCRED, 12)


def runner_of(folder: Path) -> Process | None:
    """The runner of this folder: it listens there, or is known by its command line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line, suppress(OSError):
        with reachable(folder) as path:
            line.connect(path)
        return process_of(struct.unpack("3i", line.getsockopt(*_PEER))[0])
    for pid in rows():
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if _MODULE in words and os.fsencode(folder) in words:
            return process_of(pid)
    return None


def end_runner(folder: Path, number: int = signal.SIGTERM) -> None:
    """End it, if there is one, and wait for that."""
    runner = runner_of(folder)
    if runner is None:
        return
    os.kill(runner.pid, number)
    ends = time.monotonic() + END_S_MAX
    while alive(runner):
        assert time.monotonic() < ends, "the runner does not end"
        time.sleep(0.005)
