"""Ends a rig of containers with whoever owns it: `python -m operator_lab.stacks.keeper DIR`.

Containers outlive those who started them. The keeper does not: when its input ends, however its
owner came to its end, it takes the rig down, and is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from operator_lab.stacks.record import read_record, remove
from operator_lab.stacks.target import ComposeTarget, base_environment_of
from operator_protocols.errors import OperatorError

__all__ = ["Kept", "keep", "main"]

GONE_S_MAX = 200.0


class Kept:
    """The hold of an owner on its rig; let go, or lost with the owner, the rig ends."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def release(self) -> None:
        """Let go and wait for it to end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GONE_S_MAX)


def keep(directory: Path) -> Kept:
    """Start the keeper of a rig."""
    return Kept(
        subprocess.Popen(
            [sys.executable, "-P", "-m", "operator_lab.stacks.keeper", str(directory)],
            cwd="/",
            env=base_environment_of(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    )


def main(directory: Path) -> None:
    """Wait for the end of the input, then take the rig down."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    asyncio.run(_end(directory))


async def _end(directory: Path) -> None:
    record = read_record(directory)
    if record is None:
        return
    # What cannot be taken down stays written down, for whoever tries again.
    with contextlib.suppress(OperatorError):
        await ComposeTarget(record, directory).clear()
        remove(directory)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
