"""A disposable server with a replica, and the ways to hurt it. Data: the lab runs it."""

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
    """A primary and a replica, of whichever server is on PATH."""
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


async def _paused(scene: Scene) -> str:
    """Whether it lets clients wait, by its own word."""
    told = str(await ask(scene.target, "INFO", "clients"))
    return "" if "paused_reason:none" in told else "its clients have to wait"


FAULTS: tuple[Fault, ...] = (
    kill_fault("server_kill", "server", breaks=("server_up", "replica_linked", "accepts_writes")),
    pause_fault(
        "server_freeze", "server", breaks=("server_up", "replica_linked", "accepts_writes")
    ),
    Fault(
        name="clients_wait",
        sentence="One server lets everybody wait who wants to write.",
        kind="server",
        breaks=("accepts_writes",),
        inject=_pause,
        heal=_unpause,
        oracle=_paused,
    ),
)
