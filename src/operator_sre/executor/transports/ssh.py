"""Shells on other machines over ssh: hosts are known by their keys, and people by theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from operator_protocols.domain.category import FailureCategory
from operator_protocols.errors import MissingExtraError
from operator_sre.executor.transports.places import SSH_PORT, Host
from operator_sre.executor.transports.script import Called, Hear

if TYPE_CHECKING:
    import asyncssh

__all__ = ["SshSettings", "SshWire"]

CONNECT_S_MAX = 15.0
# A host that answers nothing for the product of both is gone.
KEEPALIVE_S = 5.0
KEEPALIVES_MAX = 3
PROBLEM_CHARS_MAX = 200
# The login shell of a user, whichever it is, sees nothing but these words.
SHELL = "exec env -i /bin/sh"


@dataclass(frozen=True, slots=True)
class SshSettings:
    """Which hosts are known and who we are. Without keys, those of the agent and of ~/.ssh."""

    known_hosts: Path = Path("~/.ssh/known_hosts")
    keys: tuple[Path, ...] = ()
    agent: str = ""
    connect_s_max: float = CONNECT_S_MAX


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why no connection could be made."""

    sentence: str
    category: FailureCategory


class SshWire:
    """One host. Its connection is made when it is needed and used again while it lasts."""

    def __init__(self, host: Host, settings: SshSettings | None = None) -> None:
        self._host = host
        self._settings = settings or SshSettings()
        self._connection: asyncssh.SSHClientConnection | None = None
        self._connecting = asyncio.Lock()

    async def reach(self) -> Called:
        """Connect, where there is no connection yet."""
        found = await self._get_connection()
        if isinstance(found, _Refusal):
            return Called(sent=False, trouble=found.sentence, category=found.category)
        return Called()

    async def call(self, script: bytes, hear: Hear, *, within_s: float) -> Called:
        """Give a script to a shell there; `hear` gets what it says."""
        found = await self._get_connection()
        if isinstance(found, _Refusal):
            return Called(sent=False, trouble=found.sentence, category=found.category)
        library = _asyncssh()
        try:
            return await self._call_over(found, script, hear, within_s)
        except library.ChannelOpenError as problem:
            refused = problem
        # It was closed meanwhile, or the host allows only so many shells over one connection.
        spare = await self._open_connection()
        if isinstance(spare, _Refusal):
            return Called(sent=False, trouble=spare.sentence, category=spare.category)
        try:
            return await self._call_over(spare, script, hear, within_s)
        except library.ChannelOpenError:
            return self._trouble(f"the host starts no shell ({_one_line(refused)}).", sent=False)
        finally:
            spare.abort()
            await spare.wait_closed()

    async def _call_over(
        self, connection: asyncssh.SSHClientConnection, script: bytes, hear: Hear, within_s: float
    ) -> Called:
        library = _asyncssh()
        session = _Session(hear)
        try:
            opening = connection.create_session(
                lambda: cast("asyncssh.SSHClientSession[bytes]", session),
                SHELL,
                encoding=None,
                request_pty=False,
            )
            channel, _ = await asyncio.wait_for(opening, self._settings.connect_s_max)
        except library.ChannelOpenError:
            raise
        except (library.Error, OSError) as problem:
            return self._trouble(f"the host starts no shell ({_one_line(problem)}).", sent=False)
        try:
            channel.write(script)
            channel.write_eof()
            await asyncio.wait_for(session.ended.wait(), within_s)
        except TimeoutError:
            return self._trouble("it did not answer in time.")
        except (library.Error, OSError) as problem:
            return self._trouble(f"the connection broke ({_one_line(problem)}).")
        finally:
            channel.abort()
        if channel.get_exit_status() is None:
            return self._trouble("the connection was lost.")
        return Called()

    async def identify(self) -> str:
        """Its address, and the keys by which it is known."""
        keys = await asyncio.to_thread(self._fingerprints)
        return f"{self._host} {','.join(keys)}".strip()

    async def aclose(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await connection.wait_closed()

    async def _get_connection(self) -> asyncssh.SSHClientConnection | _Refusal:
        async with self._connecting:
            if self._connection is not None and not self._connection.is_closed():
                return self._connection
            self._connection = None
            made = await self._open_connection()
            if not isinstance(made, _Refusal):
                self._connection = made
            return made

    async def _open_connection(self) -> asyncssh.SSHClientConnection | _Refusal:
        library = _asyncssh()
        host, settings = self._host, self._settings
        if not settings.known_hosts.expanduser().is_file():
            return self._unknown()
        if missing := [key for key in settings.keys if not key.expanduser().is_file()]:
            why = f"There is no key file {str(missing[0])!r}, so Operator cannot log in to {host}."
            return _Refusal(why, FailureCategory.PERMISSION)
        try:
            # Nothing is asked of a person, nothing is passed on, and no file of settings is read.
            settings = self._settings
            options: dict[str, Any] = {
                "config": None,
                "username": self._host.user,
                # Never None, which would trust every host.
                "known_hosts": str(settings.known_hosts.expanduser()),
                "preferred_auth": "publickey",
                "password": None,
                "kbdint_auth": False,
                "password_auth": False,
                "host_based_auth": False,
                "gss_host": None,
                "agent_forwarding": False,
                "x11_forwarding": False,
                "compression_algs": None,
                "connect_timeout": settings.connect_s_max,
                "login_timeout": settings.connect_s_max,
                "keepalive_interval": KEEPALIVE_S,
                "keepalive_count_max": KEEPALIVES_MAX,
            }
            if settings.keys:
                options["client_keys"] = [str(key.expanduser()) for key in settings.keys]
            if settings.agent or settings.keys:
                options["agent_path"] = settings.agent or None
            connection = await library.connect(host.name, host.port, **options)
        except library.HostKeyNotVerifiable:
            return await asyncio.to_thread(self._not_trusted)
        except (library.PermissionDenied, library.KeyImportError) as problem:
            return _Refusal(
                f"{host} rejected all keys that were offered ({_one_line(problem)}). "
                "Load a key into the ssh agent, or name a key file without a passphrase.",
                FailureCategory.PERMISSION,
            )
        except (library.Error, OSError, ValueError) as problem:
            return _Refusal(
                f"{host} cannot be reached: {_one_line(problem)}. Nothing was run.",
                FailureCategory.NETWORK,
            )
        return cast("asyncssh.SSHClientConnection", connection)

    def _not_trusted(self) -> _Refusal:
        if not self._fingerprints():
            return self._unknown()
        host, file = self._host, self._settings.known_hosts
        entry = host.name if host.port == SSH_PORT else f"[{host.name}]:{host.port}"
        return _Refusal(
            f"The key of {host} is not the one in {file}: someone may intercept the connection. "
            "Nothing was run. If the host was reinstalled, remove the old key with: "
            f"ssh-keygen -f {file} -R '{entry}'",
            FailureCategory.PERMISSION,
        )

    def _unknown(self) -> _Refusal:
        host = self._host
        return _Refusal(
            f"{host} is unknown: {self._settings.known_hosts} has no key for it. Connect once "
            f"by hand and compare the key: ssh -p {host.port} {host.user}@{host.name}",
            FailureCategory.PERMISSION,
        )

    def _fingerprints(self) -> list[str]:
        """The keys of this host in the file of known hosts, those of its authorities included."""
        library = _asyncssh()
        path = self._settings.known_hosts.expanduser()
        try:
            known = library.match_known_hosts(
                str(path), self._host.name, self._host.name, self._host.port
            )
        except (OSError, ValueError):
            return []
        return sorted({key.get_fingerprint() for keys in known[:2] for key in keys})

    def _trouble(self, why: str, *, sent: bool = True) -> Called:
        return Called(sent=sent, trouble=f"{self._host}: {why}", category=FailureCategory.NETWORK)


class _Session:
    """Passes on what one shell says; the library calls it as things happen."""

    def __init__(self, hear: Hear) -> None:
        self._hear = hear
        self.ended = asyncio.Event()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """The next bytes; only stderr has a type."""
        self._hear(1 if datatype is None else 2, data)

    def connection_lost(self, _error: Exception | None) -> None:
        """The channel is closed, for whatever reason."""
        self.ended.set()

    def eof_received(self) -> bool:
        """No more output will come, so there is nothing to keep open."""
        return False

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Whatever else happens to a channel does not matter here."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_: None


def _asyncssh() -> ModuleType:
    try:
        import asyncssh
    except ImportError:
        raise MissingExtraError("ssh", needed_for="Running commands over ssh") from None
    return asyncssh


def _one_line(problem: Exception) -> str:
    """What a library or a host says, in one bounded line."""
    text = " ".join(str(problem).split()) or type(problem).__name__
    return text.rstrip(".")[:PROBLEM_CHARS_MAX]
