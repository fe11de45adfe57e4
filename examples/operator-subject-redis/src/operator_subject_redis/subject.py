"""How to look at a server: one question each, bounded in time, whatever it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.kit.access import sentence_of
from operator_protocols.kit.resp import ErrorReply, ProtocolError, Reply, open_wire
from operator_protocols.ports import Invariant, SubjectSettings
from operator_subject_redis.invariants import INVARIANTS

__all__ = ["Redis", "ask", "password_of"]

CONNECT_S = 5.0
NUMBERS = (
    "used_memory",
    "maxmemory",
    "connected_clients",
    "maxclients",
    "rejected_connections",
    "evicted_keys",
    "uptime_in_seconds",
)


@dataclass(frozen=True, slots=True)
class Redis:
    """Servers of kind `server`, in our care."""

    settings: SubjectSettings
    invariants: Sequence[Invariant] = INVARIANTS

    @property
    def name(self) -> str:
        """Its name in configuration and tickets."""
        return self.settings.name

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now."""
        return self.settings.targets()

    async def observe(self) -> Observation:
        """Look at all servers at once, so that a slow one delays nobody."""
        targets = self.targets()
        if not targets:
            raise ObservationError("There is no server to look at.")
        seen = await asyncio.gather(*(self._look(target) for target in targets))
        return Observation(self.name, self.settings.clock.now(), tuple(seen))

    async def _look(self, target: Target) -> Seen:
        if target.kind != "server":
            return Seen(target.name, problem=f"its kind {target.kind!r} is not known")
        if target.port is None:
            return Seen(target.name, problem="it has no port")
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                info = await ask(target, "INFO", password=password_of(self.settings, target))
        except (OSError, EOFError) as error:
            return Seen(target.name, {"up": False, "error": sentence_of(error)})
        except (ObservationError, ProtocolError) as error:
            return Seen(target.name, problem=f"it cannot be asked: {error}")
        return Seen(target.name, readings_of(str(info)))


async def ask(target: Target, *command: str, password: str = "") -> Reply:
    """The answer to one command; OSError, EOFError or ProtocolError when there is none.

    The caller limits the time.
    """
    async with open_wire(target, password=password, connect_s=CONNECT_S) as (wire, _, login):
        reply = login if isinstance(login, ErrorReply) else await wire.ask(*command)
    if isinstance(reply, ErrorReply):
        raise ProtocolError(reply.text)
    return reply


def password_of(settings: SubjectSettings, target: Target) -> str:
    """Its password, read from its file; "" where it has none."""
    path = target.access.password_file if target.access else ""
    return settings.secret(path) if path else ""


def readings_of(info: str) -> Mapping[str, Value]:
    """What the invariants need of the answer to INFO."""
    lines = (line.partition(":") for line in info.splitlines() if ":" in line)
    told = {name: value.strip() for name, _, value in lines}
    readings: dict[str, Value] = {"up": True, "role": told.get("role", "")}
    readings |= {name: int(told[name]) for name in NUMBERS if told.get(name, "").isdigit()}
    if told.get("role") == "slave":
        readings["linked"] = told.get("master_link_status") == "up"
    if "paused_reason" in told:
        readings["clients_paused"] = told["paused_reason"] not in ("", "none")
    return readings
