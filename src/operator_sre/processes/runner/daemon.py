"""The runner itself. Run as `python -m operator_sre.processes.runner.daemon FOLDER`.

One for each folder: it holds a lock, answers on a socket beside it, and exits when idle.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from operator_protocols.domain.target import Process
from operator_sre.processes.background import adopt_orphans, detach
from operator_sre.processes.identity import row_of
from operator_sre.processes.runner.job import Orphan, RunnerJob
from operator_sre.processes.runner.keeper import Keeper
from operator_sre.processes.runner.places import LOCK, LOG, SOCKET, listens, peer_of, reachable
from operator_sre.processes.runner.records import (
    Claim,
    Records,
    boot_id,
    mark_of,
    output_folder,
    own_children,
    pipes_of,
)
from operator_sre.processes.runner.wire import (
    LINE_BYTES_MAX,
    PROTOCOL,
    Attach,
    Begin,
    Done,
    End,
    Event,
    Leave,
    More,
    Order,
    Prepare,
    Request,
    Started,
    Unknown,
    decode_request,
    encode,
)
from operator_sre.processes.tree import MARK, environment_of

__all__ = ["Runner", "listening_socket", "main"]

CLIENTS_MAX = 1024
JOBS_MAX = 256
FILES_MAX = 4096
TIDY_S = 3600.0
# So many ended jobs count as possible origins of an orphan; start times have a resolution of
# a hundredth of a second.
PAST_MAX, CLOCK_S = 4096, 0.02
LOCK_S_MAX = 10.0
# How often a follower of a job hears about more output.
TELL_S = 0.02
# Until then only its mark is known to others.
NOTED_AFTER_S = 0.02
BUFFER_BYTES_MAX = 1024 * 1024

log = logging.getLogger(__name__)


class _Client(asyncio.Protocol):
    """One connection, and the job that is prepared on it. Each line of it is a request."""

    transport: asyncio.Transport

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self.prepared: RunnerJob | None = None
        self._heard = bytearray()
        self._greeting = PROTOCOL.encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Only the user whose runner this is, and root, may ask."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if not self._runner.welcome(self, peer_of(transport.get_extra_info("socket"))):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Do what is asked; a client that says something else is disconnected."""
        searched = len(self._heard)
        self._heard += data
        try:
            while (end := self._heard.find(b"\n", searched)) >= 0 and not self.is_gone:
                line = bytes(self._heard[:end])
                del self._heard[: end + 1]
                searched = 0
                self._runner.do(decode_request(line), self)
            if len(self._heard) > LINE_BYTES_MAX:
                raise ValueError("a request is too long")
        except (OSError, ValueError, msgspec.MsgspecError) as problem:
            log.warning("a client disconnected: %s", problem)
            self.transport.abort()

    def connection_lost(self, problem: Exception | None) -> None:
        """What was prepared for it does not start."""
        self._runner.part(self)

    def tell(self, event: Event) -> None:
        """Send an event, unless the client is gone; the first one carries the version."""
        if self.is_gone:
            return
        self.transport.write(self._greeting + encode(event))
        self._greeting = b""
        if self.transport.get_write_buffer_size() > BUFFER_BYTES_MAX:
            self.transport.abort()  # it asks and does not listen

    @property
    def is_gone(self) -> bool:
        """Whether it hears nothing more."""
        return self.transport.is_closing()

    @property
    def slow(self) -> bool:
        """It has not heard the last things yet."""
        return self.transport.get_write_buffer_size() > 0


