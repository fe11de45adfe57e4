"""Hosts that the user names: their listening sockets are read over ssh, and nothing is changed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.errors import ConfigError, MissingExtraError, OperatorError
from operator_protocols.ports import Job
from operator_sre.app.discovery.listeners import LISTENERS_MAX, Listener

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.executor.transports.ssh import SshSettings

__all__ = ["RemoteHost", "read_host", "read_sockets"]

READ_S_MAX = 15.0
# One line for each socket; the process is shown where the user may see it.
SOCKETS = ("ss", "-Hltnp")
_SOCKET = re.compile(
    r"LISTEN\s+\d+\s+\d+\s+(?P<host>\S+):(?P<port>\d{1,5})\s+\S+"
    r'(?:\s+users:\(\("(?P<program>[^"]{1,64})",pid=(?P<pid>\d{1,10}))?'
)


@dataclass(frozen=True, slots=True)
class RemoteHost:
    """A host with its servers; only its own machine reaches the `hidden` ones.

    `problem` is why nothing could be read there.
    """

    address: str
    name: str
    listeners: tuple[Listener, ...] = ()
    hidden: tuple[Listener, ...] = ()
    problem: str = ""


async def read_host(app: App, address: str, *, ssh: SshSettings | None = None) -> RemoteHost:
    """What listens on a host, given as user@host[:port] or ssh://user@host[:port].

    ConfigError for any other address; what fails there is the `problem`.
    """
    from operator_sre.executor.transports.places import Host, place_of
    from operator_sre.executor.transports.remote import RemoteShell
    from operator_sre.executor.transports.ssh import SshSettings, SshWire

    place = place_of(address if "://" in address else f"ssh://{address}")
    if not isinstance(place, Host):
        raise ConfigError(
            f"{address[:100]!r} is not a host.", next_step="Write --host user@host or user@host:22."
        )
    shell = RemoteShell(SshWire(place, ssh or SshSettings()), str(place), app.spool)
    try:
        async with asyncio.timeout(READ_S_MAX):
            result = await shell.run(Action.program(SOCKETS), Job(timeout_s=READ_S_MAX))
    except MissingExtraError:
        raise
    except (OperatorError, OSError, TimeoutError) as error:
        why = str(error) or f"it did not answer within {READ_S_MAX:g} s"
        return RemoteHost(str(place), place.name, problem=why)
    finally:
        await shell.aclose()
    if result.outcome is not Outcome.RAN:
        return RemoteHost(str(place), place.name, problem=result.stderr.strip()[:300])
    listeners, hidden = read_sockets(result.stdout, place.name, place.port)
    return RemoteHost(str(place), place.name, tuple(listeners), tuple(hidden))


def read_sockets(
    text: str, host: str, ssh_port: int
) -> tuple[Sequence[Listener], Sequence[Listener]]:
    """The servers that other machines reach, and the servers that only their own one does. Pure.

    The text is that of `ss -Hltnp`; what it has no sockets in yields none.
    """
    reached: dict[int, Listener] = {}
    hidden: dict[int, Listener] = {}
    for line in text.splitlines()[:LISTENERS_MAX]:
        match = _SOCKET.match(line.strip())
        if match is None or (port := int(match["port"])) == ssh_port:
            continue
        bound = match["host"].partition("%")[0].strip("[]")
        pid = int(match["pid"]) if match["pid"] else None
        here = Listener(bound, port, pid, match["program"] or "")
        if bound.startswith(("127.", "::ffff:127.")) or bound == "::1":
            hidden[port] = here
        else:
            reached[port] = Listener(host, port, pid, here.program)
    others = [each for port, each in sorted(hidden.items()) if port not in reached]
    return [each for _, each in sorted(reached.items())], others
