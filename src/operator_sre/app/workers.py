"""Workers: processes, identified by machine, pid and PID namespace."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.worker import Worker
from operator_protocols.errors import OperatorError, UsageError
from operator_sre import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operator_sre.app.wiring import App

__all__ = ["WorkerView", "introduce_worker", "is_gone", "list_workers", "stay_known", "this_worker"]

NAMESPACE = Path("/proc/self/ns/pid")
BEAT_S = 5.0
# Who has missed several beats is not there any more, or cannot reach the store.
SILENT_S = 20.0
NAME_CHARS_MAX = 64
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A worker for display, with the tickets that it holds."""

    worker: Worker
    speaks: bool
    tickets: tuple[int, ...]


def list_workers(app: App) -> Sequence[WorkerView]:
    """Everybody who has not left, with what they work on; who spoke last comes first."""
    now = app.clock.now()
    held: dict[str, list[int]] = {}
    for ticket in app.store.tickets.find(states=(TicketState.CLAIMED,)):
        held.setdefault(ticket.worker, []).append(ticket.id)
    return [
        WorkerView(
            worker=worker,
            speaks=(now - worker.at).total_seconds() < SILENT_S,
            tickets=tuple(sorted(held.get(worker.id, ()))),
        )
        for worker in app.store.workers.find()
    ]


def introduce_worker(app: App, *, engine: str, name: str = "", role: str = "worker") -> Worker:
    """This process as a worker."""
    host = socket.gethostname()
    called = name or host
    if not called.isprintable() or ":" in called or len(called) > NAME_CHARS_MAX:
        raise UsageError(
            f"{called[:NAME_CHARS_MAX]!r} is not a valid name of a worker.",
            next_step=f"Use up to {NAME_CHARS_MAX} letters, without a colon.",
        )
    now = app.clock.now()
    # Numbers of processes are used again, and every container has the same ones.
    unique = f"{called}:{os.getpid()}-{secrets.token_hex(4)}"
    return Worker(unique, called, host, os.getpid(), engine, __version__, now, now, role)


async def stay_known(app: App, me: Worker) -> None:
    """Say again and again that we are here, so that silence means that we are not."""
    try:
        while True:
            try:
                await app.store.workers.beat(replace(me, at=app.clock.now()))
            except OperatorError as error:  # the store may be back at the next beat
                log.error("cannot register the worker: %s", error)
            await app.clock.sleep(BEAT_S)
    finally:
        try:
            await asyncio.shield(app.store.workers.leave(me.id))
        except OperatorError as error:
            log.error("cannot unregister the worker: %s", error)


def this_worker() -> str:
    """The name of this process among all that run workflows."""
    return f"{socket.gethostname()}:{os.getpid()}:{_namespace()}"


def is_gone(worker: str) -> bool:
    """True when it was a process of this machine, seen from here, that is no more."""
    host, _, rest = worker.partition(":")
    pid, _, namespace = rest.partition(":")
    if (host, namespace) != (socket.gethostname(), _namespace()) or not namespace:
        return False  # on another machine, or unknown: its lease decides
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return True
    except OSError:
        return False  # alive, of another user
    return False


def _namespace() -> str:
    """Two containers may have the same name, and the same number means another process there."""
    try:
        return str(NAMESPACE.readlink()).strip("pid:[]")
    except OSError:
        return ""
