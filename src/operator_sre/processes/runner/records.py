"""What a runner writes down, so that the next one knows what it did, and others what runs.

Two files that only grow: `live` tells which jobs began and ended and is emptied when none runs;
`done` tells what became of each and is put aside after a day. Appending a line costs next to
nothing, where a file for each job would wait for the disk's journal.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
from functools import cache
from pathlib import Path

import msgspec

from operator_protocols.domain.target import Process
from operator_sre.processes.runner.wire import Done

__all__ = [
    "KEPT_S",
    "Claim",
    "Records",
    "boot_id",
    "live_claims",
    "mark_of",
    "name_of",
    "output_folder",
    "own_children",
    "pipes_of",
]

KEPT_S = 24 * 3600.0
LIVE_BYTES_MAX = 64 * 1024
DONE_BYTES_MAX = 32 * 1024 * 1024
# What says more is written beside its output.
LINE_BYTES_MAX = 16 * 1024
NAME_CHARS = 20
LIVE, DONE, OLD, OUTPUT, END = "live", "done", "done.old", "output", "end"
_NOTED, _ENDED, _BESIDE = b"=", b"-", b"@"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class Claim(msgspec.Struct, frozen=True):
    """A started job: which process it is, and how long it may take.

    `boot` tells this life of the machine from an earlier one.
    """

    id: str
    boot: str
    ends_at: float
    grace_s: float
    process: Process | None = None


class Records:
    """The writing side: one runner has it, for all jobs of its folder. A job begins once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / OUTPUT).mkdir(mode=0o700, exist_ok=True)
        self._rotate()
        self._live_file = os.open(folder / LIVE, _APPEND, 0o600)
        self._done_file = os.open(folder / DONE, _APPEND, 0o600)
        self._ends: dict[str, tuple[str, int, int]] = {}
        for name in (OLD, DONE):
            self._learn(name)
        self._living = {claim.id: claim for claim in live_claims(folder)}
        for job in self._living.keys() & self._ends.keys():
            del self._living[job]
        self._forget_outputs()

    def tidy(self) -> None:
        """Put aside and forget what is old, while it runs on."""
        if _is_old(self.folder / DONE):
            os.close(self._done_file)
            self._rotate()
            self._done_file = os.open(self.folder / DONE, _APPEND, 0o600)
            self._ends.clear()
            for name in (OLD, DONE):
                self._learn(name)
        self._forget_outputs()

    def close(self) -> None:
        """Nothing more is written."""
        os.close(self._live_file)
        os.close(self._done_file)

    def live(self) -> tuple[Claim, ...]:
        """Every job that has no end yet."""
        return tuple(self._living.values())

    def since(self) -> float:
        """From when on every job that began is known here."""
        for name in (OLD, DONE):
            with contextlib.suppress(OSError, ValueError), (self.folder / name).open("rb") as file:
                return float(file.readline())
        return time.time()

    def has_begun(self, job: str) -> bool:
        """It has been started, or never can be."""
        return _check_id(job) in self._living or job in self._ends

    def claim(self, claim: Claim) -> bool:
        """Start it; False when it was started before, whatever its outcome.

        OSError when that cannot be written down: then it must not begin.
        """
        if self.has_begun(claim.id):
            return False
        self.note(claim)
        return True

    def note(self, claim: Claim) -> None:
        """Write down what is known of it."""
        _add(self._live_file, _NOTED + msgspec.json.encode(claim) + b"\n")
        self._living[claim.id] = claim

    def finish(self, done: Done) -> None:
        """Record its outcome before it stops counting as alive."""
        text = msgspec.json.encode(done)
        if len(text) > LINE_BYTES_MAX:
            folder = output_folder(self.folder, done.id)
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / END).write_bytes(text)
            text = _BESIDE
        self._append(done.id, text)
        self._living.pop(done.id, None)
        _add(self._live_file, _ENDED + done.id.encode() + b"\n")
        if not self._living and os.fstat(self._live_file).st_size > LIVE_BYTES_MAX:
            os.ftruncate(self._live_file, 0)

    def forbid(self, job: str) -> bool:
        """Prevent a job from ever starting; False when it has started."""
        if job in self._living:
            return False
        if job not in self._ends:
            self._append(_check_id(job), b"")
        return self._ends[job][2] == 0

    def outcome_of(self, job: str) -> Done | None:
        """What became of it, where that is known."""
        if job not in self._ends:
            return None
        name, offset, size = self._ends[job]
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            with (self.folder / name).open("rb") as file:
                file.seek(offset)
                text = file.read(size)
            if text == _BESIDE:
                text = (output_folder(self.folder, job) / END).read_bytes()
            return msgspec.json.decode(text, type=Done)
        return None

    def _append(self, job: str, text: bytes) -> None:
        head = job.encode() + b" "
        offset = os.fstat(self._done_file).st_size + len(head)
        _add(self._done_file, head + text + b"\n")
        self._ends[job] = (DONE, offset, len(text))

    def _learn(self, name: str) -> None:
        offset = 0
        with contextlib.suppress(FileNotFoundError), (self.folder / name).open("rb") as file:
            for line in file:
                job, blank, text = line.partition(b" ")
                if blank and line.endswith(b"\n"):
                    self._ends[job.decode(errors="replace")] = (
                        name,
                        offset + len(job) + 1,
                        len(text) - 1,
                    )
                offset += len(line)

    def _rotate(self) -> None:
        """Begin a new file for ends with the time, once the last one is old or large."""
        path = self.folder / DONE
        with contextlib.suppress(FileNotFoundError):
            if not _is_old(path):
                return
            path.replace(self.folder / OLD)
        data = f"{time.time()!r}\n".encode()
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, data)
        finally:
            os.close(fd)

    def _forget_outputs(self) -> None:
        oldest = time.time() - KEPT_S
        for path in (self.folder / OUTPUT).iterdir():
            with contextlib.suppress(OSError):
                if path.name not in self._living and path.stat().st_mtime < oldest:
                    shutil.rmtree(path)


