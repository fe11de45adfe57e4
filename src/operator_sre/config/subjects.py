"""Subjects as operator.toml describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operator_protocols.domain.target import Target
from operator_protocols.errors import ConfigError
from operator_sre.config.tables import unknown

__all__ = ["SubjectConfig", "subjects_of"]

_TARGET_KEYS = {"name", "kind", "host", "port", "depends_on", "log", "runs_at"}
_SUBJECT_KEYS = {"plugin", "targets", "options"}


@dataclass(frozen=True, slots=True)
class SubjectConfig:
    """A subject as operator.toml describes it; its plug-in understands the `options`."""

    name: str
    plugin: str
    targets: tuple[Target, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


def subjects_of(table: Any, file: Path | None) -> tuple[SubjectConfig, ...]:
    """The subjects of a file; ConfigError with the first thing that makes no sense."""
    if not isinstance(table, dict):
        raise ConfigError(f"'subjects' in {str(file)!r} has to be a table.")
    return tuple(_subject(name, body, str(file)) for name, body in table.items())


def _subject(name: str, body: Any, file: str) -> SubjectConfig:
    place = f"[subjects.{name}] in {file!r}"
    if not isinstance(body, dict) or not isinstance(body.get("targets", []), list):
        raise ConfigError(f"{place} has to be a table with a list of targets.")
    for key in body:
        if key not in _SUBJECT_KEYS:
            raise unknown(key, sorted(_SUBJECT_KEYS), place)
    if not isinstance(body.get("plugin", name), str):
        raise ConfigError(f"'plugin' of {place} has to be a text.")
    targets = tuple(_target(one, place) for one in body.get("targets", []))
    names = [target.name for target in targets]
    for target in targets:
        if names.count(target.name) > 1:
            raise ConfigError(f"{place} has two targets named {target.name!r}.")
        for need in target.depends_on:
            if need not in names:
                raise ConfigError(f"{target.name!r} in {place} depends on {need!r}, unknown there.")
    options = body.get("options", {})
    if not isinstance(options, dict):
        raise ConfigError(f"'options' of {place} has to be a table.")
    return SubjectConfig(name, body.get("plugin", name), targets, options)


def _target(body: Any, place: str) -> Target:
    if not isinstance(body, dict):
        raise ConfigError(f"A target of {place} has to be a table.")
    for key in body:
        if key not in _TARGET_KEYS:
            raise unknown(key, sorted(_TARGET_KEYS), place)
    name, kind, port = body.get("name"), body.get("kind"), body.get("port")
    if not (isinstance(name, str) and name and isinstance(kind, str) and kind):
        raise ConfigError(f"A target of {place} needs a name and a kind.")
    if port is not None and (type(port) is not int or not 0 < port < 65536):
        raise ConfigError(f"The port of {name!r} in {place} is not a port number.")
    for key in ("host", "log", "runs_at"):
        if not isinstance(body.get(key, ""), str):
            raise ConfigError(f"{key!r} of {name!r} in {place} has to be a text.")
    needs = body.get("depends_on", [])
    if not isinstance(needs, list) or not all(isinstance(need, str) for need in needs):
        raise ConfigError(f"'depends_on' of {name!r} in {place} has to be a list of names.")
    return Target(
        name=name,
        kind=kind,
        host=body.get("host", "127.0.0.1"),
        port=port,
        depends_on=tuple(needs),
        log=body.get("log", ""),
        runs_at=_runs_at(body.get("runs_at", "")),
    )


def _runs_at(address: str) -> str:
    """Where commands of a target run, if that can be understood."""
    if address:
        from operator_sre.executor.transports.places import place_of

        place_of(address)
    return address
