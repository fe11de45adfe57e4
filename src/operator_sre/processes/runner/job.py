"""One job in progress: its process, its pipes, its limits, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import logging
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from operator_protocols.domain.target import Process
from operator_sre.processes.identity import born_now, row_of
from operator_sre.processes.runner.keeper import ConfinedCommand
from operator_sre.processes.runner.output import Output
from operator_sre.processes.runner.records import mark_of, name_of
from operator_sre.processes.runner.wire import Done, Order, Remains
from operator_sre.processes.tree import MARK, Tree, send

__all__ = ["Orphan", "RunnerJob"]

READ_BYTES = 1024 * 1024
PIPE_BYTES = 1024 * 1024
# The default size of a pipe; a read of this size means that there is much output.
PIPE_BYTES_USUAL = 64 * 1024
UMASK = 0o022
LIMIT_S_MAX = 24 * 3600.0
# A tree that forks faster than it is killed is killed for so long, and looked for so often.
STORM_S_MAX, QUIET_LOOKS = 20.0, 5
LISTS_MAX = 20
# How long the pipes may stay open after the command has ended, before they count as left open.
DRAIN_S_MAX = 0.05
POLL_S, LOOK_S = 0.2, 0.001
# How often the memory of a confined command is added up.
WEIGH_S = 0.1
# So many remaining processes are reported.
LEFT_MAX = 16

log = logging.getLogger(__name__)
Strays = Callable[["RunnerJob"], Iterable[Process]]


class RunnerJob:
    """One job from its start to its end. `over` is called once, with the outcome.

    Its output goes into `folder`. `hold` finds a cell for a confined job.

    `strays` are the orphans that came to the runner and belong to this job.
    """

    def __init__(
        self,
        order: Order,
        folder: Path,
        *,
        strays: Strays,
        hold: Callable[[Order, Callable[[], Iterable[int]]], ConfinedCommand],
        spoke: Callable[[RunnerJob], None],
        over: Callable[[RunnerJob, Done], None],
    ) -> None:
        self.order = order
        self._hold = hold
        self._confined: ConfinedCommand | None = None
        # Our ends of the stdin, stdout and stderr of a prepared command.
        self._prepared = (-1, -1, -1)
        self.pid: int | None = None
        self._process: Process | None = None
        self._born = self._died = 0.0
        self._inodes: frozenset[int] = frozenset()
        self._strays, self._spoke, self._over = strays, spoke, over
        self._output = Output(folder)
        self._pipes: dict[int, int] = {}
        self._loop = asyncio.get_running_loop()
        self._begun = time.monotonic()
        self._status: int | None = None
        self._usage: resource.struct_rusage | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self._timed_out = self._cancelled = self._finished = False
        self._feeding: memoryview | None = None

    def prepare(self) -> None:
        """Have a confined process ready that waits for `start`, which says why there is none."""
        if self.order.bounds is not None:
            with contextlib.suppress(OSError, ValueError):
                self._prepare_confined()

    def drop(self) -> None:
        """Let what was prepared end without a start."""
        if self._confined is not None:
            self._confined.drop()
            self._confined = None
            for fd in {*self._prepared} - {-1}:
                os.close(fd)

    def start(self) -> None:
        """Start its process; a failed start ends the job at once."""
        order = self.order
        self._begun, self._born = time.monotonic(), born_now()
        try:
            if order.bounds is None:
                self.pid, pipes = self._start_free()
            else:
                if self._confined is None:
                    self._prepare_confined()
                assert self._confined is not None
                try:
                    self._confined.start()
                except BaseException:
                    for fd in {*self._prepared} - {-1}:
                        os.close(fd)
                    raise
                self.pid, pipes = self._confined.pid, self._prepared
        except (OSError, ValueError, IndexError, OverflowError) as problem:
            why, number = _not_started(problem, order)
            self._finish(error=why, number=number)
            return
        self._watch_pipes(*pipes)
        self._alarm = self._loop.call_later(min(order.timeout_s, LIMIT_S_MAX), self._time_out)
        if self._confined is not None:
            self._loop.call_later(WEIGH_S, self._weigh)

    def _environment(self) -> dict[bytes, bytes]:
        env = dict(pair.partition(b"=")[::2] for pair in self.order.env)
        return env | {MARK.encode(): mark_of(self.order.id).encode()}

    def _start_free(self) -> tuple[int, tuple[int, int, int]]:
        """Its pid, and our ends of its stdin, stdout and stderr; -1 for no stdin."""
        popen = subprocess.Popen(
            self.order.argv,
            cwd=self.order.cwd,
            env=self._environment(),
            stdin=subprocess.PIPE if self.order.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            umask=UMASK,
            bufsize=0,
        )
        popen.returncode = 0  # it is reaped here, not by its own object
        pipes = [_detach_pipe(each) for each in (popen.stdin, popen.stdout, popen.stderr)]
        return popen.pid, (pipes[0], pipes[1], pipes[2])

    def _prepare_confined(self) -> None:
        """Give the command to a cell. What cannot be confined does not start."""
        opened: list[int] = []

        def pipe() -> tuple[int, int]:
            opened.extend(os.pipe2(os.O_CLOEXEC))
            return opened[-2], opened[-1]

        try:
            if self.order.stdin:
                stdin, feed = pipe()
            else:
                stdin, feed = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
                opened.append(stdin)
            (out, stdout), (err, stderr) = pipe(), pipe()
            confined = self._hold(self.order, lambda: [each.pid for each in self._remaining()])
            confined.prepare(self._environment(), (stdin, stdout, stderr))
        except BaseException:
            for fd in opened:
                os.close(fd)
            raise
        for fd in (stdin, stdout, stderr):
            os.close(fd)
        for fd in {feed, out, err} - {-1}:
            os.set_blocking(fd, False)
        self._confined, self._prepared = confined, (feed, out, err)

    def _weigh(self) -> None:
        """End it when all of it together has more memory than it may."""
        if self._finished or self._confined is None:
            return
        if why := self._confined.excess():
            self._confined.report(why)
            self.cancel()
            return
        self._loop.call_later(WEIGH_S, self._weigh)

    @property
    def process(self) -> Process | None:
        """Its own process; if it has already ended, its start time is by our clock."""
        if self._process is None and self.pid is not None:
            row = row_of(self.pid) if self._status is None else None
            self._process = row.process if row else Process(self.pid, self._born)
        return self._process

    def note_exit(self, status: int, usage: resource.struct_rusage) -> None:
        """Its own process has ended; others of it may not."""
        self._status, self._usage = status, usage
        if self._ending is not None:
            return
        if self._drain() and not self._remaining():
            self._finish()
        else:
            self._ending = self._loop.create_task(self._settle())

    def cancel(self) -> None:
        """End it on request."""
        if self._ending is None and not self._finished:
            self._cancelled = True
            self._ending = self._loop.create_task(self._end())

    @property
    def is_confined(self) -> bool:
        """Whether the kernel holds it, and its session is all of it."""
        bounds = self.order.bounds
        return bounds is not None and bounds.writable is not None

    @property
    def lifetime(self) -> tuple[float, float]:
        """From when to when it could bear a process."""
        return self._born, float("inf") if not self._finished else self._died

    @property
    def inodes(self) -> frozenset[int]:
        """What tells its pipes from others."""
        return self._inodes

    @property
    def holds(self) -> bool:
        """A process still has its pipes, and would be hurt if they were closed."""
        return bool(self._pipes)

    def _time_out(self) -> None:
        if self._ending is None:
            self._timed_out = True
            self._ending = self._loop.create_task(self._end())

    async def _end(self) -> None:
        await self._end_tree()
        # The signal that tells of an end comes a moment after it.
        await _until(lambda: self._status is not None)
        self._drain()
        self._close_pipes()
        self._finish()

    async def _end_tree(self) -> None:
        """End all of it, also what forks and flees while it is being ended."""
        tree = self._tree()
        await tree.end(grace_s=self.order.grace_s)
        ends, quiet = self._loop.time() + STORM_S_MAX, 0
        while quiet < QUIET_LOOKS and self._loop.time() < ends:
            strays = self._remaining()
            for stray in strays:
                send(stray, signal.SIGKILL)
            lived = bool(strays) or (quiet == QUIET_LOOKS - 1 and bool(tree.stop_and_kill()))
            quiet = 0 if lived else quiet + 1
            await asyncio.sleep(0 if strays else LOOK_S / 2)

    async def _settle(self) -> None:
        """The command has ended by itself; what came out of it may be about to end as well."""
        await _until(lambda: not self._pipes and not self._remaining())
        left = self._remaining()
        if left and self.order.ends_left:
            await self._end_tree()
            self._drain()
            self._close_pipes()
        self._finish(left=left)

    def _tree(self) -> Tree:
        return Tree(self.process, mark=mark_of(self.order.id), known=self._strays(self))

    def _remaining(self) -> tuple[Process, ...]:
        """Its processes that are alive.

        A process that is born while the others are listed, and whose parent ends meanwhile, is in
        no list: they are listed again while the kernel says that its group has members.
        """
        left: tuple[Process, ...] = ()
        if self.is_confined and self._confined is not None and self._confined.is_over:
            return left
        for _ in range(LISTS_MAX):
            left = tuple(self._strays(self))
            if left or not self._has_group():
                break
        return left

    def _has_group(self) -> bool:
        """Whether its group has a member, including zombies."""
        if self.pid is None:
            return False
        try:
            os.killpg(self.pid, 0)
        except PermissionError:
            return True
        except ProcessLookupError:
            return False
        return True

    def _finish(self, *, left: tuple[Process, ...] = (), error: str = "", number: int = 0) -> None:
        if self._finished:
            return
        self._finished = True
        self._died = born_now()
        if self._alarm is not None:
            self._alarm.cancel()
        self._output.close()
        out, err = self._output.streams[1], self._output.streams[2]
        usage = self._usage
        ended = self.order.ends_left
        if self._status is None:
            exit_code = -signal.SIGKILL if (not error) else None
        else:
            exit_code = os.waitstatus_to_exitcode(self._status)
        # The most it had at once; 0 where that was less than we have ourselves. The kernel counts
        # what a process shared with its parent before it became another program.
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        memory_bytes = usage.ru_maxrss * 1024 if usage is not None and usage.ru_maxrss > own else 0
        done = Done(
            id=self.order.id,
            exit_code=exit_code,
            process=self.process,
            errno=number,
            error=error,
            timed_out=self._timed_out,
            cancelled=self._cancelled,
            duration_s=time.monotonic() - self._begun,
            stdout=out.capture.kept_bytes(),
            stderr=err.capture.kept_bytes(),
            stdout_bytes=out.capture.seen,
            stderr_bytes=err.capture.seen,
            stdout_sha256=out.sha256,
            stderr_sha256=err.sha256,
            truncated=out.truncated or err.truncated,
            user_s=usage.ru_utime if usage else 0.0,
            system_s=usage.ru_stime if usage else 0.0,
            memory_bytes=memory_bytes,
            left=tuple(Remains(each, name_of(each.pid), ended) for each in left[:LEFT_MAX]),
            blocked=tuple(self._confined.blocked) if self._confined is not None else (),
        )
        self._over(self, done)
        if self._confined is not None:
            self._confined.close()

    def _watch_pipes(self, feed: int, out: int, err: int) -> None:
        for stream, fd in ((1, out), (2, err)):
            self._pipes[stream] = fd
            self._inodes |= {os.fstat(fd).st_ino}
            self._loop.add_reader(fd, self._readable, stream, fd)
        if feed >= 0:
            self._feeding = memoryview(self.order.stdin)
            self._loop.add_writer(feed, self._writable, feed)

    def _readable(self, stream: int, fd: int) -> bool:
        """Take what is there; False when there is nothing, or never will be again."""
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(fd)
            self._pipes.pop(stream, None)
            os.close(fd)
            return False
        if len(data) == PIPE_BYTES_USUAL:
            with contextlib.suppress(OSError, AttributeError):
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        if not self._finished:  # output of remaining processes is discarded
            self._output.feed(stream, data)
            self._spoke(self)
        return True

    def _writable(self, fd: int) -> None:
        try:
            written = os.write(fd, self._feeding or b"")
        except BlockingIOError:
            return
        except OSError:  # it does not want to hear
            written = len(self._feeding or b"")
        self._feeding = (self._feeding or memoryview(b""))[written:]
        if not self._feeding:
            self._loop.remove_writer(fd)
            os.close(fd)

    def _drain(self) -> bool:
        """Take all that is there now; True when both pipes have come to their end."""
        for stream, fd in list(self._pipes.items()):
            # What is written faster than it is read is cut off, not waited for.
            for _ in range(64):
                if not self._readable(stream, fd):
                    break
        return not self._pipes

    def _close_pipes(self) -> None:
        for fd in self._pipes.values():
            self._loop.remove_reader(fd)
            os.close(fd)
        self._pipes.clear()


class Orphan:
    """A job whose runner died: its end will not be observed, but its limits apply."""

    def __init__(self, job: str, process: Process | None, *, ends_at: float, grace_s: float):
        self.id = job
        self._ends_at = ends_at
        self._grace_s = grace_s
        self._tree = Tree(process, mark=mark_of(job))

    async def wait(self) -> Done:
        """Wait until nothing of it is left, or its time is up."""
        while self._tree.members():
            if time.time() >= self._ends_at:
                await self._tree.end(grace_s=self._grace_s)
                break
            await asyncio.sleep(POLL_S)
        return Done(self.id, None, error="The runner of the command was killed while it ran.")

    async def end(self) -> None:
        """End it now."""
        await self._tree.end(grace_s=self._grace_s)


async def _until(true: Callable[[], bool]) -> None:
    """Wait a moment for something that is about to happen."""
    for _ in range(int(DRAIN_S_MAX / LOOK_S)):
        if true():
            return
        await asyncio.sleep(LOOK_S)


def _detach_pipe(pipe: IO[bytes] | None) -> int:
    """A descriptor of our own that does not block; -1 where there is no pipe."""
    if pipe is None:
        return -1
    own = os.dup(pipe.fileno())
    pipe.close()
    os.set_blocking(own, False)
    return own


def _not_started(problem: Exception, order: Order) -> tuple[str, int]:
    """Why a command could not start, in the words of a shell."""
    name = order.argv[0].decode(errors="replace") if order.argv else ""
    cwd = order.cwd.decode(errors="replace")
    if not isinstance(problem, OSError):
        return f"{name}: {problem}", errno.EINVAL
    number = problem.errno or errno.EIO
    why, subject = os.strerror(number), name
    if problem.filename is not None and os.fsencode(problem.filename) == order.cwd != name.encode():
        subject = cwd
    elif number == errno.ENOENT:
        why = "command not found"
    return f"{subject}: {why}", number
