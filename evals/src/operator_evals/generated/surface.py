"""What can be broken in a rig: its processes, ports, links, volumes, files and settings. Data.

It comes from the description of the rig alone, and from what its servers list themselves, so that
every plug-in with a rig has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath

from operator_protocols.domain.rig import ProcessSpec, RigSpec

__all__ = [
    "AdminCommand",
    "Part",
    "Setting",
    "SettingType",
    "Surface",
    "file_settings",
    "settings_file",
    "surface_of",
]

CONFIG_SUFFIXES = (".conf", ".toml", ".json", ".yaml", ".yml", ".ini", ".properties")
_LINE = re.compile(r"^\s*([A-Za-z][A-Za-z0-9_.-]*)\s*(?:[=:]\s*|\s)(\S.*?)\s*$")
_DURATION = re.compile(r"\d+(?:\.\d+)?(?:ns|us|ms|s|m|h)(?:\d+(?:ns|us|ms|s|m|h))*")


class SettingType(StrEnum):
    """The type within which a value is mutated."""

    BOOL = "bool"
    INTEGER = "integer"
    REAL = "real"
    CHOICE = "choice"
    DURATION = "duration"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a server: its type and limits; `live` where it can be changed at run time, and
    `filed` where its file of settings may have it.
    """

    name: str
    type: SettingType
    value: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    live: bool = False
    filed: bool = True


@dataclass(frozen=True, slots=True)
class AdminCommand:
    """A change of accounts, grants, members or roles; `about` names an account or another part."""

    name: str
    about: str = ""
    reversible: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One process of a rig, and every way in which it can be hurt."""

    name: str
    kind: str
    linked: bool = False
    volume: bool = False
    sized: bool = False
    files: tuple[str, ...] = ()
    config: str = ""
    peers: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    commands: tuple[AdminCommand, ...] = ()
    served: bool = False  # clients use it


@dataclass(frozen=True, slots=True)
class Surface:
    """All parts of a rig. A `stand_in` has no real servers, so only processes and links count."""

    subject: str
    parts: tuple[Part, ...]
    stand_in: bool = False

    def with_server(
        self,
        settings: Mapping[str, Sequence[Setting]],
        commands: Mapping[str, Sequence[AdminCommand]],
    ) -> Surface:
        """The same with what the servers list themselves, in an order that never changes."""

        def describe(part: Part) -> Part:
            listed = settings.get(part.name) or part.settings
            return replace(
                part,
                settings=tuple(sorted(listed, key=lambda setting: setting.name)),
                commands=tuple(
                    sorted(commands.get(part.name, ()), key=lambda each: (each.name, each.about))
                ),
            )

        return replace(self, parts=tuple(describe(part) for part in self.parts))


def surface_of(spec: RigSpec, *, stand_in: bool = False) -> Surface:
    """What the description of a rig shows, without a server of it."""
    served = "" if spec.load is None else spec.load.kind
    linked = [process.name for process in spec.processes if process.linked]
    parts = []
    for process in sorted(spec.processes, key=lambda each: each.name):
        config = settings_file(process)
        text = process.files.get(config, "")
        parts.append(
            Part(
                name=process.name,
                kind=process.kind,
                linked=process.linked,
                volume="{volume}" in " ".join(_texts(process)) or bool(process.volume_mb),
                sized=bool(process.volume_mb),
                files=tuple(sorted(process.files)),
                config=config,
                peers=tuple(
                    name
                    for name in sorted(each.name for each in spec.processes)
                    if name != process.name and (process.linked or name in linked)
                ),
                settings=tuple(sorted(file_settings(config, text), key=lambda each: each.name)),
                served=process.kind == served or not served,
            )
        )
    return Surface(spec.subject, tuple(parts), stand_in)


def settings_file(process: ProcessSpec) -> str:
    """The file with its settings: the first that its command, or a script of it, names; or ""."""
    named = [name for name in sorted(process.files) if name.endswith(CONFIG_SUFFIXES)]
    scripts = [text for name, text in process.files.items() if name.endswith(".sh")]
    for place in (" ".join(process.argv), " ".join(scripts)):
        for name in named:
            if re.search(rf"/{re.escape(name)}\b", place):
                return name
    return ""


def file_settings(name: str, text: str) -> list[Setting]:
    """The settings that a file of any usual format holds, each with the type of its value."""
    if PurePosixPath(name).suffix == ".json":
        try:
            table = json.loads(text)
        except ValueError:
            return []
        pairs = [(key, json.dumps(value)) for key, value in table.items()] if table else []
    else:
        lines = (line for line in text.splitlines() if not line.lstrip().startswith(("#", "[")))
        pairs = [(match[1], match[2]) for line in lines if (match := _LINE.match(line))]
    # Which value of a duplicate key counts is not known.
    keys = [key for key, _ in pairs]
    return [_make_setting(key, value) for key, value in pairs if keys.count(key) == 1]


def _make_setting(name: str, text: str) -> Setting:
    value = text.strip("\"'")
    if value.lower() in ("true", "false", "on", "off", "yes", "no"):
        return Setting(name, SettingType.BOOL, value)
    if re.fullmatch(r"-?\d+", value):
        return Setting(name, SettingType.INTEGER, value)
    if re.fullmatch(r"-?\d+\.\d+", value):
        return Setting(name, SettingType.REAL, value)
    if _DURATION.fullmatch(value):
        return Setting(name, SettingType.DURATION, value)
    # A text may be a password, which is another one in every rig.
    return Setting(name, SettingType.TEXT)


def _texts(process: ProcessSpec) -> list[str]:
    prepared = [word for argv in process.prepare for word in argv]
    return [*process.argv, *process.env.values(), *process.files.values(), *prepared]
