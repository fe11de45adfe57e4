"""The manifest of a rig: what it is a copy of, where its processes answer, who watches over it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from operator_protocols.domain.rig import LoadShape, LoadSpec, ProcessSpec, RigSpec
from operator_protocols.domain.target import Access, Process
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.processes.files import write_atomically
from operator_sre.processes.identity import alive

__all__ = ["HOST", "MANIFEST_FILE", "Manifest", "Volumes", "read_manifest", "write_manifest"]

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

    `ports` are those that processes listen on, `links` those at which linked ones are reached, both
    by `NAME` and `NAME:PORT`. `homes` are the directories of those that do not live in the rig's
    own, `volumes` how volumes with a size were made.
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

    @property
    def live(self) -> bool:
        """Somebody looks after it: its supervisor, or whoever is making it."""
        return alive(self.supervisor or self.maker)

    def reached(self, key: str) -> int:
        """Where everybody else reaches a port, given as `NAME` or `NAME:PORT`."""
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
                next_step="End it first with: operator lab down",
            )
        return _manifest(record)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise RigError(
            f"The manifest {str(path)!r} cannot be read: {problem}.",
            next_step="Remove its directory by hand.",
        ) from problem


def _manifest(record: Mapping[str, Any]) -> Manifest:
    supervisor = record["supervisor"]
    return Manifest(
        spec=_spec(record["spec"]),
        created=datetime.fromisoformat(record["created"]),
        maker=Process(**record["maker"]),
        ports=record["ports"],
        supervisor=None if supervisor is None else Process(**supervisor),
        links=record["links"],
        homes=record["homes"],
        volumes=Volumes(record["volumes"]),
        no_volumes=record["no_volumes"],
    )


def _spec(record: Mapping[str, Any]) -> RigSpec:
    load = record["load"]
    return RigSpec(
        subject=record["subject"],
        processes=tuple(_process(each) for each in record["processes"]),
        load=None if load is None else LoadSpec(**{**load, "shape": LoadShape(load["shape"])}),
        options=record.get("options", {}),
    )


def _process(record: Mapping[str, Any]) -> ProcessSpec:
    names = ("argv", "depends_on", "ready_argv", "ports")
    lists = {name: tuple(record[name]) for name in names}
    prepare = tuple(tuple(argv) for argv in record["prepare"])
    access = None if record["access"] is None else Access(**record["access"])
    return ProcessSpec(**{**record, **lists, "prepare": prepare, "access": access})
