"""What runs right now, found by what its runner wrote down, and ended without asking it."""

from __future__ import annotations

import asyncio
import signal
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from operator_sre.processes.identity import rows
from operator_sre.processes.runner.places import reachable
from operator_sre.processes.runner.records import boot_id, live_claims, mark_of
from operator_sre.processes.tree import Tree

__all__ = ["Running"]

GRACE_S = 2.0
LOOKS_MAX = 20
KILL_S_MAX = 0.5
POLL_S_MIN, POLL_S_MAX = 0.01, 0.1


class Running:
    """The jobs under way in the folder of a runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def end_all(self, *, grace_s: float = GRACE_S) -> tuple[int, ...]:
        """End every tree, TERM and then KILL; returns the pids of those that lived."""
        ended: set[int] = set()
        # Again, for what was started while the others were being ended.
        for _ in range(LOOKS_MAX):
            trees = tuple(self._trees())
            living = _signalled(trees, signal.SIGTERM)
            if not living:
                break
            ended |= living
            _signalled(trees, signal.SIGCONT)  # who is stopped cannot hear TERM before
            if not await _gone(trees, within_s=grace_s):
                await _gone(trees, within_s=KILL_S_MAX, number=signal.SIGKILL)
        return tuple(sorted(ended))

    def is_hidden(self) -> bool:
        """Whether the runner listens outside of our PID namespace, where nobody sees ancestors."""
        if not hasattr(socket, "SO_PEERCRED"):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            try:
                with reachable(self.folder) as path:
                    line.connect(path)
                told = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            except OSError:
                return False  # none listens: there is no command either
        return bool(struct.unpack("3i", told)[0] == 0)

    def _trees(self) -> Iterator[Tree]:
        for claim in live_claims(self.folder):
            if claim.boot == boot_id():
                # A pid may be somebody else by now, so its start time and its mark go along.
                yield Tree(claim.process, mark=mark_of(claim.id))


def _signalled(trees: Sequence[Tree], number: int) -> set[int]:
    """Send a signal to all of them and return who was there, the first of each tree."""
    table = rows()  # once for all: reading it takes longer than all the rest
    found = [tree.signal(number, table) for tree in trees]
    return {members[0].process.pid for members in found if members}


async def _gone(trees: Sequence[Tree], *, within_s: float, number: int = 0) -> bool:
    """Wait until nobody is left, sending a signal at every look; 0 is none."""
    ends, poll_s = time.monotonic() + within_s, POLL_S_MIN
    while _signalled(trees, number):
        left_s = ends - time.monotonic()
        if left_s <= 0:
            return False
        await asyncio.sleep(min(poll_s, left_s))
        poll_s = min(poll_s * 1.5, POLL_S_MAX)
    return True
