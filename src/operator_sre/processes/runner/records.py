"""What a runner writes down, so that the next one knows what it did: a folder for each job."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from operator_protocols.domain.target import Process
from operator_sre.processes.runner.wire import Done

__all__ = ["KEPT_S", "Claim", "Records", "boot_id", "mark_of", "name_of", "own_children"]

KEPT_S = 24 * 3600.0
NAME_CHARS = 20


class Claim(msgspec.Struct, frozen=True):
    """A job that was begun: which process it is, and how long it may take.

    `boot` tells this life of the machine from an earlier one.
    """

    id: str
    boot: str
    ends_at: float
    grace_s: float
    process: Process | None = None


class Records:
    """Claims of jobs under way in `live`, what became of the others in `done`.

    A claim is a folder that is made once, so a job can begin once, whoever asks for it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._live, self._done = folder / "live", folder / "done"

    def prepare(self) -> None:
        """Make the folders, for their owner only, and forget what is old."""
        for path in (self.folder, self._live, self._done):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        oldest = time.time() - KEPT_S
        for path in self._done.iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    shutil.rmtree(path)

    def since(self) -> float:
        """From when on every job that began is known here."""
        made = (self.folder / "since").stat().st_mtime if self._marked() else time.time()
        return max(made, time.time() - KEPT_S + 60.0)

    def place(self, job: str) -> Path:
        """Where the output of a job lies while it runs."""
        return self._live / _checked(job)

    def claim(self, job: str) -> bool:
        """Begin it; False when it has been begun before, whatever became of it."""
        try:
            os.mkdir(f"{self._live}/{_checked(job)}", 0o700)  # noqa: PTH102  it is quicker
            if os.path.lexists(f"{self._done}/{job}"):
                os.rmdir(f"{self._live}/{job}")  # noqa: PTH106
                return False
        except FileExistsError:
            return False
        return True

    def note(self, claim: Claim) -> None:
        """Write down what is known of it; whoever finds only a part of that knows the mark."""
        _write(f"{self._live}/{claim.id}/claim", msgspec.json.encode(claim))

    def finish(self, done: Done) -> None:
        """It is over."""
        job = _checked(done.id)
        _write(f"{self._live}/{job}/end", msgspec.json.encode(done))
        os.rename(f"{self._live}/{job}", f"{self._done}/{job}")  # noqa: PTH104  it is quicker

    def forbid(self, job: str) -> bool:
        """Let a job that never began never begin; False when it has begun."""
        if self.place(job).exists():
            return False
        try:
            (self._done / _checked(job)).mkdir(mode=0o700)
        except FileExistsError:
            return not (self._done / job / "end").exists()
        return True

    def done(self, job: str) -> Done | None:
        """What became of it, where that is known."""
        try:
            return msgspec.json.decode((self._done / _checked(job) / "end").read_bytes(), type=Done)
        except (OSError, msgspec.MsgspecError):
            return None

    def output(self, job: str, stream: int) -> Path | None:
        """The file with all that a finished job said on stdout (1) or stderr (2)."""
        path = self._done / _checked(job) / str(stream)
        return path if path.exists() else None

    def live(self) -> Iterator[Claim]:
        """Every job that has no end yet."""
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._live.iterdir()):
                try:
                    yield msgspec.json.decode((path / "claim").read_bytes(), type=Claim)
                except (OSError, msgspec.MsgspecError):
                    # Claimed a moment ago, or by one who died right then: only its mark is known.
                    yield Claim(path.name, boot_id(), 0.0, 0.0)

    def _marked(self) -> bool:
        path = self.folder / "since"
        if not path.exists():
            path.touch(mode=0o600)
            return False
        return True


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def mark_of(job: str) -> str:
    """What everything that comes out of a job carries in its environment."""
    return f"{job}."


@cache
def boot_id() -> str:
    """This life of the machine; "" where it cannot be told."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _checked(job: str) -> str:
    """A job's name is the name of a folder."""
    if not job or len(job) > 128 or not all(char.isalnum() or char in "-_" for char in job):
        raise ValueError(f"{job[:NAME_CHARS]!r} cannot name a job")
    return job


def name_of(pid: int) -> str:
    """What ps calls a process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return ""


def own_children() -> set[int]:
    """The pids whose parent is this process, orphans that came to it included."""
    with contextlib.suppress(OSError):
        found: set[int] = set()
        for task in Path("/proc/self/task").iterdir():
            found.update(map(int, (task / "children").read_text().split()))
        return found
    return set()
