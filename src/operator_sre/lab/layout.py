"""Where everything of a rig lies, and the blanks of a ProcessSpec that say so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.errors import RigError
from operator_sre.lab.manifest import Manifest, Volumes

__all__ = ["LINKS", "LOAD", "Layout", "has_volume", "nonsense", "own_home", "port_keys"]

LOAD = "load"
LINKS = "links"
VOLUME = "data"
_BLANK = re.compile(
    r"\{(?:(?P<own>port|dir|volume)(?::(?P<own_port>[A-Za-z0-9_-]+))?"
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
            found = self._value(process, match)
            if found is None:
                raise nonsense(
                    self.manifest.spec, f"{match[0]!r} of {process.name!r} names nothing in it"
                )
            return found

        return _BLANK.sub(value, text)

    def _value(self, process: ProcessSpec, match: re.Match[str]) -> str | None:
        manifest = self.manifest
        if match["own"] == "port":
            port = manifest.ports.get(_key(process.name, match["own_port"]))
            return None if port is None else str(port)
        if match["own"]:
            if match["own_port"]:
                return match[0]
            place = self.home if match["own"] == "dir" else self.volume
            return str(place(process.name))
        if match["what"] == "port":
            key = _key(match["name"], match["port"])
            return str(manifest.reached(key)) if key in manifest.ports else None
        if match["port"]:
            return match[0]
        known = any(each.name == match["name"] for each in manifest.spec.processes)
        return str(self.home(match["name"])) if known else None


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
