"""The manifest of a rig, and where everything of a rig lies.

The manifest says what it is a copy of, where its processes answer, and who watches over it. The
blanks of a ProcessSpec say where things lie.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from operator_lab.cgroups import group_name
from operator_protocols.domain.rig import LoadShape, LoadSpec, ProcessSpec, RigSpec
from operator_protocols.domain.target import Access, Process
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.processes.files import write_atomically
from operator_sre.processes.identity import alive

__all__ = [
    "HOST",
    "LINKS",
    "LOAD",
    "MANIFEST_FILE",
    "Layout",
    "Manifest",
    "Volumes",
    "has_volume",
    "nonsense",
    "own_home",
    "port_keys",
    "read_manifest",
    "write_manifest",
]

MANIFEST_FILE = "rig.json"
HOST = "127.0.0.1"


class Volumes(StrEnum):
    """How volumes that have a size were made: for all to see, for the rig alone, or not."""

    MOUNTED = "mounted"
    PRIVATE = "private"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Manifest:
    """One rig. Without a `supervisor` it is still being made by `maker`.

    `ports` are where processes listen, `links` where others reach linked processes, both
    by `NAME` and `NAME:PORT`. `homes` are the directories of processes outside of the
    rig's own, `volumes` how volumes with a size were made, `built` the folder of programs that
    were built for it.
    """

    spec: RigSpec
    created: datetime
    maker: Process
    ports: Mapping[str, int] = field(default_factory=dict)
    supervisor: Process | None = None
    links: Mapping[str, int] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)
    volumes: Volumes = Volumes.PLAIN
    no_volumes: str = ""
    built: str = ""

    @property
    def live(self) -> bool:
        """It has a living supervisor, or a process that is starting it."""
        return alive(self.supervisor or self.maker)

    def public_port(self, key: str) -> int:
        """Where all others reach a port, given as `NAME` or `NAME:PORT`."""
        return self.links.get(key, self.ports[key])

    def process(self, name: str) -> ProcessSpec:
        """One of its processes; NotFoundError names those there are."""
        for process in self.spec.processes:
            if process.name == name:
                return process
        names = ", ".join(process.name for process in self.spec.processes)
        raise NotFoundError(
            f"There is no target {name!r} in the rig of {self.spec.subject!r}.",
            next_step=f"It has {names}.",
        )


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Record a rig in its directory."""
    record = {**asdict(manifest), "created": manifest.created.isoformat()}
    write_atomically(directory / MANIFEST_FILE, json.dumps(record, indent=1))


def read_manifest(directory: Path) -> Manifest | None:
    """The rig of a directory; None when there is none, RigError when it cannot be read."""
    path = directory / MANIFEST_FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if "rig" in record:
            raise RigError(
                f"The rig in {str(directory)!r} is one of containers.",
                next_step="Stop it first with: operator lab down",
            )
        supervisor, spec = record["supervisor"], record["spec"]
        load, processes = spec["load"], []
        for each in spec["processes"]:
            names = ("argv", "depends_on", "ready_argv", "ports")
            lists = {name: tuple(each[name]) for name in names}
            for name in ("prepare", "cleanup"):
                lists[name] = tuple(tuple(argv) for argv in each.get(name, ()))
            access = None if each["access"] is None else Access(**each["access"])
            processes.append(ProcessSpec(**{**each, **lists, "access": access}))
        return Manifest(
            spec=RigSpec(
                subject=spec["subject"],
                processes=tuple(processes),
                load=load and LoadSpec(**{**load, "shape": LoadShape(load["shape"])}),
                options=spec.get("options", {}),
                builds=spec.get("builds", ""),
            ),
            created=datetime.fromisoformat(record["created"]),
            maker=Process(**record["maker"]),
            ports=record["ports"],
            supervisor=None if supervisor is None else Process(**supervisor),
            links=record["links"],
            homes=record["homes"],
            volumes=Volumes(record["volumes"]),
            no_volumes=record["no_volumes"],
            built=record.get("built", ""),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise RigError(
            f"The manifest {str(path)!r} cannot be read: {problem}.",
            next_step="Remove its directory by hand.",
        ) from problem


LOAD = "load"
LINKS = "links"
VOLUME = "data"
_BLANK = re.compile(
    r"\{(?:(?P<own>port|dir|volume|built|group)(?::(?P<own_port>[A-Za-z0-9_-]+))?"
    r"|(?P<name>[A-Za-z0-9_-]+)\.(?P<what>port|dir)(?::(?P<port>[A-Za-z0-9_-]+))?)\}"
)


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of one rig, as its manifest has them."""

    directory: Path
    manifest: Manifest

    def home(self, name: str) -> Path:
        """The directory of one process."""
        return Path(self.manifest.homes.get(name, own_home(self.directory, name)))

    def log(self, name: str) -> Path:
        """Where one process writes what it says."""
        return self.home(name) / f"{name}.log"

    def volume(self, name: str) -> Path:
        """Where one process finds its volume."""
        return self.home(name) / VOLUME

    def data(self, process: ProcessSpec) -> Path:
        """Where the data of a process can be seen from outside."""
        if not has_volume(process):
            return self.home(process.name)
        inside = self.volume(process.name)
        supervisor = self.manifest.supervisor
        if (
            process.volume_mb
            and self.manifest.volumes is Volumes.PRIVATE
            and supervisor is not None
        ):
            return Path(f"/proc/{supervisor.pid}/root{inside}")
        return inside

    def fill(self, process: ProcessSpec, text: str) -> str:
        """The text with its blanks filled in; RigError when one names nothing."""

        def value(match: re.Match[str]) -> str:
            manifest = self.manifest
            if match["own"] == "port":
                port = manifest.ports.get(_key(process.name, match["own_port"]))
                found = None if port is None else str(port)
            elif match["own"]:
                if match["own_port"]:
                    found = match[0]
                elif match["own"] == "built":
                    found = manifest.built or None
                elif match["own"] == "group":
                    found = group_name(self.directory)
                else:
                    place = self.home if match["own"] == "dir" else self.volume
                    found = str(place(process.name))
            elif match["what"] == "port":
                key = _key(match["name"], match["port"])
                found = str(manifest.public_port(key)) if key in manifest.ports else None
            elif match["port"]:
                found = match[0]
            else:
                known = any(process.name == match["name"] for process in manifest.spec.processes)
                found = str(self.home(match["name"])) if known else None
            if found is None:
                raise nonsense(
                    self.manifest.spec, f"{match[0]!r} of {process.name!r} names nothing in it"
                )
            return found

        return _BLANK.sub(value, text)


def own_home(directory: Path, name: str) -> Path:
    """The place of a process in the directory of the rig, where most of them live."""
    return directory / name


def port_keys(process: ProcessSpec) -> tuple[str, ...]:
    """Its ports, its main one first: `NAME`, then `NAME:PORT`."""
    return (process.name, *(_key(process.name, port) for port in process.ports))


def has_volume(process: ProcessSpec) -> bool:
    """Its data lies in a volume: one with a size, or at least a place of that name."""
    if process.volume_mb:
        return True
    words = [*process.argv, *process.env.values(), *process.files, *process.files.values()]
    words += [word for argv in process.prepare for word in argv]
    return any("{volume}" in word for word in words)


def nonsense(spec: RigSpec, why: str) -> RigError:
    """The error for a rig that is not described well."""
    return RigError(
        f"The rig of {spec.subject!r} cannot be built: {why}.",
        next_step="Correct the RigSpec of its plug-in.",
    )


def _key(name: str, port: str | None) -> str:
    return f"{name}:{port}" if port else name
