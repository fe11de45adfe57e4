"""Observes a server with one request, bounded in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from operator_protocols.domain.observation import Observation, Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.errors import ObservationError
from operator_protocols.kit.access import sentence_of
from operator_protocols.kit.resp import ErrorReply, ProtocolError, Reply, open_wire
from operator_protocols.kit.subject import BaseSubject, see_stranger
from operator_protocols.ports import SubjectSettings
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


class Redis(BaseSubject):
    """Servers of kind `server`."""

    def __init__(self, settings: SubjectSettings) -> None:
        super().__init__(settings, INVARIANTS)

    async def observe(self) -> Observation:
        """Check all servers concurrently, so that a slow server does not delay the others."""
        seen = await asyncio.gather(*(self._observe(target) for target in self.present_targets()))
        return self.observation(seen)

    async def _observe(self, target: Target) -> Seen:
        if target.kind != "server":
            return see_stranger(target)
        if target.port is None:
            return Seen(target.name, problem="the target has no port")
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                info = await ask(target, "INFO", password=password_of(self.settings, target))
        except (OSError, EOFError) as error:
            return Seen(target.name, {"up": False, "error": sentence_of(error)})
        except (ObservationError, ProtocolError) as error:
            return Seen(target.name, problem=f"the server cannot be queried: {error}")
        return Seen(target.name, readings_of(str(info)))


async def ask(target: Target, *command: str, password: str = "") -> Reply:
    """The answer to one command; OSError, EOFError or ProtocolError if there is none.

    The caller limits the time.
    """
    async with open_wire(target, password=password, connect_s=CONNECT_S) as (wire, _, login):
        reply = login if isinstance(login, ErrorReply) else await wire.ask(*command)
    if isinstance(reply, ErrorReply):
        raise ProtocolError(reply.text)
    return reply


def password_of(settings: SubjectSettings, target: Target) -> str:
    """The password of a target, read from its file; "" if it has none."""
    path = target.access.password_file if target.access else ""
    return settings.secret(path) if path else ""


def readings_of(info: str) -> Mapping[str, Value]:
    """The readings in the answer to INFO."""
    lines = (line.partition(":") for line in info.splitlines() if ":" in line)
    fields = {name: value.strip() for name, _, value in lines}
    readings: dict[str, Value] = {"up": True, "role": fields.get("role", "")}
    readings |= {name: int(fields[name]) for name in NUMBERS if fields.get(name, "").isdigit()}
    if fields.get("role") == "slave":
        readings["linked"] = fields.get("master_link_status") == "up"
    if "paused_reason" in fields:
        readings["clients_paused"] = fields["paused_reason"] not in ("", "none")
    return readings
