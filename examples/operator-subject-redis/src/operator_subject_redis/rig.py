"""A disposable server with a replica, and its faults. Data: the lab runs it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.faults import kill_fault, pause_fault
from operator_protocols.ports import Fault, Scene
from operator_subject_redis.subject import ask

__all__ = ["FAULTS", "rig"]

PAUSE_MS = "3600000"


def rig() -> RigSpec:
    """A primary and a replica of the server that is on PATH."""
    server = shutil.which("valkey-server") or shutil.which("redis-server") or "valkey-server"
    plain = ("--bind", "127.0.0.1", "--dir", "{dir}", "--save", "", "--port", "{port}")
    primary = ProcessSpec("primary", "server", (server, *plain))
    follow = ("--replicaof", "127.0.0.1 {primary.port}")
    replica = ProcessSpec("replica", "server", (server, *plain, *follow), depends_on=("primary",))
    return RigSpec("redis", (primary, replica))


async def _pause(scene: Scene) -> Mapping[str, str]:
    await ask(scene.target, "CLIENT", "PAUSE", PAUSE_MS, "WRITE")
    return {}


async def _unpause(scene: Scene) -> None:
    await ask(scene.target, "CLIENT", "UNPAUSE")


async def _check_paused(scene: Scene) -> str:
    """The problem that the server itself reports, or ""."""
    info = str(await ask(scene.target, "INFO", "clients"))
    return "" if "paused_reason:none" in info else "its clients are paused"


FAULTS: tuple[Fault, ...] = (
    kill_fault("server_kill", "server", breaks=("server_up", "replica_linked", "accepts_writes")),
    pause_fault(
        "server_freeze", "server", breaks=("server_up", "replica_linked", "accepts_writes")
    ),
    Fault(
        name="clients_wait",
        sentence="One server pauses all clients that write.",
        kind="server",
        breaks=("accepts_writes",),
        inject=_pause,
        heal=_unpause,
        oracle=_check_paused,
    ),
)
