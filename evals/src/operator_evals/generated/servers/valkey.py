"""Valkey, Redis and their sentinels: CONFIG, ACL, replication and failover, over RESP."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from operator_evals.generated.servers.server import ASK_S_MAX, Seat, Undo, nothing_to_undo
from operator_evals.generated.surface import AdminCommand, Setting, SettingType
from operator_protocols.errors import RigError

__all__ = ["ValkeyServer"]

LINE_BYTES_MAX = 1 << 20
_STORE = (
    AdminCommand("password", reversible=True),
    AdminCommand("replication_password", reversible=True),
    AdminCommand("account_off", reversible=True),
    AdminCommand("account_read_only", reversible=True),
    AdminCommand("account_no_keys", reversible=True),
    AdminCommand("promote"),
    AdminCommand("failover"),
    AdminCommand("pause_clients", reversible=True),
    AdminCommand("kill_clients"),
)
_SENTINEL = (
    AdminCommand("sentinel_failover"),
    AdminCommand("sentinel_remove"),
    AdminCommand("sentinel_reset"),
    AdminCommand("sentinel_quorum", reversible=True),
    AdminCommand("sentinel_password"),
)


class ValkeyServer:
    """One store or sentinel, asked at its own port."""

    def __init__(self, seat: Seat, kin: Sequence[Seat], *, sentinel: bool) -> None:
        self._seat = seat
        self._peers = [each for each in kin if each.password_file]
        self._sentinel = sentinel
        self._ports = {
            str(port) for each in (seat, *kin) for port in (each.own_port, each.public_port)
        }
        file = Path(seat.password_file) if seat.password_file else None
        self._password = file.read_text(encoding="utf-8").strip() if file else ""

    async def settings(self) -> Sequence[Setting]:
        """All that CONFIG GET * lists, each with the type of its value."""
        front = ("SENTINEL", "CONFIG") if self._sentinel else ("CONFIG",)
        listed = await self._ask(*front, "GET", "*")
        pairs = zip(listed[::2], listed[1::2], strict=False)
        return [_setting(name, value, self._ports) for name, value in pairs]

    async def change(self, name: str, value: str) -> Undo:
        """CONFIG SET."""
        front = ("SENTINEL", "CONFIG") if self._sentinel else ("CONFIG",)
        before = await self._ask(*front, "GET", name)
        await self._ask(*front, "SET", name, value)

        async def undo() -> None:
            await self._ask(*front, "SET", name, str(before[1]))

        return undo

    async def commands(self) -> Sequence[AdminCommand]:
        """Accounts and roles of a store; what a sentinel knows of its primary."""
        if self._sentinel:
            return _SENTINEL
        follows = [AdminCommand("follow", peer.name) for peer in self._peers]
        return (*_STORE, *follows)

    async def execute(self, command: str, about: str) -> Undo:
        """One command."""
        if self._sentinel:
            return await self._execute_sentinel(command)
        wrong = secrets.token_hex(8)
        match command:
            case "password":
                undo = await self.change("requirepass", wrong)
                old, self._password = self._password, wrong

                async def restore() -> None:
                    await undo()
                    self._password = old

                return restore
            case "replication_password":
                return await self.change("masterauth", wrong)
            case "follow":
                port = next(peer.public_port for peer in self._peers if peer.name == about)
                await self._ask("REPLICAOF", "127.0.0.1", str(port))
                return nothing_to_undo
            case _:
                do, back = _COMMANDS[command]
                await self._ask(*do)

        async def reverse() -> None:
            if back:
                await self._ask(*back)

        return reverse

    async def takes_writes(self) -> bool | None:
        """Whether ROLE says that it is a primary."""
        if self._sentinel:
            return None
        try:
            role = await self._ask("ROLE")
        except RigError:
            return None
        return bool(role) and role[0] == "master"

    async def _execute_sentinel(self, command: str) -> Undo:
        primaries = await self._ask("SENTINEL", "MASTERS")
        if not primaries:
            raise RigError(f"{self._seat.name} knows no primary.")
        about = dict(zip(primaries[0][::2], primaries[0][1::2], strict=False))
        name = about["name"]
        words = {
            "sentinel_failover": ("FAILOVER", name),
            "sentinel_remove": ("REMOVE", name),
            "sentinel_reset": ("RESET", "*"),
            "sentinel_quorum": ("SET", name, "quorum", "5"),
            "sentinel_password": ("SET", name, "auth-pass", secrets.token_hex(8)),
        }
        await self._ask("SENTINEL", *words[command])

        async def undo() -> None:
            if command == "sentinel_quorum":
                await self._ask("SENTINEL", "SET", name, "quorum", about["quorum"])

        return undo

    async def _ask(self, *words: str) -> Any:
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(ASK_S_MAX):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", self._seat.own_port, limit=LINE_BYTES_MAX
                )
                if self._password and not self._sentinel:
                    # Refused where the account has changed; then the question is refused too.
                    with contextlib.suppress(RigError):
                        await _exchange(reader, writer, ("AUTH", self._password))
                return await _exchange(reader, writer, words)
        except (OSError, TimeoutError, EOFError, ValueError) as error:
            raise RigError(f"{self._seat.name} did not answer: {type(error).__name__}.") from None
        finally:
            if writer is not None:
                writer.transport.abort()


_COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "account_off": (("ACL", "SETUSER", "default", "off"), ("ACL", "SETUSER", "default", "on")),
    "account_read_only": (
        ("ACL", "SETUSER", "default", "-@write"),
        ("ACL", "SETUSER", "default", "+@all"),
    ),
    "account_no_keys": (
        ("ACL", "SETUSER", "default", "resetkeys"),
        ("ACL", "SETUSER", "default", "allkeys"),
    ),
    "promote": (("REPLICAOF", "NO", "ONE"), ()),
    "failover": (("FAILOVER",), ()),
    "pause_clients": (("CLIENT", "PAUSE", "600000", "ALL"), ("CLIENT", "UNPAUSE")),
    "kill_clients": (("CLIENT", "KILL", "TYPE", "normal"), ()),
}


def _setting(name: str, value: str, ports: set[str]) -> Setting:
    if value in ("yes", "no"):
        return Setting(name, SettingType.BOOL, value, live=True)
    if value.isdigit():
        # Ports differ from rig to rig, and a case does not.
        usual = "6379" if value in ports else value
        return Setting(name, SettingType.INTEGER, usual, low=0, live=True)
    return Setting(name, SettingType.TEXT, live=True)


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, words: Sequence[str]
) -> Any:
    parts = [word.encode() for word in words]
    text = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
    writer.write(b"*%d\r\n%b" % (len(parts), text))
    return await _read(reader)


async def _read(reader: asyncio.StreamReader) -> Any:
    line = (await reader.readuntil(b"\r\n"))[:-2]
    sign, rest = line[:1], line[1:].decode("utf-8", "replace")
    match sign:
        case b"+":
            return rest
        case b"-":
            raise RigError(f"It refuses: {rest[:200]}.")
        case b":":
            return int(rest)
        case b"$":
            if int(rest) < 0:
                return ""
            return (await reader.readexactly(int(rest) + 2))[:-2].decode("utf-8", "replace")
        case b"*":
            return [await _read(reader) for _ in range(max(0, int(rest)))]
        case _:
            raise ValueError("it does not speak RESP")
