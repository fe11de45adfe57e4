"""Listeners: on this machine by default; beyond it only if confirmed, with TLS."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from operator_protocols.domain.action import Action
from operator_protocols.domain.confirmation import Boundary
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.verdict import Risk
from operator_protocols.domain.watcher import Worker
from operator_protocols.errors import OperatorError, UsageError
from operator_sre import __version__
from operator_sre.app.confirmations import Asked, Crossing
from operator_sre.codec import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operator_sre.app.wiring import App

__all__ = [
    "CROSSING",
    "Listener",
    "WorkerView",
    "command_asked",
    "exposure_of",
    "introduce_worker",
    "is_gone",
    "is_loopback",
    "list_workers",
    "listener_asked",
    "stay_known",
    "this_worker",
]

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


# What only an admin may say yes to.
_ADMIN_DEEDS = {
    Boundary.EXPOSED_LISTENER: "open a listener to the network",
    # A value that has been given out stays known; binding one requires an admin as well.
    Boundary.DIRECT_LEASE: "let a command have a credential",
}
CROSSING = Crossing(admin_action=lambda confirmation: _ADMIN_DEEDS.get(confirmation.boundary, ""))


@dataclass(frozen=True, slots=True)
class Listener:
    """An address, how it is protected, and the names that it is reached by."""

    bind: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None
    hosts: tuple[str, ...] = ()
    rate: int = 100
    insecure: bool = False

    @property
    def tls(self) -> bool:
        """True when the traffic is encrypted."""
        return self.tls_cert is not None and self.tls_key is not None

    @property
    def scheme(self) -> str:
        """How its address begins."""
        return "https" if self.tls else "http"

    @property
    def public(self) -> bool:
        """True when others than this machine can reach it."""
        return not is_loopback(self.bind)


def is_loopback(host: str) -> bool:
    """True for an address that only this machine can reach."""
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def exposure_of(listener: Listener, server: str = "the API") -> Asked | None:
    """The change to confirm before a listener opens; UsageError when it may not open at all."""
    if (listener.tls_cert is None) is not (listener.tls_key is None):
        raise UsageError(
            "--tls-cert and --tls-key must be used together.", next_step="Name both files."
        )
    for file in (listener.tls_cert, listener.tls_key):
        if file is not None and not file.is_file():
            raise UsageError(f"There is no file {str(file)!r}.", next_step="Name a PEM file.")
    if not listener.public:
        return None
    if not listener.tls and not listener.insecure:
        raise UsageError(
            f"{listener.bind!r} is not a loopback address, and tokens would be unencrypted.",
            next_step="Add --tls-cert and --tls-key, or accept it with --insecure-public.",
        )
    return listener_asked(server, bind=listener.bind, port=listener.port, tls=listener.tls)


def listener_asked(server: str, *, bind: str, port: int, tls: bool) -> Asked:
    """The change to confirm before other machines can reach a server; opening it uses it.

    The caller requests it with `cross`, and passes the id of the confirmation later.
    """
    how = "with TLS" if tls else "without TLS, so that the network can read the traffic"
    where = f"[{bind}]:{port}" if ":" in bind else f"{bind}:{port}"
    return Asked(
        Boundary.EXPOSED_LISTENER,
        {"what": server, "bind": bind, "port": port, "tls": tls},
        Risk.HIGH,
        f"{server} becomes reachable from other machines at {where}, {how}.",
        destinations=(where,),
    )


def command_asked(
    action: Action, *, target: str, identity: str, policy: str, rationale: str
) -> Asked:
    """The same for one command that destroys something: it, where it runs, and on what.

    `identity` tells the target from a later one of the same name, `policy` is the digest of what
    the command was judged by; a yes counts for no other.
    """
    change = {
        "command": action.command,
        "action": action.digest,
        "arguments": to_json(action.arguments),
        "cwd": action.cwd,
        "target": target,
    }
    return Asked(
        Boundary.DESTRUCTIVE_OPERATION,
        change,
        Risk.HIGH,
        rationale,
        {"action": action.digest, "target": identity, "policy": policy},
        destinations=(target,) if target else (),
    )
