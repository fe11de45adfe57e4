"""A cell is a process that was confined ahead of time and becomes a command when it gets one.

Confining takes calls that the process has to make itself, between fork and exec, and takes longer
than starting a program. So cells wait, confined, until there is a command for them.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from operator_sre.processes.confinement import zygote
from operator_sre.processes.confinement.calls import machine_index
from operator_sre.processes.confinement.filters import Profile, filter_program
from operator_sre.processes.confinement.landlock import writes_ruleset
from operator_sre.processes.confinement.remote import open_process, take_descriptor

__all__ = ["CAPABILITIES", "Cell", "Command", "Limits", "Walls", "Zygote"]

CAPABILITIES = {"dac_read_search": 2, "net_admin": 12, "net_raw": 13, "syslog": 34}
ANSWER_S_MAX = 10.0
# With less, a core is still piped to a program of the system; with this, it goes nowhere.
CORE_BYTES = 1
# Read once, here: a zygote may run as a user who cannot enter this folder.
_SCRIPT = Path(zygote.__file__).read_bytes()
_READ_SCRIPT = "import sys; exec(compile(sys.stdin.read(), 'zygote', 'exec'))"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one process of a command may use at most, and all of them together."""

    memory_bytes: int = 2 * 1024**3
    tree_bytes: int = 1024**3
    processes: int = 256
    file_bytes: int = 16 * 1024**2
    files_created: int = 64
    descriptors: int = 1024
    tree_descriptors: int = 2048
    signals: int = 1024


@dataclass(frozen=True, slots=True)
class Walls:
    """What a cell is confined to; cells with equal walls can take each other's place.

    `hidden` cannot be read, but what is `shown` among it. `writable` can be written with all below.
    Without a `profile`, calls are not filtered, nothing is limited, and everything can be read and
    written but what is hidden, which is not to be seen at all.
    `devices` are names below `/dev` that can be read. `capabilities` are those of root that stay.
    """

    profile: Profile | None = field(default_factory=Profile)
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Command:
    """What a cell becomes; `cpu_s` is how long each of its processes may compute, 0 for ever."""

    argv: Sequence[bytes]
    env: Mapping[bytes, bytes]
    cwd: bytes
    cpu_s: int = 0


class Cell:
    """The runner's side of a cell: its process, and the line over which it gets its command.

    `listener` is where the guard is asked, or -1. `temporary` is the folder in which it may write.
    """

    def __init__(self, zygote: Zygote, line: socket.socket, walls: Walls, temporary: str) -> None:
        self._zygote = zygote
        self._pid = 0
        self.walls = walls
        self.temporary = temporary
        self.listener = -1
        self._line = line
        self._confirmed = False
        self._cwd = b""
        line.settimeout(ANSWER_S_MAX)

    @property
    def pid(self) -> int:
        """Its process; OSError when there is none."""
        if not self._pid:
            self._zygote.settle()
        if self._pid < 0:
            raise OSError(-self._pid, os.strerror(-self._pid))
        return self._pid

    def born(self, pid: int) -> None:
        """The zygote says which process it is, or by a negative number why there is none."""
        self._pid = pid

    def confirm(self) -> None:
        """Wait until it is confined, and take its listener; OSError says why it is not."""
        if self._confirmed:
            return
        answer = self._line.recv(zygote.READY.size)
        if len(answer) < zygote.READY.size:
            raise OSError(errno.ECHILD, "a cell ended before it was confined")
        number = zygote.READY.unpack(answer)[0]
        if number < -1:
            raise OSError(-number, os.strerror(-number))
        if number >= 0:
            pidfd = open_process(self.pid)
            try:
                self.listener = take_descriptor(pidfd, number)
            finally:
                os.close(pidfd)
        self._confirmed = True

    def prepare(self, command: Command, descriptors: Sequence[int]) -> None:
        """Give it a command, with these as stdin, stdout and stderr; it waits for `start`."""
        pairs = [name + b"=" + value for name, value in command.env.items()]
        words = [command.cwd, b"%d" % command.cpu_s, b"%d" % len(command.argv)]
        words += [*command.argv, *pairs]
        if any(b"\0" in word for word in words):
            raise ValueError("embedded null byte")
        text = b"\0".join(words)
        self._cwd = command.cwd
        socket.send_fds(self._line, [zygote.SIZE.pack(len(text))], list(descriptors))
        self._line.sendall(text)

    def start(self) -> None:
        """Let it become its command.

        OSError when it cannot start; its `filename` is set when the working directory is at fault.
        """
        with contextlib.closing(self._line) as line:
            with contextlib.suppress(BrokenPipeError):  # it has failed, and its answer tells why
                line.send(zygote.START)
            answer = line.recv(zygote.FAILED.size)
        if answer:
            number, in_folder = zygote.FAILED.unpack(answer)
            raise OSError(number, os.strerror(number), self._cwd if in_folder else None)

    def discard(self) -> None:
        """End a cell that has become nothing; the runner collects it like any child."""
        self._line.close()
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        if self.listener >= 0:
            os.close(self.listener)
            self.listener = -1


