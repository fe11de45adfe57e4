"""Whose a container is: asked at the engine each time, because a name changes hands."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import msgspec

from operator_sre.executor.docker.engine import Answer, Engine
from operator_sre.executor.porter.rules import PROJECT_LABEL, Refused

__all__ = ["PART_LABEL", "Described", "Lab", "find_way_out", "is_own"]

# What is of the project and not of the lab: Operator's own containers, and the lab's machinery.
PART_LABEL = "operator-sre.part"
_ID = re.compile(r"[0-9a-f]{64}")
# From here a machine is ruled, or its secrets are read; what contains one of them contains it.
_HOST_PLACES = (
    *("/boot", "/dev", "/etc", "/proc", "/root", "/run", "/sys"),
    *("/var/lib/containerd", "/var/lib/docker", "/var/run"),
)
# A program with one of these can leave its container.
_STRONG = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "CAP_")
    for name in (
        *("ALL", "BPF", "DAC_READ_SEARCH", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "PERFMON"),
        *("SYS_ADMIN", "SYS_BOOT", "SYS_MODULE", "SYS_PTRACE", "SYS_RAWIO"),
    )
)


class _Configuration(msgspec.Struct, rename="pascal"):
    labels: dict[str, str] | None = None


class _Host(msgspec.Struct, rename="pascal"):
    privileged: bool = False
    pid_mode: str = ""
    ipc_mode: str = ""
    network_mode: str = ""
    userns_mode: str = ""
    cgroupns_mode: str = ""
    cap_add: list[str] | None = None
    devices: list[object] | None = None
    device_requests: list[object] | None = None
    security_opt: list[str] | None = None


class _Mount(msgspec.Struct, rename="pascal"):
    type: str = ""
    source: str = ""
    writable: bool = msgspec.field(default=True, name="RW")


class Described(msgspec.Struct, rename="pascal"):
    """What an engine tells of a container, as far as it says whose it is."""

    id: str
    name: str
    config: _Configuration
    host_config: _Host
    mounts: list[_Mount] | None = None

    def is_of(self, project: str) -> bool:
        """Whether it is one of the lab's own."""
        return is_own(self.config.labels, project)


class _Program(msgspec.Struct, rename="pascal"):
    container_id: str = msgspec.field(name="ContainerID")
    process: dict[str, object] = msgspec.field(default_factory=dict, name="ProcessConfig")


class _Listed(msgspec.Struct, rename="pascal"):
    labels: dict[str, str] | None = None


class Lab:
    """The containers of one compose project, as the engine knows them at this moment."""

    def __init__(self, engine: Engine, project: str) -> None:
        self._engine = engine
        self.project = project

    async def container(self, name: str, *, enters: bool) -> str | Refused:
        """The full id of what has this name or id now, when it is the lab's; EngineError."""
        answer = await self._engine.ask("GET", f"/containers/{name}/json")
        if not answer.ok:
            return _refusal_of(answer)
        found = answer.read(Described)
        if _ID.fullmatch(found.id) is None or not found.is_of(self.project):
            return Refused(f"The container {name[:64]!r} does not belong to this lab.")
        if enters and (why := find_way_out(found)):
            return Refused(f"No program is run in {name[:64]!r}: {why}.")
        return found.id

    async def program(self, name: str, *, enters: bool) -> str | Refused:
        """The id of a program whose container is the lab's; EngineError."""
        answer = await self._engine.ask("GET", f"/exec/{name}/json")
        if not answer.ok:
            return _refusal_of(answer)
        found = answer.read(_Program)
        if _ID.fullmatch(found.container_id) is None:
            return Refused("The Docker engine does not report the container of that program.")
        if found.process.get("privileged") not in (None, False):
            return Refused("Privileged programs are refused.")
        owner = await self.container(found.container_id, enters=enters)
        return owner if isinstance(owner, Refused) else name

    def own(self, content: bytes) -> bytes | Refused:
        """A list without all that is not the lab's. Pure."""
        try:
            rows = msgspec.json.decode(content, type=list[msgspec.Raw])
            kept = [
                row
                for row in rows
                if is_own(msgspec.json.decode(row, type=_Listed).labels, self.project)
            ]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return Refused("The list from the Docker engine cannot be read.", 502)
        return msgspec.json.encode(kept)


def is_own(labels: dict[str, str] | None, project: str) -> bool:
    """Whether these labels are those of a container of the lab. Pure."""
    known = labels or {}
    return known.get(PROJECT_LABEL) == project and PART_LABEL not in known


def find_way_out(container: Described) -> str:
    """How a program in this container could reach the host; or "". Pure."""
    host = container.host_config
    if host.privileged:
        return "it is privileged"
    for mode in (host.pid_mode, host.ipc_mode, host.network_mode, host.userns_mode):
        if mode == "host" or mode.startswith("container:"):
            return "it shares a namespace with others"
    if any(each.upper() in _STRONG for each in host.cap_add or ()):
        return "it has capabilities that lead out of it"
    if host.devices or host.device_requests:
        return "it has a device of the machine"
    if any("unconfined" in each or each == "label=disable" for each in host.security_opt or ()):
        return "it is not confined"
    for mount in container.mounts or ():
        if mount.type not in ("volume", "tmpfs") and (mount.writable or _rules(mount.source)):
            return f"it sees {mount.source[:100]!r} of the machine"
    return ""


def _rules(source: str) -> bool:
    """Whether this place of the machine is one it is ruled from, or holds one."""
    place = PurePosixPath(source)
    return place.name.endswith(".sock") or any(
        place.is_relative_to(ruled) or PurePosixPath(ruled).is_relative_to(place)
        for ruled in _HOST_PLACES
    )


def _refusal_of(answer: Answer) -> Refused:
    return Refused(answer.message, answer.status)
