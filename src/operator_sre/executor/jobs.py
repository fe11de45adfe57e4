"""The jobs of a runner, for processes that did not start them: stop them, read their output."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from operator_sre.processes.identity import rows
from operator_sre.processes.runner.output import Follower
from operator_sre.processes.runner.places import reachable
from operator_sre.processes.runner.records import boot_id, live_claims, mark_of, output_folder
from operator_sre.processes.tree import Tree

__all__ = ["JobOutput", "RunningJobs", "Spool"]

KEPT_S = 24 * 3600.0


class Spool:
    """A folder of outputs. The reader must redact them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, path: Path, digest: str) -> None:
        """Take a whole output in; old ones make room first."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        oldest = time.time() - KEPT_S
        for old in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process tidies up as well
                if old.stat().st_mtime < oldest:
                    old.unlink()
        with contextlib.suppress(OSError):  # it was taken before, or there is no room
            path.replace(self.folder / digest)
            os.utime(self.folder / digest)

    def path_of(self, digest: str) -> Path | None:
        """Where an output lies; None when it is gone, or was never here."""
        path = self.folder / digest
        known = len(digest) == hashlib.sha256().digest_size * 2 and digest.isalnum()
        return path if known and path.is_file() else None


# Of at most 64 KiB each: enough to keep up, and over before anybody else has to wait.
PIECES_MAX = 8
GRACE_S = 2.0
LOOKS_MAX = 20
KILL_S_MAX = 0.5
POLL_S_MIN, POLL_S_MAX = 0.01, 0.1


class RunningJobs:
    """The jobs under way in the folder of a runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def end_all(self, *, grace_s: float = GRACE_S) -> tuple[int, ...]:
        """End every tree, TERM and then KILL; returns the pids of the trees that were alive."""
        ended: set[int] = set()
        # Again, for what was started while the others were being ended.
        for _ in range(LOOKS_MAX):
            # A pid may have been reused, so the start time and the mark identify the process.
            trees = tuple(
                Tree(claim.process, mark=mark_of(claim.id))
                for claim in live_claims(self.folder)
                if claim.boot == boot_id()
            )
            living = _signal_all(trees, signal.SIGTERM)
            if not living:
                break
            ended |= living
            _signal_all(trees, signal.SIGCONT)  # who is stopped cannot hear TERM before
            if not await _wait_until_gone(trees, within_s=grace_s):
                await _wait_until_gone(trees, within_s=KILL_S_MAX, number=signal.SIGKILL)
        return tuple(sorted(ended))

    def is_hidden(self) -> bool:
        """Whether the runner is outside our PID namespace, where ancestors cannot be seen."""
        if not hasattr(socket, "SO_PEERCRED"):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            try:
                with reachable(self.folder) as path:
                    line.connect(path)
                credentials = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            except OSError:
                return False  # none listens: there is no command either
        return bool(struct.unpack("3i", credentials)[0] == 0)


def _signal_all(trees: Sequence[Tree], number: int) -> set[int]:
    """Send a signal to all of them and return who was there, the first of each tree."""
    table = rows()  # once for all: reading it takes longer than all the rest
    found = [tree.signal(number, table) for tree in trees]
    return {members[0].process.pid for members in found if members}


async def _wait_until_gone(trees: Sequence[Tree], *, within_s: float, number: int = 0) -> bool:
    """Wait until no process is left, sending a signal at every check; 0 sends none."""
    ends, poll_s = time.monotonic() + within_s, POLL_S_MIN
    while _signal_all(trees, number):
        left_s = ends - time.monotonic()
        if left_s <= 0:
            return False
        await asyncio.sleep(min(poll_s, left_s))
        poll_s = min(poll_s * 1.5, POLL_S_MAX)
    return True


class JobOutput:
    """Reads on where a runner writes down what a job says."""

    def __init__(self, folder: Path, job: str, show: Callable[[int, bytes], None]) -> None:
        self._folder = output_folder(folder, job)
        self._follower = Follower(self._folder, show)
        self._pieces: Iterator[None] = iter(())

    @property
    def is_there(self) -> bool:
        """Whether output of the job is on this machine."""
        return self._folder.is_dir()

    def advance(self) -> bool:
        """Show some of what is new; False when that was all there is now."""
        done = sum(1 for _ in islice(self._pieces, PIECES_MAX))
        if done < PIECES_MAX:
            # The rest of a part that was started comes before new parts.
            self._pieces = self._follower.advance()
            done = sum(1 for _ in islice(self._pieces, PIECES_MAX))
        return done == PIECES_MAX
