"""The runner itself. Run as `python -m operator_sre.processes.runner.daemon FOLDER`.

One for each folder: it holds a lock, answers on a socket beside it, and goes when nobody needs it.
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
from operator_sre.processes.detaching import adopt_orphans, detach
from operator_sre.processes.identity import row_of
from operator_sre.processes.runner.deed import Deed, Orphan
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
    Done,
    End,
    Event,
    Leave,
    More,
    Order,
    Request,
    Started,
    Unknown,
    decode_request,
    encode,
)
from operator_sre.processes.tree import MARK, environment_of

__all__ = ["Runner", "listening_socket", "main"]

CLIENTS_MAX = 1024
DEEDS_MAX = 256
FILES_MAX = 4096
TIDY_S = 3600.0
# So many that are over count among those that could have left an orphan; start times are told in
# hundredths of a second.
PAST_MAX, CLOCK_S = 4096, 0.02
LOCK_S_MAX = 10.0
# How often whoever follows a job hears that there is more.
TELL_S = 0.02
# Until then only its mark is known to others.
NOTED_AFTER_S = 0.02
BUFFER_BYTES_MAX = 1024 * 1024

log = logging.getLogger(__name__)


class _Client:
    """One connection, and what it waits for."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._greeting = PROTOCOL.encode()

    def tell(self, event: Event) -> None:
        """Say it, unless nobody listens any more; at first, in which version."""
        if self.writer.is_closing():
            return
        self.writer.write(self._greeting + encode(event))
        self._greeting = b""
        if self.writer.transport.get_write_buffer_size() > BUFFER_BYTES_MAX:
            self.writer.transport.abort()  # it asks and does not listen

    @property
    def slow(self) -> bool:
        """It has not heard the last things yet."""
        return self.writer.transport.get_write_buffer_size() > 0


