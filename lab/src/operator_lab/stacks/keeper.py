"""Stays with a rig of containers: `python -m operator_lab.stacks.keeper DIR [--owned]`.

Containers cannot hold the reservation of their ports, so the keeper does until the rig is gone.
Containers outlive the process that started them. The keeper of an owned rig does not: when its
input ends, however its owner ended, it takes the rig down.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from operator_lab.stacks.record import Record, read_record, remove
from operator_lab.stacks.target import ComposeTarget, base_environment_of
from operator_protocols.errors import OperatorError, RigError
from operator_sre.processes.background import detach

__all__ = ["Kept", "keep", "main"]

GONE_S_MAX = 200.0
GONE_POLL_S = 1.0


class Kept:
    """The hold of an owner on its rig; let go, or lost with the owner, an owned rig ends."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def release(self) -> None:
        """Let go and wait until an owned rig has ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GONE_S_MAX)


def keep(directory: Path, *, owned: bool, holding: Sequence[int]) -> Kept:
    """Start the keeper of a rig that is written down; it keeps these open files of ours."""
    argv = [sys.executable, "-P", "-m", "operator_lab.stacks.keeper", str(directory)]
    return Kept(
        subprocess.Popen(
            [*argv, "--owned"] if owned else argv,
            cwd="/",
            env=base_environment_of(os.environ),
            stdin=subprocess.PIPE if owned else subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=holding,
        )
    )


def main() -> None:
    """Stay until the owner, or the rig, is gone."""
    parser = argparse.ArgumentParser(prog="keeper", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--owned", action="store_true")
    options = parser.parse_args()
    if not options.owned:
        detach()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if options.owned:
        sys.stdin.buffer.read()
        asyncio.run(_end(options.directory))
        return
    first = _read(options.directory)
    while first is not None and (now := _read(options.directory)) is not None:
        # Another rig may be up there by now; its own keeper holds its ports.
        if any(now.values.get(name) != first.values[name] for name in first.spec.ports):
            return
        time.sleep(GONE_POLL_S)


def _read(directory: Path) -> Record | None:
    try:
        return read_record(directory)
    except RigError:
        return None


async def _end(directory: Path) -> None:
    record = read_record(directory)
    if record is None:
        return
    # The record of a stack that cannot be taken down stays, for the next attempt.
    with contextlib.suppress(OperatorError):
        await ComposeTarget(record, directory).clear()
        remove(directory)


if __name__ == "__main__":
    main()
