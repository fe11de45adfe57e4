"""Run one command within its limits: time, output, and nothing of it left behind."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.target import Process
from operator_sre.processes.capture import Capture
from operator_sre.processes.identity import row_of
from operator_sre.processes.tree import MARK, Tree

__all__ = ["CANNOT_RUN", "NOT_FOUND", "Finished", "run"]

CANNOT_RUN = 126
NOT_FOUND = 127

# How long the pipes may stay open after the command has ended, and after its tree was ended.
DRAIN_S_MAX = 0.1
SETTLE_S_MAX = 0.1
# How long a start that is not wanted any more is waited for; it is ended in any case.
START_S_MAX = 1.0


Watch = Callable[[int, bytes], None]
Started = Callable[[Process, str], None]


@dataclass(frozen=True, slots=True)
class Finished:
    """What became of one command. A negative exit code is the signal that ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    stdout_bytes: int
    stderr_bytes: int
    timed_out: bool
    duration_s: float
    truncated: bool = False


class _Pipes(asyncio.SubprocessProtocol):
    """Drains both pipes as fast as they fill, so that the command never waits for us."""

    def __init__(self, output_bytes_max: int, watch: Watch) -> None:
        loop = asyncio.get_running_loop()
        self._watch = watch
        self.stdout = Capture(output_bytes_max)
        self.stderr = Capture(output_bytes_max)
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._open = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep what fits, and pass all of it on."""
        (self.stdout if fd == 1 else self.stderr).feed(data)
        self._watch(fd, data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note the end of a pipe."""
        self._open.discard(fd)
        if not self._open and not self.closed.done():
            self.closed.set_result(None)

    def process_exited(self) -> None:
        """Note the end of the command itself, even if its pipes are still open."""
        if not self.exited.done():
            self.exited.set_result(None)


async def run(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout_s: float,
    grace_s: float = 2.0,
    output_bytes_max: int,
    stdin: bytes = b"",
    watch: Watch = lambda fd, data: None,
    started: Started = lambda process, mark: None,
) -> Finished:
    """Run a command to its end or its time-out, then end all that it left running.

    `watch` sees every byte live, with 1 for stdout and 2 for stderr; `started` gets the
    process and the mark by which another process can find and end the whole tree.

    It returns within `timeout_s + grace_s + 0.3`, keeps at most `output_bytes_max` of each stream,
    and never raises for what the command does. Cancelled, it ends the tree first.
    """
    started_s = time.monotonic()
    # It starts with our own mark, if we have one, so that our runner can end what we run.
    mark = f"{os.environ.get(MARK, '')}{secrets.token_hex(8)}."
    pipes = _Pipes(output_bytes_max, watch)
    spawning = asyncio.ensure_future(
        _spawn(argv, pipes, cwd=cwd, env={**env, MARK: mark}, piped=bool(stdin))
    )
    try:
        # asyncio waits for ever where a start is cancelled between the fork and its pipes.
        transport = await asyncio.shield(spawning)
    except (OSError, ValueError) as problem:
        return _not_run(problem, argv, cwd=cwd, duration_s=time.monotonic() - started_s)
    except asyncio.CancelledError:
        await _abandon(spawning, pipes, mark)
        raise
    root = _root(transport.get_pid())
    tree = Tree(root, mark=mark)
    ended = False
    try:
        started(root, mark)
        pipe = transport.get_pipe_transport(0)
        if isinstance(pipe, asyncio.WriteTransport):
            pipe.write(stdin)
            pipe.write_eof()
        timed_out = not await _within(timeout_s - (time.monotonic() - started_s), pipes.exited)
        if not timed_out:
            await _within(DRAIN_S_MAX, pipes.closed)
        ended = await tree.end(grace_s=grace_s)
        await _within(SETTLE_S_MAX, pipes.exited, pipes.closed)
    except asyncio.CancelledError:
        ended = await tree.end(grace_s=grace_s)
        raise
    finally:
        if not ended:
            # A second cancellation has no patience for the grace.
            tree.kill()
        transport.close()
    code = transport.get_returncode()
    return _result(pipes, code, timed_out=timed_out, duration_s=time.monotonic() - started_s)


async def _spawn(
    argv: Sequence[str], pipes: _Pipes, *, cwd: str, env: Mapping[str, str], piped: bool
) -> asyncio.SubprocessTransport:
    if not argv:
        raise ValueError("there is no command")
    transport, _ = await asyncio.get_running_loop().subprocess_exec(
        lambda: pipes,
        *argv,
        stdin=PIPE if piped else DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    return transport


async def _abandon(
    spawning: asyncio.Future[asyncio.SubprocessTransport], pipes: _Pipes, mark: str
) -> None:
    """End a command that is no longer wanted, as soon as it has started."""

    def end(spawned: asyncio.Future[asyncio.SubprocessTransport]) -> None:
        if not _has_started(spawned):
            Tree(None, mark=mark).kill()
            return
        # By its group as well: a process shows no mark at the moment in which it becomes another
        # program, and a process that is forked while others are killed one by one would be missed.
        Tree(_root(spawned.result().get_pid()), mark=mark).kill()
        spawned.result().close()

    spawning.add_done_callback(end)
    await asyncio.wait([spawning], timeout=START_S_MAX)
    if spawning.done() and _has_started(spawning):
        # A killed process is gone in a moment, and its exit is reported a little later.
        await _within(START_S_MAX, pipes.exited)


def _has_started(spawned: asyncio.Future[asyncio.SubprocessTransport]) -> bool:
    return not spawned.cancelled() and spawned.exception() is None


def _root(pid: int) -> Process:
    row = row_of(pid)
    # It may have come and gone already; what it left behind is not older than now.
    return row.process if row is not None else Process(pid, time.time())


async def _within(seconds: float, *futures: asyncio.Future[None]) -> bool:
    """True when all are done in time; none is cancelled."""
    _, waiting = await asyncio.wait(futures, timeout=max(0.0, seconds))
    return not waiting


def _result(
    pipes: _Pipes, exit_code: int | None, *, timed_out: bool, duration_s: float
) -> Finished:
    stdout, stderr = pipes.stdout.kept_bytes(), pipes.stderr.kept_bytes()
    return Finished(
        # A process that even SIGKILL cannot end at once hangs in the kernel; it is as good as dead.
        exit_code=-signal.SIGKILL if exit_code is None else exit_code,
        stdout=stdout,
        stderr=stderr,
        stdout_bytes=pipes.stdout.seen,
        stderr_bytes=pipes.stderr.seen,
        timed_out=timed_out,
        duration_s=duration_s,
        truncated=pipes.stdout.truncated or pipes.stderr.truncated,
    )


def _not_run(
    problem: OSError | ValueError, argv: Sequence[str], *, cwd: str, duration_s: float
) -> Finished:
    """The result of a command that could not start, in the words of a shell."""
    name = argv[0] if argv else ""
    code, why, subject = CANNOT_RUN, str(problem), name
    if isinstance(problem, OSError):
        why = os.strerror(problem.errno) if problem.errno else str(problem)
        if problem.filename == cwd != name:
            subject = cwd
        elif problem.errno == errno.ENOENT:
            code, why = NOT_FOUND, "command not found"
    message = f"{subject}: {why}\n".encode(errors="replace")
    return Finished(code, b"", message, 0, len(message), timed_out=False, duration_s=duration_s)
