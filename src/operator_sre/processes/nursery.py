"""The children of a supervisor: started in sessions of their own, reaped, ended as whole trees."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO

from operator_protocols.domain.target import Process
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.processes.files import last_line
from operator_sre.processes.identity import row_of
from operator_sre.processes.run import CANNOT_RUN, NOT_FOUND
from operator_sre.processes.supervision import Child, ChildState, Orders, Supervised
from operator_sre.processes.tree import MARK, Tree

__all__ = ["PREPARE_S_MAX", "SIGNALS", "Nursery"]

PREPARE_S_MAX = 60.0
CHECK_S_MAX = 5.0
COLLECT_S_MAX = 5.0
COLLECT_POLL_S = 0.01
SIGNALS = {
    "CONT": signal.SIGCONT,
    "HUP": signal.SIGHUP,
    "KILL": signal.SIGKILL,
    "STOP": signal.SIGSTOP,
    "TERM": signal.SIGTERM,
}

log = logging.getLogger(__name__)


class _Ward:
    """One name, and the process that has it for now."""

    def __init__(self, order: Supervised, mark: str) -> None:
        self.order = order
        self.mark = mark
        self.child = Child(order.name)
        self.tree = Tree(None, mark=mark)
        self.prepared = not order.prepare
        # One change at a time, so that two restarts at once cannot leave two processes.
        self.lock = asyncio.Lock()


class Nursery:
    """Knows every child by name; `changed` is called after each start and each exit."""

    def __init__(self, orders: Orders, *, mark: str, changed: Callable[[], None]) -> None:
        # The dot at the end keeps node-1 from being the beginning of node-10.
        self._wards = {
            order.name: _Ward(order, f"{mark}.{order.name}.") for order in orders.processes
        }
        self._mark = mark
        self._changed = changed
        self._grace_s = orders.grace_s
        self._closed = False
        # Commands that end by themselves, by pid, and who waits for that.
        self._errands: dict[int, asyncio.Future[int]] = {}

    def children(self) -> tuple[Child, ...]:
        """All of them as they are."""
        return tuple(ward.child for ward in self._wards.values())

    def start_all(self) -> None:
        """Start every process that starts by default; a failed start counts as an exit."""
        for ward in self._wards.values():
            if ward.order.start:
                self._spawn(ward)

    async def start(self, name: str) -> None:
        """Start a process that does not run; leftovers of its last run are ended first."""
        ward = self._ward(name)
        async with ward.lock:
            if ward.child.state is ChildState.RUNNING:
                return
            # Run what must be done before the first start; what failed is done again next time.
            if not ward.prepared:
                order = ward.order
                ends = time.monotonic() + PREPARE_S_MAX
                for argv in order.prepare:
                    left_s = ends - time.monotonic()
                    if await self._errand(order, argv, log=order.log, seconds=left_s) != 0:
                        line = last_line(Path(order.log))
                        raise RigError(
                            f"{order.name!r} cannot be prepared: {argv[0]!r} failed. Its log "
                            f"ends with {line!r}."
                        )
                ward.prepared = True
            if ward.child.state is not ChildState.NEW:
                await self._end(ward)
            started = self._spawn(ward)
        if not started:
            raise RigError(
                f"{name!r} cannot be started; its log {ward.order.log!r} has the reason."
            )

    async def stop(self, name: str) -> None:
        """End one with its whole tree."""
        ward = self._ward(name)
        async with ward.lock:
            await self._end(ward)

    async def restart(self, name: str) -> None:
        """Stop, then start."""
        await self.stop(name)
        await self.start(name)

    async def check(self, name: str) -> None:
        """Run the command that tells whether it is ready; RigError when it is not."""
        order = self._ward(name).order
        code = await self._errand(order, order.check, log=os.devnull, seconds=CHECK_S_MAX)
        if code != 0:
            raise RigError(f"{name!r} is not ready: its check exited with {code}.")

    def signal(self, name: str, which: str) -> None:
        """Send one of the allowed signals to a running child and all that came out of it."""
        ward = self._ward(name)
        child = ward.child
        if which not in SIGNALS:
            raise RigError(
                f"The signal {which!r} is not allowed. Use one of {', '.join(sorted(SIGNALS))}."
            )
        if child.state is not ChildState.RUNNING or child.process is None:
            raise RigError(f"{name!r} is not running.")
        log.info("sending SIG%s to %s", which, name)
        # Workers may have left the group of their parent, so the whole tree is meant.
        if not ward.tree.signal(SIGNALS[which]):
            raise RigError(f"{name!r} has just exited.")

    async def end_all(self) -> None:
        """End every tree at once; nothing starts afterwards."""
        self._closed = True
        await asyncio.gather(*(self._end(ward) for ward in self._wards.values()))
        await Tree(None, mark=f"{self._mark}.").end(grace_s=self._grace_s)

    def reap(self) -> None:
        """Collect every child that ended, also the orphans that came to us."""
        running = {
            ward.child.process.pid: ward
            for ward in self._wards.values()
            if ward.child.state is ChildState.RUNNING and ward.child.process is not None
        }
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid in self._errands:
                errand = self._errands.pop(pid)
                if not errand.done():
                    errand.set_result(os.waitstatus_to_exitcode(status))
            if pid in running:
                ended = running[pid]
                exit_code = os.waitstatus_to_exitcode(status)
                child = ended.child
                log.info("%s exited with %d", child.name, exit_code)
                ended.child = Child(
                    child.name, ChildState.EXITED, child.process, exit_code, child.restarts
                )
                self._changed()

    def _ward(self, name: str) -> _Ward:
        if name not in self._wards:
            raise NotFoundError(
                f"There is no process {name!r}; there are {', '.join(self._wards)}."
            )
        return self._wards[name]

    async def _errand(
        self, order: Supervised, argv: tuple[str, ...], *, log: str, seconds: float
    ) -> int:
        """Run a command of a process to its end, with the same rights, or end its tree in time."""
        if self._closed:
            raise RigError("The supervisor is shutting down.")
        try:
            process = _popen(replace(order, argv=argv, log=log), f"{self._mark}.{order.name}.")
        except (OSError, ValueError) as problem:
            raise RigError(f"{argv[0]!r} of {order.name!r} cannot be run: {problem}.") from problem
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._errands[process.pid] = ended
        try:
            async with asyncio.timeout(seconds):
                return await ended
        except TimeoutError:
            raise RigError(
                f"{argv[0]!r} of {order.name!r} did not exit within {seconds:.1f} s."
            ) from None
        finally:
            if process.pid in self._errands:
                await Tree(process, mark="").end(grace_s=0.0)
                self.reap()

    async def _end(self, ward: _Ward) -> None:
        if not await ward.tree.end(grace_s=self._grace_s):
            log.error("%s does not stop, not even after SIGKILL", ward.order.name)
        self.reap()
        # A process can be collected only when the last of its threads is gone; until then it
        # would count as running, and a start would do nothing.
        ends = time.monotonic() + COLLECT_S_MAX
        while ward.child.state is ChildState.RUNNING and time.monotonic() < ends:
            await asyncio.sleep(COLLECT_POLL_S)
            self.reap()

    def _spawn(self, ward: _Ward) -> bool:
        """Start it if it can be started.

        There is one thread, so nothing comes between the birth of a child and its record.
        """
        if self._closed:
            raise RigError("The supervisor is shutting down.")
        order, before = ward.order, ward.child
        restarts = before.restarts + (before.state is not ChildState.NEW)
        try:
            process = _popen(order, ward.mark)
        except (OSError, ValueError) as problem:
            code = NOT_FOUND if isinstance(problem, FileNotFoundError) else CANNOT_RUN
            ward.child = Child(order.name, ChildState.EXITED, None, code, restarts)
            log.error("%s cannot be started: %s", order.name, problem)
            try:
                with _open_log(order) as output:
                    output.write(f"{order.name} cannot be started: {problem}\n".encode())
            except OSError as failure:
                log.warning("%s has no log: %s", order.name, failure)
            self._changed()
            return False
        ward.tree = Tree(process, mark=ward.mark)
        ward.child = Child(order.name, ChildState.RUNNING, process, None, restarts)
        log.info("%s started with pid %d", order.name, process.pid)
        self._changed()
        return True


def _popen(order: Supervised, mark: str) -> Process:
    inherited = {name: os.environ[name] for name in order.inherits if name in os.environ}
    with _open_log(order) as output:
        popen = subprocess.Popen(
            order.argv,
            cwd=order.cwd,
            env={**inherited, **order.env, MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=order.uid,
            group=order.gid,
            extra_groups=None if order.uid is None else [],
        )
    # We reap by ourselves; the object must not believe that it still has to.
    popen.returncode = 0
    row = row_of(popen.pid)
    return row.process if row is not None else Process(popen.pid, time.time())


def _open_log(order: Supervised) -> IO[bytes]:
    """Open a log as the user who owns its directory, who could have put anything there."""
    if order.uid is None or order.gid is None:
        return Path(order.log).open("ab")
    group = os.getegid()
    os.setegid(order.gid)
    os.seteuid(order.uid)
    try:
        return Path(order.log).open("ab")
    finally:
        os.seteuid(os.getuid())
        os.setegid(group)