def _is_old(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            started = float(file.readline())
        except ValueError:  # damaged: what can be read of it is kept, and nothing is added
            return True
        size = os.fstat(file.fileno()).st_size
    return time.time() - started >= KEPT_S or size >= DONE_BYTES_MAX


def _add(fd: int, line: bytes) -> None:
    """A whole line or nothing: half of one would be taken for none, and its job begin again."""
    size = os.fstat(fd).st_size
    try:
        if os.write(fd, line) == len(line):
            return
    except OSError:
        os.ftruncate(fd, size)
        raise
    os.ftruncate(fd, size)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def live_claims(folder: Path) -> tuple[Claim, ...]:
    """The jobs that run in the folder of a runner, for other processes."""
    found: dict[str, Claim] = {}
    with contextlib.suppress(FileNotFoundError):
        *lines, _ = (folder / LIVE).read_bytes().split(b"\n")
        for line in lines:
            sign, text = line[:1], line[1:]
            with contextlib.suppress(ValueError, msgspec.MsgspecError):
                if sign == _NOTED:
                    claim = msgspec.json.decode(text, type=Claim)
                    found[claim.id] = claim
                elif sign == _ENDED:
                    found.pop(text.decode(), None)
    return tuple(found.values())


def output_folder(folder: Path, job: str) -> Path:
    """Where what a job says lies: a file for each stream, and the order of their parts."""
    return folder / OUTPUT / _check_id(job)


def mark_of(job: str) -> str:
    """What everything that comes out of a job carries in its environment."""
    return f"{job}."


@cache
def boot_id() -> str:
    """The boot id of the machine; "" if unknown."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def name_of(pid: int) -> str:
    """What ps calls a process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return ""


def pipes_of(pid: int) -> frozenset[int]:
    """The inodes of the pipes that a process writes to."""
    found = set()
    for stream in (1, 2):
        with contextlib.suppress(OSError):
            found.add(os.stat(f"/proc/{pid}/fd/{stream}").st_ino)  # noqa: PTH116
    return frozenset(found)


def own_children() -> set[int]:
    """The pids whose parent is this process, orphans that came to it included."""
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/self/task"):  # noqa: PTH208  after every command
            with open(f"/proc/self/task/{task}/children", "rb") as file:  # noqa: PTH123
                found.update(map(int, file.read().split()))
    return found


def _check_id(job: str) -> str:
    """A job's name is the name of a folder."""
    if not _NAME.fullmatch(job):
        raise ValueError(f"{job[:NAME_CHARS]!r} is not a valid job id")
    return job