class Runner:
    """Every job of one folder, in one thread."""

    def __init__(self, folder: Path, *, idle_s: float) -> None:
        self._idle_s = idle_s
        self._records = Records(folder)
        self._keeper = Keeper(folder)
        self._jobs: dict[str, RunnerJob] = {}
        self._roots: dict[int, RunnerJob] = {}
        self._orphans: dict[str, Orphan] = {}
        self._waiting: dict[str, list[tuple[_Client, bool]]] = {}
        self._clients: set[_Client] = set()
        self._held: list[RunnerJob] = []
        self._telling: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._past: deque[tuple[float, float]] = deque(maxlen=PAST_MAX)
        self._tidied = time.monotonic()
        self._over = asyncio.Event()

    async def serve(self, listener: socket.socket) -> None:
        """Answer requests until the runner has been idle for a while."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leave_soon)
        # What an earlier runner left without an end.
        for claim in self._records.live():
            log.warning("job %s lost its runner", claim.id[:12])
            if claim.boot != boot_id():
                self._end(
                    Done(claim.id, None, error="The machine was restarted while the command ran.")
                )
                continue
            orphan = Orphan(claim.id, claim.process, ends_at=claim.ends_at, grace_s=claim.grace_s)
            self._orphans[claim.id] = orphan
            self._keep(self._outlive(orphan))
        # Not `create_unix_server`: since Python 3.13 it looks up the path the socket was bound to,
        # and in a deep folder that path led through a descriptor that is closed by now.
        server = await loop.create_server(lambda: _Client(self), sock=listener)
        idle = asyncio.create_task(self._leave_when_idle())
        await self._over.wait()
        server.close()
        idle.cancel()
        self._keeper.close()
        self._records.close()

    async def _outlive(self, orphan: Orphan) -> None:
        done = await orphan.wait()
        del self._orphans[orphan.id]
        self._end(done)

    def welcome(self, client: _Client, user: int | None) -> bool:
        """Whether a new client may ask."""
        if len(self._clients) >= CLIENTS_MAX or user not in (None, 0, os.getuid()):
            return False
        self._clients.add(client)
        return True

    def part(self, client: _Client) -> None:
        """A client is gone. Without clients, jobs that must not run alone end."""
        self._clients.discard(client)
        if client.prepared is not None:
            client.prepared.drop()
        for job, waiting in self._waiting.items():
            left = [each for each in waiting if each[0] is not client]
            runner_job = self._jobs.get(job)
            if waiting and not left and runner_job is not None and runner_job.order.ends_alone:
                runner_job.cancel()
            waiting[:] = left

    def do(self, request: Request, client: _Client) -> None:
        """Do what a client asks."""
        if self._over.is_set():  # the client finds another runner, which knows all of this
            client.transport.close()
            return
        prepared, client.prepared = client.prepared, None
        if prepared is not None and not (
            isinstance(request, Begin) and request.id == prepared.order.id
        ):
            prepared.drop()
            prepared = None
        match request:
            case Prepare():
                client.prepared = self._create_job(request.order)
                client.prepared.prepare()
            case Begin():
                if prepared is None:
                    raise ValueError("it starts a job that was not prepared")
                self._begin(prepared.order, client, prepared)
            case Order():
                self._begin(request, client)
            case Attach():
                self._attach(request.id, client, follows=request.follows)
            case Leave():
                self._leave_soon()
            case End():
                if runner_job := self._jobs.get(request.id):
                    runner_job.cancel()
                elif orphan := self._orphans.get(request.id):
                    self._keep(orphan.end())

    def _create_job(self, order: Order) -> RunnerJob:
        return RunnerJob(
            order,
            output_folder(self._records.folder, order.id),
            strays=self._strays,
            hold=self._keeper.hold,
            spoke=self._note_output,
            over=self._finish_job,
        )

    def _begin(self, order: Order, client: _Client, prepared: RunnerJob | None = None) -> None:
        ends_at = time.time() + order.timeout_s
        claim = Claim(order.id, boot_id(), ends_at, order.grace_s)
        try:
            if self._records.has_begun(order.id):
                if prepared is not None:
                    prepared.drop()
                self._attach(order.id, client, follows=order.follows)
                return
            if len(self._jobs) >= JOBS_MAX:
                raise OSError(f"{JOBS_MAX} commands are running already")
            self._records.claim(claim)
        except (OSError, ValueError) as problem:
            if prepared is not None:
                prepared.drop()
            why = f"The command cannot be started: {problem}."
            client.tell(Done(order.id, None, error=why, refused=True))
            return
        runner_job = prepared or self._create_job(order)
        self._jobs[order.id] = runner_job
        self._waiting[order.id] = [(client, order.follows)]
        runner_job.start()
        if runner_job.pid is not None:
            self._roots[runner_job.pid] = runner_job
            asyncio.get_running_loop().call_later(NOTED_AFTER_S, self._note, runner_job, claim)

    def _note(self, runner_job: RunnerJob, claim: Claim) -> None:
        """Record its process, and report it; a job that ends at once needs neither."""
        order = runner_job.order
        if self._jobs.get(order.id) is not runner_job or runner_job.process is None:
            return
        try:
            self._records.note(msgspec.structs.replace(claim, process=runner_job.process))
        except OSError as problem:  # its mark is enough to find it by
            log.error("cannot record a process: %s", problem)
        for client, _ in self._waiting.get(order.id, ()):
            client.tell(Started(order.id, runner_job.process))

    def _attach(self, job: str, client: _Client, *, follows: bool) -> None:
        if job in self._jobs or job in self._orphans:
            self._waiting.setdefault(job, []).append((client, follows))
            runner_job = self._jobs.get(job)
            if runner_job is not None and runner_job.process is not None:
                client.tell(Started(job, runner_job.process))
            if follows:
                client.tell(More(job))
        elif done := self._records.outcome_of(job):
            client.tell(done)
        elif self._records.forbid(job):
            client.tell(Unknown(job, self._records.since()))
        else:
            client.tell(Done(job, None, error="The recorded outcome can no longer be read."))

    def _note_output(self, runner_job: RunnerJob) -> None:
        job = runner_job.order.id
        if job in self._telling or not any(follows for _, follows in self._waiting.get(job, ())):
            return
        self._telling.add(job)
        asyncio.get_running_loop().call_later(TELL_S, self._tell_more, job)

    def _tell_more(self, job: str) -> None:
        self._telling.discard(job)
        for client, follows in self._waiting.get(job, ()):
            if follows and not client.slow:
                client.tell(More(job))

    def _finish_job(self, runner_job: RunnerJob, done: Done) -> None:
        self._jobs.pop(runner_job.order.id, None)
        self._past.append(runner_job.lifetime)
        if runner_job.pid is not None:
            self._roots.pop(runner_job.pid, None)
        if runner_job.holds:
            self._held.append(runner_job)
        self._end(done)

    def _end(self, done: Done) -> None:
        try:
            self._records.finish(done)
        except OSError as problem:
            # Waiting clients still get the outcome; later ones will find it unknown.
            log.error("cannot record an outcome: %s", problem)
        for client, _ in self._waiting.pop(done.id, ()):
            client.tell(done)

    def _reap(self) -> None:
        """Collect every child that ended, also the orphans that came to us."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if runner_job := self._roots.get(pid):
                runner_job.note_exit(status, usage)

    def _strays(self, runner_job: RunnerJob) -> Iterable[Process]:
        """The orphans of this job: by session, mark or pipe, or as the only candidate."""
        found: list[Process] = []
        if runner_job.is_confined:  # it cannot leave its session
            for pid in own_children() - {runner_job.pid}:
                try:
                    session_of = os.getsid(pid)
                except OSError:
                    session_of = 0
                row = row_of(pid) if session_of == runner_job.pid else None
                found += [row.process] if row is not None and not row.dead else []
            return found
        for pid in self._keeper.without_cells(own_children() - self._roots.keys()):
            row = row_of(pid)
            if row is None or row.dead:
                continue
            if row.session == runner_job.pid or self._belongs(runner_job, row.process):
                found.append(row.process)
        return found

    def _belongs(self, runner_job: RunnerJob, stray: Process) -> bool:
        """It carries the mark of the job, or dropped it while only this job can be its origin."""
        environment = environment_of(stray.pid)
        if f"{MARK}=".encode() in environment:
            return f"{MARK}={mark_of(runner_job.order.id)}".encode() in environment
        return bool(pipes_of(stray.pid) & runner_job.inodes) or self._only_candidate(
            runner_job, stray
        )

    def _only_candidate(self, runner_job: RunnerJob, stray: Process) -> bool:
        """The only job that could have started it; ended jobs count as well."""
        born = stray.started

        def could(lifetime: tuple[float, float]) -> bool:
            return lifetime[0] - CLOCK_S <= born <= lifetime[1] + CLOCK_S

        mine = runner_job.lifetime
        others = [job.lifetime for job in self._jobs.values() if job is not runner_job]
        others += [job for job in self._past if job != mine]
        return could(mine) and not any(map(could, others))

    async def _leave_when_idle(self) -> None:
        idle_since = time.monotonic()
        while True:
            await asyncio.sleep(1.0)
            self._held = [runner_job for runner_job in self._held if runner_job.holds]
            busy = self._jobs or self._orphans or self._held or (self._clients and self._idle_s)
            if busy and self._records.folder.exists():
                idle_since = time.monotonic()
            if time.monotonic() - self._tidied > TIDY_S:
                self._tidied = time.monotonic()
                with contextlib.suppress(OSError):  # there may be room again in an hour
                    self._records.tidy()
            vanished = not self._records.folder.exists() and not self._jobs
            if vanished or time.monotonic() - idle_since > self._idle_s:
                self._over.set()

    def _leave_soon(self) -> None:
        """A signal to the runner does not end its jobs: the runner enforces their limits."""
        self._idle_s = 0.0
        if not (self._jobs or self._orphans or self._held):
            self._over.set()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _take_lock(folder: Path) -> int | None:
    """The lock that only one runner has; None when another has it."""
    fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    ends = time.monotonic() + LOCK_S_MAX
    while True:  # the one before us may be about to leave
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > ends or listens(folder):
                os.close(fd)
                return None
            time.sleep(0.01)
        else:
            return fd


def listening_socket(folder: Path) -> socket.socket:
    """Where the runner of a folder is asked."""
    (folder / SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with reachable(folder) as path:
        listener.bind(path)
    (folder / SOCKET).chmod(0o600)
    listener.listen(128)
    return listener


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until idle."""
    parser = argparse.ArgumentParser(prog="runner", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--idle-s", type=float, required=True)
    parser.add_argument("--ready", type=int, required=True)
    options = parser.parse_args(arguments)
    folder = options.folder.resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    logging.basicConfig(
        filename=folder / LOG, level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s"
    )
    os.chdir("/")
    detach()
    lock = _take_lock(folder)
    if lock is None:
        return 0
    # Not ignored, because commands would inherit that.
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    # Room for the pipes of many commands.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    adopt_orphans()
    listener = listening_socket(folder)
    os.close(options.ready)
    try:
        asyncio.run(Runner(folder, idle_s=options.idle_s).serve(listener))
    finally:
        with contextlib.suppress(OSError):
            (folder / SOCKET).unlink(missing_ok=True)
        os.close(lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