class Runner:
    """Every job of one folder, in one thread."""

    def __init__(self, folder: Path, *, idle_s: float) -> None:
        self._idle_s = idle_s
        self._records = Records(folder)
        self._keeper = Keeper(folder)
        self._deeds: dict[str, Deed] = {}
        self._roots: dict[int, Deed] = {}
        self._orphans: dict[str, Orphan] = {}
        self._waiting: dict[str, list[tuple[_Client, bool]]] = {}
        self._clients: set[_Client] = set()
        self._held: list[Deed] = []
        self._telling: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._past: deque[tuple[float, float]] = deque(maxlen=PAST_MAX)
        self._tidied = time.monotonic()
        self._over = asyncio.Event()

    async def serve(self, listener: socket.socket) -> None:
        """Answer until nobody has needed us for a while."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leave_soon)
        # What an earlier runner left without an end.
        for claim in self._records.live():
            log.warning("job %s has lost its runner", claim.id[:12])
            if claim.boot != boot_id():
                self._end(Done(claim.id, None, error="The machine was restarted while it ran."))
                continue
            orphan = Orphan(claim.id, claim.process, ends_at=claim.ends_at, grace_s=claim.grace_s)
            self._orphans[claim.id] = orphan
            self._keep(self._outlive(orphan))
        # Not `start_unix_server`: since Python 3.13 it looks up the path the socket was bound to,
        # and in a deep folder that path led through a descriptor that is closed by now.
        server = await asyncio.start_server(self._welcome, sock=listener, limit=LINE_BYTES_MAX)
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

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Only the user whose runner this is, and root.
        if len(self._clients) >= CLIENTS_MAX or peer_of(writer.get_extra_info("socket")) not in (
            None,
            0,
            os.getuid(),
        ):
            writer.close()
            return
        client = _Client(writer)
        self._clients.add(client)
        try:
            while line := await reader.readline():
                if self._over.is_set():  # whoever asks finds another, which knows all of this
                    break
                self._do(decode_request(line), client)
        except (OSError, ValueError, msgspec.MsgspecError) as problem:
            log.warning("a client went away: %s", problem)
        finally:
            self._clients.discard(client)
            # Nobody is told any more, and what is not to run alone ends.
            for job, waiting in self._waiting.items():
                left = [one for one in waiting if one[0] is not client]
                deed = self._deeds.get(job)
                if waiting and not left and deed is not None and deed.order.ends_alone:
                    deed.cancel()
                waiting[:] = left
            writer.close()

    def _do(self, request: Request, client: _Client) -> None:
        match request:
            case Order():
                self._begin(request, client)
            case Attach():
                self._attach(request.id, client, follows=request.follows)
            case Leave():
                self._leave_soon()
            case End():
                if deed := self._deeds.get(request.id):
                    deed.cancel()
                elif orphan := self._orphans.get(request.id):
                    self._keep(orphan.end())

    def _begin(self, order: Order, client: _Client) -> None:
        ends_at = time.time() + order.timeout_s
        claim = Claim(order.id, boot_id(), ends_at, order.grace_s)
        try:
            if self._records.begun(order.id):
                self._attach(order.id, client, follows=order.follows)
                return
            if len(self._deeds) >= DEEDS_MAX:
                raise OSError(f"{DEEDS_MAX} commands run already")
            self._records.claim(claim)
        except (OSError, ValueError) as problem:
            why = f"It cannot be begun: {problem}."
            client.tell(Done(order.id, None, error=why, refused=True))
            return
        folder = output_folder(self._records.folder, order.id)
        deed = Deed(
            order,
            folder,
            strays=self._strays,
            hold=self._keeper.hold,
            said=self._said,
            over=self._ended,
        )
        self._deeds[order.id] = deed
        self._waiting[order.id] = [(client, order.follows)]
        deed.start()
        if deed.pid is not None:
            self._roots[deed.pid] = deed
            asyncio.get_running_loop().call_later(NOTED_AFTER_S, self._note, deed, claim)

    def _note(self, deed: Deed, claim: Claim) -> None:
        """Write its process down, and tell it; what is over at once needs neither."""
        order = deed.order
        if self._deeds.get(order.id) is not deed or deed.process is None:
            return
        try:
            self._records.note(msgspec.structs.replace(claim, process=deed.process))
        except OSError as problem:  # its mark is enough to find it by
            log.error("cannot note a process: %s", problem)
        for client, _ in self._waiting.get(order.id, ()):
            client.tell(Started(order.id, deed.process))

    def _attach(self, job: str, client: _Client, *, follows: bool) -> None:
        if job in self._deeds or job in self._orphans:
            self._waiting.setdefault(job, []).append((client, follows))
            deed = self._deeds.get(job)
            if deed is not None and deed.process is not None:
                client.tell(Started(job, deed.process))
            if follows:
                client.tell(More(job))
        elif done := self._records.done(job):
            client.tell(done)
        elif self._records.forbid(job):
            client.tell(Unknown(job, self._records.since()))
        else:
            client.tell(Done(job, None, error="What became of it cannot be read any more."))

    def _said(self, deed: Deed) -> None:
        job = deed.order.id
        if job in self._telling or not any(follows for _, follows in self._waiting.get(job, ())):
            return
        self._telling.add(job)
        asyncio.get_running_loop().call_later(TELL_S, self._tell_more, job)

    def _tell_more(self, job: str) -> None:
        self._telling.discard(job)
        for client, follows in self._waiting.get(job, ()):
            if follows and not client.slow:
                client.tell(More(job))

    def _ended(self, deed: Deed, done: Done) -> None:
        self._deeds.pop(deed.order.id, None)
        self._past.append(deed.lifetime)
        if deed.pid is not None:
            self._roots.pop(deed.pid, None)
        if deed.holds:
            self._held.append(deed)
        self._end(done)

    def _end(self, done: Done) -> None:
        try:
            self._records.finish(done)
        except OSError as problem:
            # Whoever waits is told all the same; whoever comes later will find it unknown.
            log.error("cannot record an end: %s", problem)
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
            if deed := self._roots.get(pid):
                deed.exited(status, usage)

    def _strays(self, deed: Deed) -> Iterable[Process]:
        """Orphans that came to us out of this deed: by session, mark or pipe, or by nobody else."""
        found: list[Process] = []
        if deed.is_confined:  # it cannot leave its session
            for pid in own_children() - {deed.pid}:
                row = row_of(pid) if _session_of(pid) == deed.pid else None
                found += [row.process] if row is not None and not row.dead else []
            return found
        for pid in self._keeper.without_cells(own_children() - self._roots.keys()):
            row = row_of(pid)
            if row is None or row.dead:
                continue
            if row.session == deed.pid or self._belongs(deed, row.process):
                found.append(row.process)
        return found

    def _belongs(self, deed: Deed, stray: Process) -> bool:
        """It carries the deed's mark, or threw its mark away while nobody else can be meant."""
        environment = environment_of(stray.pid)
        if f"{MARK}=".encode() in environment:
            return f"{MARK}={mark_of(deed.order.id)}".encode() in environment
        return bool(pipes_of(stray.pid) & deed.inodes) or self._only_candidate(deed, stray)

    def _only_candidate(self, deed: Deed, stray: Process) -> bool:
        """Of all that could have borne it, this one alone; those that are over count as well."""
        born = stray.started

        def could(lifetime: tuple[float, float]) -> bool:
            return lifetime[0] - CLOCK_S <= born <= lifetime[1] + CLOCK_S

        mine = deed.lifetime
        others = [one.lifetime for one in self._deeds.values() if one is not deed]
        others += [one for one in self._past if one != mine]
        return could(mine) and not any(map(could, others))

    async def _leave_when_idle(self) -> None:
        idle_since = time.monotonic()
        while True:
            await asyncio.sleep(1.0)
            self._held = [deed for deed in self._held if deed.holds]
            busy = self._deeds or self._orphans or self._held or (self._clients and self._idle_s)
            if busy and self._records.folder.exists():
                idle_since = time.monotonic()
            if time.monotonic() - self._tidied > TIDY_S:
                self._tidied = time.monotonic()
                with contextlib.suppress(OSError):  # there may be room again in an hour
                    self._records.tidy()
            vanished = not self._records.folder.exists() and not self._deeds
            if vanished or time.monotonic() - idle_since > self._idle_s:
                self._over.set()

    def _leave_soon(self) -> None:
        """Whoever ends us does not end what runs: its limits are ours to hold."""
        self._idle_s = 0.0
        if not (self._deeds or self._orphans or self._held):
            self._over.set()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0


def _locked(folder: Path) -> int | None:
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
    """Run until nobody needs us."""
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
    lock = _locked(folder)
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
        asyncio.run(_serve(folder, listener, options.idle_s))
    finally:
        with contextlib.suppress(OSError):
            (folder / SOCKET).unlink(missing_ok=True)
        os.close(lock)
    return 0


async def _serve(folder: Path, listener: socket.socket, idle_s: float) -> None:
    await Runner(folder, idle_s=idle_s).serve(listener)


if __name__ == "__main__":
    sys.exit(main())
