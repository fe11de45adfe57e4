"""The control socket of a supervisor: one JSON request a line, one JSON reply a line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from operator_protocols.errors import OperatorError, RigError
from operator_sre.processes.nursery import Nursery
from operator_sre.processes.supervision import Supervision

__all__ = ["Reply", "Request", "Server", "forget_socket"]

# The kernel takes 107 bytes on Linux and 103 on macOS.
SOCKET_PATH_BYTES_MAX = 100
SOCKET_FOLDER = "control"
SOCKET_NAME = "socket"
FAR_PREFIX = "operator-control-"
SHORT_FOLDER = "/tmp"  # noqa: S108  the folder made in it is random and ours alone
REQUEST_BYTES_MAX = 4096
REQUEST_S_MAX = 5.0
CLIENTS_MAX = 32

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a supervisor."""

    command: str
    name: str = ""
    signal: str = ""

    def to_line(self) -> bytes:
        """As it goes over the socket."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Request:
        """As it came over the socket; RigError when it is something else."""
        try:
            record = json.loads(line)
            return cls(**{key: str(value) for key, value in record.items()})
        except (ValueError, TypeError, AttributeError) as problem:
            raise RigError(f"The request cannot be read: {problem}.") from problem


@dataclass(frozen=True, slots=True)
class Reply:
    """What a supervisor answers: its state afterwards, or why it did not do it."""

    state: str
    error: str = ""

    def to_line(self) -> bytes:
        """As it goes over the socket."""
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Reply:
        """As it came over the socket; RigError when it is something else."""
        try:
            record = json.loads(line)
            return cls(state=str(record["state"]), error=str(record["error"]))
        except (ValueError, TypeError, KeyError) as problem:
            raise RigError(f"The reply of the supervisor cannot be read: {problem}.") from problem


class Server:
    """Answers on a unix socket that only its owner can reach."""

    def __init__(
        self,
        directory: Path,
        *,
        nursery: Nursery,
        down: Callable[[], Awaitable[None]],
        state: Callable[[], Supervision],
    ) -> None:
        self._directory = directory
        self._nursery = nursery
        self._down = down
        self._state = state
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()
        self.path = ""

    async def open(self) -> None:
        """Listen."""
        # A path for the socket that the kernel can take, in a folder that only we can enter.
        near = self._directory / SOCKET_FOLDER / SOCKET_NAME
        if len(os.fsencode(near)) <= SOCKET_PATH_BYTES_MAX:
            near.parent.mkdir(mode=0o700, exist_ok=True)
            near.unlink(missing_ok=True)
            self.path = str(near)
        else:
            # The user's own folder for temporary files may be too deep as well.
            folder = tempfile.gettempdir()
            room = len(os.fsencode(folder)) + len(f"/{FAR_PREFIX}xxxxxxxx/{SOCKET_NAME}")
            usual = folder if room <= SOCKET_PATH_BYTES_MAX else SHORT_FOLDER
            self.path = str(Path(tempfile.mkdtemp(prefix=FAR_PREFIX, dir=usual)) / SOCKET_NAME)
        self._server = await asyncio.start_unix_server(
            self._welcome, self.path, limit=REQUEST_BYTES_MAX
        )
        _close_to_others(self.path)

    async def close(self) -> None:
        """Finish the replies under way, then take the socket away."""
        if self._server is not None:
            self._server.close()
        if self._clients:
            await asyncio.wait(self._clients, timeout=1.0)
        forget_socket(self.path)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._clients) >= CLIENTS_MAX:
            writer.close()
            return
        self._clients.add(task)
        try:
            await self._answer_one(reader, writer)
        except (OSError, TimeoutError) as problem:
            log.warning("a client disconnected: %s", problem)
        finally:
            self._clients.discard(task)
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        error = ""
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                line = await reader.readline()
            if not line:
                return
            request = Request.from_line(line)
            log.info("request: %s %s %s", request.command, request.name, request.signal)
            match request.command:
                case "status":
                    self._nursery.reap()
                case "start":
                    await self._nursery.start(request.name)
                case "stop":
                    await self._nursery.stop(request.name)
                case "restart":
                    await self._nursery.restart(request.name)
                case "check":
                    await self._nursery.check(request.name)
                case "signal":
                    self._nursery.signal(request.name, request.signal)
                case "down":
                    await self._down()
                case unknown:
                    raise RigError(f"Unknown supervisor command {unknown!r}.")
        except OperatorError as problem:
            error = str(problem)
        except ValueError:
            error = f"The request is longer than {REQUEST_BYTES_MAX} bytes."
        writer.write(Reply(self._state().to_json(), error).to_line())
        async with asyncio.timeout(REQUEST_S_MAX):
            await writer.drain()


def _close_to_others(path: str) -> None:
    Path(path).chmod(0o600)


def forget_socket(path: str) -> None:
    """Remove a socket and the folder made for it; both may be gone already."""
    socket = Path(path)
    if socket.name == SOCKET_NAME:
        with contextlib.suppress(OSError):
            socket.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            socket.parent.rmdir()