class Zygote:
    """The process that forks cells. They are children of the process that has this object."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(ANSWER_S_MAX)
        self._expected: deque[Cell] = deque()
        with theirs:
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", "-c", _READ_SCRIPT, str(theirs.fileno())],
                cwd="/",
                env={},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        assert popen.stdin is not None
        with popen.stdin as script:
            script.write(_SCRIPT)
        popen.returncode = 0  # it is reaped by the runner
        self.pid = popen.pid

    def build(self, walls: Walls, reads: int, temporary: str) -> Cell:
        """A new cell; `reads` is the ruleset of what it may read, or -1. `confirm` waits until
        it is one."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        descriptors = [theirs.fileno()]
        writes = -1
        try:
            if walls.profile is not None:
                writes = writes_ruleset((*walls.writable, temporary))
                descriptors.append(writes)
            if reads >= 0:  # behind the other, because each one is copied with those before it
                descriptors.append(reads)
            socket.send_fds(self._control, [_request(walls)], descriptors)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            if writes >= 0:
                os.close(writes)
        cell = Cell(self, ours, walls, temporary)
        self._expected.append(cell)
        return cell

    def settle(self) -> None:
        """Wait until every cell that was asked for has its process."""
        while self._expected:
            cell = self._expected.popleft()
            try:
                answer = self._control.recv(zygote.READY.size)
            except OSError:
                answer = b""
            cell.born(zygote.READY.unpack(answer)[0] if answer else -errno.ECHILD)

    def close(self) -> None:
        """Let it end."""
        self._control.close()


@lru_cache(maxsize=16)
def _request(walls: Walls) -> bytes:
    limits, program = walls.limits, b""
    numbers: list[tuple[int, int]] = []
    if walls.profile is not None:
        column = machine_index()
        if column is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        program = filter_program(walls.profile, column)
        numbers = [
            (resource.RLIMIT_DATA, limits.memory_bytes),
            (resource.RLIMIT_FSIZE, limits.file_bytes),
            (resource.RLIMIT_NOFILE, limits.descriptors),
            (resource.RLIMIT_MEMLOCK, 0),
            (resource.RLIMIT_MSGQUEUE, 0),
            (resource.RLIMIT_CORE, CORE_BYTES),
            (resource.RLIMIT_RTPRIO, 0),
            (resource.RLIMIT_NICE, 0),
            (resource.RLIMIT_SIGPENDING, limits.signals),
        ]
    most = " ".join(f"{kind}={value}" for kind, value in numbers)
    kept = " ".join(str(CAPABILITIES[name]) for name in walls.capabilities)
    covered = shown = ""
    if walls.profile is None:
        covered, shown = (
            " ".join(os.fsencode(os.path.realpath(path)).hex() for path in paths)
            for paths in (walls.hidden, walls.shown)
        )
    return f"{most}\n{kept}\n{covered}\n{shown}\n".encode() + program
