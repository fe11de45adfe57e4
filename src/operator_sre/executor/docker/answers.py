"""What a Docker engine tells of containers, networks and execs, and the frames of their output."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from operator_sre.executor.docker.engine import EngineError

__all__ = [
    "Attached",
    "Configuration",
    "Container",
    "Created",
    "Exec",
    "Frames",
    "Health",
    "Member",
    "Mount",
    "Network",
    "NetworkSettings",
    "RestartPolicy",
    "State",
    "Waited",
]


class Health(msgspec.Struct, rename="pascal"):
    """What a container's own check says."""

    status: str = ""
    failing_streak: int = 0


class State(msgspec.Struct, rename="pascal"):
    """What a container does now, and how it ended when it last did."""

    status: str = ""
    running: bool = False
    paused: bool = False
    restarting: bool = False
    exit_code: int = 0
    error: str = ""
    started_at: str = ""
    finished_at: str = ""
    oom_killed: bool = msgspec.field(default=False, name="OOMKilled")
    health: Health | None = None
    pid: int = 0


class Configuration(msgspec.Struct, rename="pascal"):
    """What a container was made from."""

    image: str = ""
    user: str = ""
    tty: bool = False
    env: list[str] | None = None
    labels: dict[str, str] | None = None


class RestartPolicy(msgspec.Struct, rename="pascal"):
    """What the engine does when a container ends by itself."""

    name: str = ""


class HostSettings(msgspec.Struct, rename="pascal"):
    """How a container was given to the machine."""

    restart_policy: RestartPolicy | None = None
    memory: int = 0
    privileged: bool = False
    auto_remove: bool = False
    network_mode: str = ""


class Attached(msgspec.Struct, rename="pascal"):
    """A container on one network."""

    aliases: list[str] | None = None
    address: str = msgspec.field(default="", name="IPAddress")
    network: str = msgspec.field(default="", name="NetworkID")
    fixed: dict[str, object] | None = msgspec.field(default=None, name="IPAMConfig")


class NetworkSettings(msgspec.Struct, rename="pascal"):
    """Every network that a container is on."""

    networks: dict[str, Attached] | None = None
    ports: dict[str, list[dict[str, str]] | None] | None = None


class Mount(msgspec.Struct, rename="pascal"):
    """A piece of the machine, or a volume, that a container sees."""

    type: str = ""
    source: str = ""
    destination: str = ""
    writable: bool = msgspec.field(default=False, name="RW")


class Container(msgspec.Struct, rename="pascal"):
    """A container as the engine describes it; secrets are among it."""

    id: str
    name: str
    state: State
    config: Configuration
    image: str = ""
    created: str = ""
    path: str = ""
    args: list[str] | None = None
    restart_count: int = 0
    host_config: HostSettings = msgspec.field(default_factory=HostSettings)
    network_settings: NetworkSettings = msgspec.field(default_factory=NetworkSettings)
    mounts: list[Mount] | None = None

    @property
    def label(self) -> str:
        """The label shown to people."""
        return f"{self.name.removeprefix('/')} ({self.id[:12]})"

    @property
    def networks(self) -> dict[str, Attached]:
        """Every network that it is on, by name."""
        return self.network_settings.networks or {}


class Member(msgspec.Struct, rename="pascal"):
    """A container as a network names it."""

    name: str = ""


class Network(msgspec.Struct, rename="pascal"):
    """A network, with the containers that run on it now."""

    id: str
    name: str
    driver: str = ""
    containers: dict[str, Member] | None = None

    def others(self, container: str) -> tuple[str, ...]:
        """Who else is on it."""
        members = (self.containers or {}).items()
        return tuple(sorted(each.name for member, each in members if member != container))


class Created(msgspec.Struct, rename="pascal"):
    """What was just made."""

    id: str


class Exec(msgspec.Struct, rename="pascal"):
    """A program that was started in a container."""

    running: bool
    exit_code: int | None = None


class Waited(msgspec.Struct, rename="pascal"):
    """How a container ended that was waited for."""

    status_code: int


_HEADER = struct.Struct(">B3xL")
STDOUT, STDERR = 1, 2


class Frames:
    """Takes the stream apart. It keeps at most a header: a frame of any size passes in pieces."""

    def __init__(self, *, is_plain: bool) -> None:
        self._is_plain = is_plain
        self._header = b""
        self._number = STDOUT
        self._left = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """The pieces of these bytes, each with 1 for stdout and 2 for stderr."""
        if self._is_plain:
            if chunk:
                yield STDOUT, chunk
            return
        while chunk:
            if self._left:
                piece, chunk = chunk[: self._left], chunk[self._left :]
                self._left -= len(piece)
                yield self._number, piece
                continue
            missing = _HEADER.size - len(self._header)
            self._header, chunk = self._header + chunk[:missing], chunk[missing:]
            if len(self._header) == _HEADER.size:
                number, self._left = _HEADER.unpack(self._header)
                if number > STDERR or self._header[1:4] != b"\0\0\0":
                    raise EngineError(
                        "The service at this address does not answer as Docker does.", sent=True
                    )
                # Stdin frames count as stdout, as in the engine's own command line.
                self._number, self._header = number or STDOUT, b""
