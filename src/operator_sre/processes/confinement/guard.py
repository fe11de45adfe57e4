"""The guard answers the calls that the filter of a confined command puts to it.

A call about files may go ahead when the command may write its path: the path can change
between the question and the call, but then Landlock refuses it. What Landlock does not decide, the
guard does itself, on a copy of the command's descriptor: which files are created and how many, what
is locked, who is signalled. What is refused is remembered, so that people learn what was tried.

Nothing here waits for a file system: that is done in a thread of the command's own.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import stat
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path

from operator_sre.processes.confinement.call import Call, RefusedError, to_signed
from operator_sre.processes.confinement.calls import (
    CREATES,
    METADATA,
    OF_MACHINE,
    PATH_CALLS,
    REMOVES,
    SIGNALS,
)
from operator_sre.processes.confinement.cell import Limits
from operator_sre.processes.confinement.connections import SPEAKING, Connections
from operator_sre.processes.confinement.filters import WRITING
from operator_sre.processes.confinement.listener import Listener
from operator_sre.processes.confinement.own_files import O_TMPFILE, OwnFiles
from operator_sre.processes.confinement.paths import (
    AT_FDCWD,
    CHECKED_WHEN_READ,
    DEVICES,
    LEADS_AWAY,
    OF_PROCESS,
    OWN_PIPES,
    STANDARD,
    TERMINAL,
    read_state,
    resolve_path,
)
from operator_sre.processes.confinement.remote import (
    copied_descriptor,
    is_program_of_system,
    process_of_thread,
    read_path,
    umask_of,
    write_memory,
)
from operator_sre.processes.confinement.signals import Signals
from operator_sre.processes.confinement.socket_lists import SocketLists
from operator_sre.processes.confinement.workers import Workers

__all__ = ["Guard"]

BLOCKED_MAX = 16
# So many processes are started between two counts of how many there are.
COUNT_EVERY = 32
# How long no process is started after there were too many.
FULL_S = 0.1
# So many calls of a command may wait at once.
WAITING_MAX = 32
REPORT_CHARS_MAX = 300
AT_SYMLINK_NOFOLLOW = 0x100
# What the command may ask of an opening that the guard does for it.
KEPT_FLAGS = (
    os.O_ACCMODE | os.O_APPEND | os.O_CREAT | os.O_DIRECTORY | os.O_EXCL | os.O_NOFOLLOW
    | os.O_NONBLOCK | os.O_SYNC | os.O_TMPFILE | os.O_TRUNC
)  # fmt: skip
COPY_BYTES_MAX = 64 * 1024
log = logging.getLogger(__name__)


class Guard:
    """Answers for one command, in the loop of the runner, until `close`.

    `count` tells how many processes and threads the command has; `writable` are folders and files
    that it may write, `disk_programs` the programs that may read disks. `socket_lists`
    are for programs that look for sockets, `signals` decides whom the command may signal.
    """

    def __init__(
        self,
        listener: int,
        root: int,
        connections: Connections,
        limits: Limits,
        writable: Sequence[str],
        count: Callable[[], int],
        disk_programs: Sequence[str] = (),
        socket_lists: SocketLists | None = None,
        signals: Signals | None = None,
    ) -> None:
        self._listener = Listener(listener)
        self.root = root
        self.limits = limits
        self.blocked: list[str] = []
        self._connections = connections
        self._files = OwnFiles(writable, limits.files_created)
        self._writable = tuple(writable)
        self._disk_programs = tuple(disk_programs)
        self._socket_lists = socket_lists
        self._signals = signals or Signals(root)
        self._count = count
        self._workers = connections.workers
        self._lookups = Workers(None)
        self._started = 0
        self._full_until = 0.0
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Answer from now on."""
        asyncio.get_running_loop().add_reader(self._listener.fd, self._answer_next)

    def close(self) -> None:
        """The command has ended, or its calls get no more answers."""
        if self._listener.fd < 0:
            return
        asyncio.get_running_loop().remove_reader(self._listener.fd)
        self._listener.close()
        self._connections.close()
        self._workers.close()
        self._lookups.close()

    @property
    def is_over(self) -> bool:
        """Whether the kernel says that no process of the command is left."""
        return self._listener.is_over

    def report(self, text: str) -> None:
        """Remember what the command tried and may not; it chose the names in it."""
        shown = "".join(each if each.isprintable() else "?" for each in text[:REPORT_CHARS_MAX])
        if shown not in self.blocked and len(self.blocked) < BLOCKED_MAX:
            self.blocked.append(shown)

    def _answer_next(self) -> None:
        try:
            call = self._listener.receive()
        except OSError:
            self.close()
            return
        if call is None:
            if self.is_over:
                asyncio.get_running_loop().remove_reader(self._listener.fd)
            return
        try:
            if call.name in SPEAKING:
                self._wait_for(call, self._speak(call))
            else:
                self._decide(call)
        except Exception as problem:  # noqa: BLE001  whatever it is, the command waits
            self._fail(call, problem)

    def _wait_for(self, call: Call, work: Coroutine[None, None, None]) -> None:
        """Answer a call once something is done that may take a while."""
        if len(self._tasks) >= WAITING_MAX:
            work.close()
            raise RefusedError(errno.EAGAIN, f"more than {WAITING_MAX} calls at once")
        task = asyncio.get_running_loop().create_task(self._finish(call, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, call: Call, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except Exception as problem:  # noqa: BLE001  as above
            self._fail(call, problem)

    def _fail(self, call: Call, problem: Exception) -> None:
        """Let a call fail: it may not be made, or its process is gone, or it makes no sense."""
        if isinstance(problem, RefusedError):
            if problem.report:
                self.report(problem.report)
            self._listener.send(call, error=problem.number)
        elif isinstance(problem, OSError | OverflowError | ValueError):  # or no such number or name
            self._listener.send(call, error=getattr(problem, "errno", None) or errno.EFAULT)
        else:
            log.error("cannot decide a system call of a command: %r", problem)
            self._listener.send(call, error=errno.EFAULT)

    async def _speak(self, call: Call) -> None:
        value = await self._connections.carry_out(call, lambda: self._listener.is_waiting(call))
        self._listener.send(call, value=value)

    def _decide(self, call: Call) -> None:
        """Answer a call at once, or after a check of a file system."""
        name = call.name
        if name in ("clone", "fork", "vfork"):
            self._started += 1
            now = asyncio.get_running_loop().time()
            if self._started % COUNT_EVERY == 0 and now >= self._full_until:
                if self._count() > self.limits.processes:
                    self._full_until = now + FULL_S
                else:
                    self._full_until = 0.0
            if now < self._full_until:
                self._started = -1  # so that it is counted again at the next one
                raise RefusedError(errno.EAGAIN, f"more than {self.limits.processes} processes")
        elif name in ("creat", "open", "openat"):
            if self._open_for(call):
                return
        elif name in ("readlink", "readlinkat", "stat", "lstat", "newfstatat", "statx"):
            if self._look_up_for(call):
                return
        elif name in PATH_CALLS:
            paths = [self._path(call, folder, path) for folder, path in PATH_CALLS[name]]
            if name == "truncate":
                raise RefusedError(errno.EACCES, f"write to {paths[0]}")  # old kernels allow it
            if foreign := [path for path in paths if not self._is_plainly_own(path)]:
                self._wait_for(call, self._check_writes(call, foreign))
                return
            if name in CREATES:
                self._files.count()
        elif name in METADATA:
            at, place = METADATA[name]
            if place is None or not call.arguments[place]:  # it is about a descriptor
                where = os.readlink(f"/proc/{call.thread}/fd/{call.arguments[0] & 0xFFFFFFFF}")
            else:
                where = self._path(call, at, place)
            if not self._files.holds(where):
                raise RefusedError(errno.EPERM, f"change of the metadata of {where}")
            self._listener.send(call)  # only the command sees those files, so nothing has to change
            return
        elif name in SIGNALS:
            if self._signals.carry_out(call):
                self._listener.send(call)
                return
        elif name == "flock":
            self._wait_for(call, self._lock(call))
            return
        elif name == "socket":
            raise RefusedError(errno.EACCES, "network socket")
        else:
            raise RefusedError(errno.EPERM, OF_MACHINE.get(name, name))
        self._listener.let_go_ahead(call)

    # Files.

    def _path(self, call: Call, folder: int | None, place: int) -> str:
        """The absolute path that a call names, as it is written: no link in it is followed."""
        return self._complete(call, folder, read_path(call.thread, call.arguments[place]))

    def _complete(self, call: Call, folder: int | None, name: bytes) -> str:
        path = os.fsdecode(name)
        if not path.startswith("/"):
            at = to_signed(call.arguments[folder]) if folder is not None else AT_FDCWD
            link = "cwd" if at == AT_FDCWD else f"fd/{at}"
            path = f"{os.readlink(f'/proc/{call.thread}/{link}')}/{path}"
        if not self._listener.is_waiting(call):
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
        return "/" + os.path.normpath(path).lstrip("/")

    def _is_plainly_own(self, path: str) -> bool:
        is_pipe = OWN_PIPES.fullmatch(path) is not None
        return path in DEVICES or is_pipe or self._files.holds(path)

    async def _check_writes(self, call: Call, paths: Sequence[str]) -> None:
        """Let a call go ahead where links lead back, or where the kernel has a better reason to
        refuse it. Landlock enforces the same; this reports it."""
        for path in paths:
            # As the kernel answers before it asks for any right.
            if call.name in CREATES | REMOVES:
                is_there = await self._workers.run(partial(os.path.lexists, path))
                if is_there and call.name in CREATES:
                    raise OSError(errno.EEXIST, os.strerror(errno.EEXIST))
                if not is_there and call.name in REMOVES:
                    raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            real = await self._workers.run(partial(resolve_path, path))
            if real and not self._is_plainly_own(real):
                raise RefusedError(errno.EACCES, f"write to {path}")
        if call.name in CREATES:
            self._files.count()
        self._listener.let_go_ahead(call)

    def _open_for(self, call: Call) -> bool:
        """Check an opening; True when the guard opens it for the command."""
        at, place = (0, 1) if call.name == "openat" else (None, 0)
        flags, mode = call.arguments[place + 1], call.arguments[place + 2]
        if call.name == "creat":
            flags, mode = os.O_CREAT | os.O_WRONLY | os.O_TRUNC, call.arguments[1]
        if self._disk_programs and (disk := self._find_disk(call, at, place)):
            if flags & WRITING:
                raise RefusedError(errno.EROFS)  # then programs open it to read
            self._open_here(call, disk, flags)
            return True
        if flags & WRITING and not flags & os.O_PATH:
            path = self._path(call, at, place)
            if not flags & (os.O_WRONLY | os.O_RDWR) and flags & os.O_TRUNC:
                # Old kernels do not ask Landlock for this, so that it can never go ahead.
                raise RefusedError(errno.EACCES, f"write to {path}")
            if flags & (os.O_CREAT | O_TMPFILE):
                # Open a file for the command that it may have to create.
                if self._is_plainly_own(path):
                    fd = self._open_own(call, path, flags, mode)
                    self._listener.give(call, fd, closes=bool(flags & os.O_CLOEXEC))
                else:
                    self._wait_for(call, self._create_behind_links(call, path, flags, mode))
                return True
            if self._is_plainly_own(path):
                return False
            self._wait_for(call, self._check_writes(call, [path]))
            return True
        path = self._path_of_process(call, at, place)
        if self._socket_lists is not None and flags & os.O_DIRECTORY:
            listing = self._socket_lists.open(call.thread, path)
            if listing is not None:
                self._listener.give(call, listing, closes=True)
                return True
        if not path or LEADS_AWAY.fullmatch(path):  # that would open the file of another process
            return False
        self._open_here(call, path, flags)
        return True

    def _open_here(self, call: Call, path: str, flags: int) -> None:
        """Open a file to read, and give the command a descriptor of it."""
        if path.endswith(CHECKED_WHEN_READ):
            fd = os.memfd_create("copy", os.MFD_CLOEXEC)
            os.write(fd, Path(path).read_bytes()[:COPY_BYTES_MAX])
            os.lseek(fd, 0, os.SEEK_SET)
        else:
            kept = os.O_DIRECTORY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_EXCL
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (flags & kept))
        self._listener.give(call, fd, closes=bool(flags & os.O_CLOEXEC))

    def _find_disk(self, call: Call, folder: int | None, place: int) -> str:
        """The disk that a call opens, when its program may read disks."""
        if b"dev/" not in read_path(call.thread, call.arguments[place]):
            return ""
        path = os.path.realpath(self._path(call, folder, place))
        try:
            is_disk = path.startswith("/dev/") and stat.S_ISBLK(os.stat(path).st_mode)
            program = os.readlink(f"/proc/{process_of_thread(call.thread)}/exe")
        except OSError:
            return ""
        may_read = is_disk and is_program_of_system(program, self._disk_programs, self._writable)
        return path if may_read else ""

    async def _create_behind_links(self, call: Call, path: str, flags: int, mode: int) -> None:
        real = await self._workers.run(lambda: resolve_path(path))
        if not real:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if not self._is_plainly_own(real):
            raise RefusedError(errno.EACCES, f"write to {path}")
        fd = self._open_own(call, real, flags, mode)
        self._listener.give(call, fd, closes=bool(flags & os.O_CLOEXEC))

    def _open_own(self, call: Call, path: str, flags: int, mode: int) -> int:
        """A descriptor of a file, a device or a pipe that the command may write."""
        wanted = flags & KEPT_FLAGS
        if path == TERMINAL:
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))  # it has none
        if path in DEVICES:
            return os.open(path, wanted & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC) | os.O_CLOEXEC)
        if pipe := OWN_PIPES.fullmatch(path):
            process = process_of_thread(call.thread)
            if (pipe["process"] or "self") not in ("self", "thread-self", f"{process}"):
                raise RefusedError(errno.EACCES, f"write to {path}")
            number = STANDARD.get(pipe["standard"] or "")
            if number is None:
                number = int(pipe["number"] or pipe["of_process"])
            with copied_descriptor(process, number) as copy:
                target = os.readlink(f"/proc/self/fd/{copy}")
                if target.startswith("pipe:["):
                    kept = wanted & (os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK) | os.O_CLOEXEC
                    return os.open(f"/proc/self/fd/{copy}", kept)
            if not target.startswith("/") or OWN_PIPES.fullmatch(target):
                raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
            if not self._is_plainly_own(target):
                raise RefusedError(errno.EACCES, f"write to {target}")
            return self._open_own(call, target, flags & ~os.O_EXCL, mode)
        fd = self._files.open(path, wanted, mode & 0o7777 & ~umask_of(call.thread))
        if not flags & os.O_NONBLOCK:
            os.set_blocking(fd, True)
        return fd

    async def _lock(self, call: Call) -> None:
        """Lock a file of the command's own, on a copy: the lock is that of both."""
        process = process_of_thread(call.thread)
        with copied_descriptor(process, call.arguments[0]) as copy:
            if not self._listener.is_waiting(call):
                raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
            if not self._files.holds(os.readlink(f"/proc/self/fd/{copy}")):
                raise RefusedError(errno.EPERM)
            operation = to_signed(call.arguments[1])
            await self._workers.run(lambda: fcntl.flock(copy, operation))
        self._listener.send(call)

    def _path_of_process(self, call: Call, folder: int | None, place: int) -> str:
        """The path of a call when it is about a process; most are not, and must not cost much."""
        path = read_path(call.thread, call.arguments[place])
        if path[:1] == b"/" and path[:5] != b"/proc":
            return ""
        found = self._complete(call, folder, path)
        return found if OF_PROCESS.fullmatch(found) else ""

    def _look_up_for(self, call: Call) -> bool:
        """Read a link or the state of a file of a process; True when that is answered."""
        name = call.name
        at, place = (None, 0) if name in ("readlink", "stat", "lstat") else (0, 1)
        path = self._path_of_process(call, at, place)
        if not path:
            return False
        arguments = call.arguments
        if name.startswith("readlink"):
            target = os.fsencode(os.readlink(path))[: arguments[place + 2]]
            write_memory(call.thread, arguments[place + 1], target)
            self._listener.send(call, value=len(target))
            return True
        follow = 0 if name == "stat" else AT_SYMLINK_NOFOLLOW
        if name in ("newfstatat", "statx"):
            follow = arguments[3 if name == "newfstatat" else 2]
        mask, target_at = (arguments[3], 4) if name == "statx" else (0, place + 1)

        def look() -> bytes:
            return read_state(path, "statx" if name == "statx" else "newfstatat", follow, mask)

        if LEADS_AWAY.fullmatch(path) and not follow & AT_SYMLINK_NOFOLLOW:
            self._wait_for(call, self._look_behind(call, arguments[target_at], look))
        else:
            write_memory(call.thread, arguments[target_at], look())
            self._listener.send(call)
        return True

    async def _look_behind(self, call: Call, address: int, look: Callable[[], bytes]) -> None:
        state = await self._lookups.run(look)
        if self._listener.is_waiting(call):
            write_memory(call.thread, address, state)
        self._listener.send(call)
