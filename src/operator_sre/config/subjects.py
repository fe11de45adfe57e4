"""Subjects as operator.toml describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from operator_protocols.domain.silence import Window
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ConfigError
from operator_sre.config.tables import SECRET, unknown
from operator_sre.config.windows import windows_of

__all__ = ["INTERVAL_S_MAX", "INTERVAL_S_MIN", "SubjectConfig", "subjects_of"]

INTERVAL_S_MIN = 0.2
INTERVAL_S_MAX = 3600.0
_TEXTS = ("host", "log", "data_dir", "runs_at")
_TARGET_KEYS = {"name", "kind", "port", "depends_on", "endpoints", "access", *_TEXTS}
_SUBJECT_KEYS = {"plugin", "targets", "options", "interval_s", "windows"}
_ACCESS_FILES = ("ca_file", "certificate_file", "key_file", "password_file", "token_file")
_ACCESS_SECRETS = ("password_file", "token_file")
_ACCESS_KEYS = {"tls", "server_name", "user", *_ACCESS_FILES}


@dataclass(frozen=True, slots=True)
class SubjectConfig:
    """A subject as operator.toml describes it; its plug-in understands the `options`.

    `interval_s` is None where the setting of that name counts. In `windows` nothing that breaks
    opens a ticket.
    """

    name: str
    plugin: str
    targets: tuple[Target, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    interval_s: float | None = None
    windows: tuple[Window, ...] = ()


def subjects_of(table: Any, file: Path | None) -> tuple[SubjectConfig, ...]:
    """The subjects of a file; ConfigError with the first thing that makes no sense."""
    if not isinstance(table, dict):
        raise ConfigError(f"'subjects' in {str(file)!r} has to be a table.")
    folder = file.parent if file else Path.cwd()
    return tuple(_subject(name, body, str(file), folder) for name, body in table.items())


def _subject(name: str, body: Any, file: str, folder: Path) -> SubjectConfig:
    place = f"[subjects.{name}] in {file!r}"
    if not isinstance(body, dict) or not isinstance(body.get("targets", []), list):
        raise ConfigError(f"{place} has to be a table with a list of targets.")
    for key in body:
        if key not in _SUBJECT_KEYS:
            raise unknown(key, sorted(_SUBJECT_KEYS), place)
    if not isinstance(body.get("plugin", name), str):
        raise ConfigError(f"'plugin' of {place} has to be a text.")
    targets = tuple(_target(one, place, folder) for one in body.get("targets", []))
    _check_names(targets, place)
    return SubjectConfig(
        name=name,
        plugin=body.get("plugin", name),
        targets=targets,
        options=_options(body.get("options", {}), place, folder),
        interval_s=_interval_s(body.get("interval_s"), place),
        windows=windows_of(body.get("windows", []), place),
    )


def _check_names(targets: tuple[Target, ...], place: str) -> None:
    names: set[str] = set()
    for target in targets:
        if target.name in names:
            raise ConfigError(f"{place} has two targets named {target.name!r}.")
        names.add(target.name)
    for target in targets:
        for need in target.depends_on:
            if need not in names:
                raise ConfigError(f"{target.name!r} in {place} depends on {need!r}, unknown there.")


def _options(options: Any, place: str, folder: Path) -> Mapping[str, Any]:
    """What the plug-in is told; a `file` is found from where operator.toml lies."""
    if not isinstance(options, dict):
        raise ConfigError(f"'options' of {place} has to be a table.")
    if "file" not in options:
        return options
    if not isinstance(options["file"], str) or not options["file"]:
        raise ConfigError(f"'file' in the options of {place} has to be a path.")
    return {**options, "file": _absolute(options["file"], folder)}


def _absolute(path: str, folder: Path) -> str:
    if path.startswith(SECRET):
        return path
    return str((folder / Path(path).expanduser()).absolute())


def _interval_s(value: Any, place: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"'interval_s' of {place} has to be a number of seconds.")
    if not INTERVAL_S_MIN <= value <= INTERVAL_S_MAX:
        span = f"between {INTERVAL_S_MIN:g} and {INTERVAL_S_MAX:g}"
        raise ConfigError(f"'interval_s' of {place} is {value}, and has to be {span}.")
    return float(value)


def _target(body: Any, place: str, folder: Path) -> Target:
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
    for key in _TEXTS:
        if not isinstance(body.get(key, ""), str):
            raise ConfigError(f"{key!r} of {name!r} in {place} has to be a text.")
    where = f"{name!r} in {place}"
    endpoints = _endpoints(body.get("endpoints", []), where)
    host = body.get("host")
    if host is None and port is None and endpoints:
        # The first address is where it answers; the others are tried when that one does not.
        host, port, endpoints = *_address(endpoints[0], where), endpoints[1:]
    return Target(
        name=name,
        kind=kind,
        host=host or "127.0.0.1",
        port=port,
        depends_on=_names(body.get("depends_on", []), "depends_on", where),
        log=body.get("log", ""),
        data_dir=body.get("data_dir", ""),
        runs_at=_runs_at(body.get("runs_at", "")),
        endpoints=endpoints,
        access=_access(body.get("access"), where, folder),
    )


def _names(value: Any, key: str, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ConfigError(f"{key!r} of {where} has to be a list of names.")
    return tuple(value)


def _endpoints(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ConfigError(f"'endpoints' of {where} has to be a list such as ['host:port'].")
    for one in value:
        _address(one, where)
    return tuple(value)


def _address(endpoint: str, where: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host or not (port.isascii() and port.isdigit()):
        raise ConfigError(f"The endpoint {endpoint!r} of {where} is not like 'host:port'.")
    if not 0 < int(port) < 65536:
        raise ConfigError(f"The endpoint {endpoint!r} of {where} has no port number.")
    return host, int(port)


def _access(body: Any, where: str, folder: Path) -> Access | None:
    if body is None:
        return None
    place = f"the access of {where}"
    if not isinstance(body, dict):
        raise ConfigError(f"In {where}, 'access' has to be a table.")
    for key, value in body.items():
        if key not in _ACCESS_KEYS:
            raise unknown(key, sorted(_ACCESS_KEYS), place)
        if not isinstance(value, bool if key == "tls" else str):
            kind = "true or false" if key == "tls" else "a text"
            raise ConfigError(f"{key!r} in {place} has to be {kind}.")
    for key in _ACCESS_FILES:
        if key not in _ACCESS_SECRETS and str(body.get(key, "")).startswith(SECRET):
            raise ConfigError(
                f"{key!r} in {place} has to be a file; a kept secret cannot stand there.",
                next_step=f"{' and '.join(_ACCESS_SECRETS)} can be {SECRET}NAME.",
            )
    files = {key: _absolute(body[key], folder) for key in _ACCESS_FILES if body.get(key)}
    access = Access(
        tls=body.get("tls", False),
        server_name=body.get("server_name", ""),
        user=body.get("user", ""),
        **files,
    )
    _check_access(access, place)
    return access


def _check_access(access: Access, place: str) -> None:
    if access.key_file and not access.certificate_file:
        raise ConfigError(f"'key_file' in {place} needs a 'certificate_file'.")
    if access.password_file and not access.user:
        raise ConfigError(f"'password_file' in {place} needs a 'user'.")
    if access.user and access.token_file:
        raise ConfigError(f"{place} has both a 'user' and a 'token_file'; it can be one only.")
    told = access.ca_file or access.certificate_file or access.server_name
    if told and not access.tls:
        raise ConfigError(f"{place} names certificates and is without TLS; set 'tls = true'.")


def _runs_at(address: str) -> str:
    """Where commands of a target run, if that can be understood."""
    if address:
        from operator_sre.executor.transports.places import place_of

        place_of(address)
    return address
