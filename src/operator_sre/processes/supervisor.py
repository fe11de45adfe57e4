"""The long-lived parent of a rig's processes: it starts, reaps and records them, and never heals.

Run as `python -m operator_sre.processes.supervisor DIRECTORY [--owned]`. A child that dies stays
dead until a request starts it, because an automatic restart would hide the fault. Detached, it
outlives its starter; owned, the end of its standard input means `down`.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
import shutil
import signal
import sys
import time
from pathlib import Path

from operator_protocols.errors import OperatorError, RigError
from operator_sre.processes.background import adopt_orphans, detach
from operator_sre.processes.identity import alive, process_of, tree_of
from operator_sre.processes.mounts import enter_namespace, unmount_below
from operator_sre.processes.nursery import Nursery
from operator_sre.processes.server import Server
from operator_sre.processes.supervision import (
    LOG_FILE,
    SUPERVISE_FILE,
    Orders,
    Supervision,
    read_orders,
    read_state,
    write_state,
)
from operator_sre.processes.tree import send

__all__ = ["Supervisor", "main"]

VANISHED_POLL_S = 1.0
ORPHANS_S_MAX = 5.0
ORPHANS_POLL_S = 0.01
STDIN = 0

log = logging.getLogger(__name__)


class Supervisor:
    """Everything of one directory, in one thread."""

    def __init__(
        self, directory: Path, orders: Orders, *, owned: bool, unmounted: str = ""
    ) -> None:
        me = process_of(os.getpid())
        if me is None:
            raise RigError("The supervisor cannot see its own process.")
        self._me = me
        self._directory = directory
        self._owned = owned
        self._unmounted = unmounted
        self._removes = orders.removes
        self._mark = secrets.token_hex(8)
        self._over = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._nursery = Nursery(orders, mark=self._mark, changed=self._record)
        self._server = Server(directory, nursery=self._nursery, down=self.down, state=self.state)

    def state(self) -> Supervision:
        """What is so now."""
        children = self._nursery.children()
        return Supervision(self._me, self._server.path, self._mark, children, self._unmounted)

    async def serve(self) -> None:
        """Run until `down`, a signal, the end of the owner, or the end of the directory."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._nursery.reap)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._begin_down)
        if self._owned:
            loop.add_reader(STDIN, self._owner_spoke)
        await self._server.open()
        # The mark is on disk before the first child is born, so that none can be lost.
        self._record()
        self._nursery.start_all()
        watch = asyncio.create_task(self._watch_directory())
        await self._over.wait()
        watch.cancel()
        await self._server.close()
        log.info("stopped")

    async def down(self) -> None:
        """End every child and all that came out of them; then `serve` returns."""
        self._begin_down()
        if self._ending is not None:
            await self._ending

    def _begin_down(self) -> None:
        if self._ending is None:
            self._ending = asyncio.create_task(self._end())

    async def _end(self) -> None:
        log.info("shutting down")
        await self._nursery.end_all()
        # Orphans come to us, so even a hidden one is our descendant. Each is gone before
        # its files are removed, because a dying process may still be writing one.
        ends = time.monotonic() + ORPHANS_S_MAX
        while (orphans := tree_of(os.getpid())) and time.monotonic() < ends:
            for orphan in orphans:
                send(orphan, signal.SIGKILL)
            await asyncio.sleep(ORPHANS_POLL_S)
            self._nursery.reap()
        self._nursery.reap()
        # Everything is unmounted and removed, because our owner may be dead.
        try:
            unmount_below([self._directory, *map(Path, self._removes)])
        except OSError as problem:
            log.warning("cannot unmount: %s", problem)
        else:
            for place in self._removes:
                shutil.rmtree(place, ignore_errors=True)
        self._over.set()

    def _owner_spoke(self) -> None:
        if not os.read(STDIN, 4096):
            asyncio.get_running_loop().remove_reader(STDIN)
            log.info("the owner has exited")
            self._begin_down()

    async def _watch_directory(self) -> None:
        """Shut down when the directory is gone, because then no request can reach us."""
        while self._ending is None:
            await asyncio.sleep(VANISHED_POLL_S)
            if not (self._directory / SUPERVISE_FILE).exists():
                log.warning("the directory was removed")
                self._begin_down()

    def _record(self) -> None:
        try:
            write_state(self._directory, self.state())
        except OSError as problem:
            # The children matter more than the record; a lost directory is watched for elsewhere.
            log.warning("cannot record: %s", problem)


def main() -> int:
    """Supervise one directory until `down`."""
    parser = argparse.ArgumentParser(prog="supervisor", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--owned", action="store_true")
    options = parser.parse_args()
    directory = options.directory.resolve()
    logging.basicConfig(
        filename=directory / LOG_FILE,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
    )
    try:
        # Read the orders before we detach, while the starter still sees a failure.
        before = read_state(directory)
        if before is not None and alive(before.supervisor):
            raise RigError(
                f"{str(directory)!r} already has a supervisor (pid {before.supervisor.pid})."
            )
        orders = read_orders(directory)
        os.chdir("/")
        if not options.owned:
            detach()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        adopt_orphans()
        # Before there is any thread, because afterwards the kernel refuses.
        unmounted = enter_namespace(orders.volumes) if orders.volumes else ""
        supervisor = Supervisor(directory, orders, owned=options.owned, unmounted=unmounted)
        asyncio.run(supervisor.serve())
    except OperatorError as problem:
        log.critical("%s", problem)
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
