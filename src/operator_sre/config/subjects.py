"""Subjects as operator.toml describes them, their windows, and spans as people write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path
from typing import Any

from operator_protocols.domain.silence import DAYS, Window
from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import ConfigError
from operator_sre.config.tables import SECRET, check_table, unknown

__all__ = ["INTERVAL_S_MAX", "INTERVAL_S_MIN", "SubjectConfig", "seconds_of", "subjects_of"]

INTERVAL_S_MIN = 0.2
INTERVAL_S_MAX = 3600.0
_TEXTS = ("host", "log", "data_dir", "runs_at")
_TARGET_KEYS = ("access", "depends_on", "endpoints", "kind", "name", "port", *_TEXTS)
_SUBJECT_KEYS = ("interval_s", "options", "plugin", "targets", "windows")
_ACCESS_FILES = ("ca_file", "certificate_file", "key_file", "password_file", "token_file")
_ACCESS_SECRETS = ("password_file", "token_file")
_ACCESS_KEYS = ("server_name", "tls", "user", *_ACCESS_FILES)
_WINDOW_KEYS = ("days", "from", "for", "zone", "targets", "invariants", "reason")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
WINDOW_S_MAX = 7 * 86_400.0


def seconds_of(text: str) -> float | None:
    """How long `90s`, `1h30m` or `2d` is; None for what is no span of time."""
    if not _SPAN.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


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
        raise ConfigError(f"'subjects' in {str(file)!r} must be a table.")
    folder = file.parent if file else Path.cwd()
    subjects = []
    for name, body in table.items():
        place = f"[subjects.{name}] in {str(file)!r}"
        if not isinstance(body, dict) or not isinstance(body.get("targets", []), list):
            raise ConfigError(f"{place} must be a table with a list of targets.")
        check_table(body, _SUBJECT_KEYS, place)
        plugin = body.get("plugin", name)
        if not isinstance(plugin, str):
            raise ConfigError(f"'plugin' of {place} must be a string.")
        targets = tuple(_read_target(target, place, folder) for target in body.get("targets", []))
        names: set[str] = set()
        for target in targets:
            if target.name in names:
                raise ConfigError(f"{place} has two targets named {target.name!r}.")
            names.add(target.name)
        for target in targets:
            for need in target.depends_on:
                if need not in names:
                    raise ConfigError(
                        f"{target.name!r} in {place} depends on {need!r}, not a target there."
                    )
        options = body.get("options", {})
        if not isinstance(options, dict):
            raise ConfigError(f"'options' of {place} must be a table.")
        if "file" in options:
            if not isinstance(options["file"], str) or not options["file"]:
                raise ConfigError(f"'file' in the options of {place} must be a path.")
            options = {**options, "file": _absolute(options["file"], folder)}
        interval_s = body.get("interval_s")
        if interval_s is not None:
            if isinstance(interval_s, bool) or not isinstance(interval_s, int | float):
                raise ConfigError(f"'interval_s' of {place} must be a number of seconds.")
            if not INTERVAL_S_MIN <= interval_s <= INTERVAL_S_MAX:
                span = f"between {INTERVAL_S_MIN:g} and {INTERVAL_S_MAX:g}"
                raise ConfigError(f"'interval_s' of {place} is {interval_s}, and must be {span}.")
            interval_s = float(interval_s)
        windows = body.get("windows", [])
        if not isinstance(windows, list):
            raise ConfigError(f"'windows' of {place} must be a list of tables.")
        subjects.append(
            SubjectConfig(
                name=name,
                plugin=plugin,
                targets=targets,
                options=options,
                interval_s=interval_s,
                windows=tuple(_read_window(window, f"a window of {place}") for window in windows),
            )
        )
    return tuple(subjects)


def _absolute(path: str, folder: Path) -> str:
    """A path that is found from where operator.toml lies; the name of a secret stays."""
    if path.startswith(SECRET):
        return path
    return str((folder / Path(path).expanduser()).absolute())


def _read_target(body: Any, place: str, folder: Path) -> Target:
    if not isinstance(body, dict):
        raise ConfigError(f"A target of {place} must be a table.")
    check_table(body, _TARGET_KEYS, place)
    name, kind, port = body.get("name"), body.get("kind"), body.get("port")
    if not (isinstance(name, str) and name and isinstance(kind, str) and kind):
        raise ConfigError(f"A target of {place} needs a name and a kind.")
    if port is not None and (type(port) is not int or not 0 < port < 65536):
        raise ConfigError(f"The port of {name!r} in {place} is not a port number.")
    for key in _TEXTS:
        if not isinstance(body.get(key, ""), str):
            raise ConfigError(f"{key!r} of {name!r} in {place} must be a string.")
    where = f"{name!r} in {place}"
    endpoints, needs = body.get("endpoints", []), body.get("depends_on", [])
    if not isinstance(endpoints, list) or not all(
        isinstance(endpoint, str) for endpoint in endpoints
    ):
        raise ConfigError(f"'endpoints' of {where} must be a list such as ['host:port'].")
    addresses: list[tuple[str, int]] = []
    for endpoint in endpoints:
        named, _, digits = endpoint.rpartition(":")
        bare = named.removeprefix("[").removesuffix("]")
        if not bare or "/" in bare or not (digits.isascii() and digits.isdigit()):
            raise ConfigError(f"The endpoint {endpoint!r} of {where} is not like 'host:port'.")
        if not 0 < int(digits) < 65536:
            raise ConfigError(f"The endpoint {endpoint!r} of {where} has no port number.")
        addresses.append((bare, int(digits)))
    host = body.get("host")
    if host is None and port is None and endpoints:
        # The first address is where it answers; the others are tried when that one does not.
        (host, port), endpoints = addresses[0], endpoints[1:]
    if not isinstance(needs, list) or not all(isinstance(need, str) for need in needs):
        raise ConfigError(f"'depends_on' of {where} must be a list of names.")
    runs_at = body.get("runs_at", "")
    if runs_at:
        from operator_sre.executor.transports.places import place_of

        place_of(runs_at)  # an error where it cannot be understood
    return Target(
        name=name,
        kind=kind,
        host=host or "127.0.0.1",
        port=port,
        depends_on=tuple(needs),
        log=body.get("log", ""),
        data_dir=body.get("data_dir", ""),
        runs_at=runs_at,
        endpoints=tuple(endpoints),
        access=None if body.get("access") is None else _read_access(body["access"], where, folder),
    )


def _read_access(body: Any, where: str, folder: Path) -> Access:
    place = f"the access of {where}"
    if not isinstance(body, dict):
        raise ConfigError(f"In {where}, 'access' must be a table.")
    for key, value in body.items():
        if key not in _ACCESS_KEYS:
            raise unknown(key, sorted(_ACCESS_KEYS), place)
        if not isinstance(value, bool if key == "tls" else str):
            kind = "true or false" if key == "tls" else "a string"
            raise ConfigError(f"{key!r} in {place} must be {kind}.")
    for key in _ACCESS_FILES:
        if key not in _ACCESS_SECRETS and str(body.get(key, "")).startswith(SECRET):
            raise ConfigError(
                f"{key!r} in {place} must be a file; a stored secret is not allowed here.",
                next_step=f"{' and '.join(_ACCESS_SECRETS)} can be {SECRET}NAME.",
            )
    files = {key: _absolute(body[key], folder) for key in _ACCESS_FILES if body.get(key)}
    access = Access(
        tls=body.get("tls", False),
        server_name=body.get("server_name", ""),
        user=body.get("user", ""),
        **files,
    )
    if access.key_file and not access.certificate_file:
        raise ConfigError(f"'key_file' in {place} needs a 'certificate_file'.")
    if access.password_file and not access.user:
        raise ConfigError(f"'password_file' in {place} needs a 'user'.")
    if access.user and access.token_file:
        raise ConfigError(f"{place} has both 'user' and 'token_file'; set only one.")
    certificates = access.ca_file or access.certificate_file or access.server_name
    if certificates and not access.tls:
        raise ConfigError(f"{place} names certificates but does not use TLS; set 'tls = true'.")
    return access


def _read_window(body: Any, place: str) -> Window:
    if not isinstance(body, dict):
        raise ConfigError(f"'windows': {place} must be a table.")
    check_table(body, _WINDOW_KEYS, place)
    for_s = seconds_of(str(body.get("for", "")))
    if for_s is None or not 0 < for_s <= WINDOW_S_MAX:
        raise ConfigError(
            f"'for' in {place} must be a duration of up to 7d, such as '2h' or '90m'."
        )
    reason = body.get("reason", "planned maintenance")
    if not isinstance(reason, str):
        raise ConfigError(f"'reason' in {place} must be a string.")
    days = body.get("days", list(DAYS))
    if not isinstance(days, list) or not days:
        raise ConfigError(f"'days' in {place} must be a list such as ['sat', 'sun'].")
    for day in days:
        if day not in DAYS:
            raise ConfigError(f"{day!r} in {place} is not a day; use {', '.join(DAYS)}.")
    begins = body.get("from")
    if not isinstance(begins, time):  # TOML has times of its own, which need no quotes
        try:
            hour, minute = str(begins).split(":")
            begins = time(int(hour), int(minute))
        except ValueError:
            text = f"'from' in {place} must be a time of day such as '02:00'."
            raise ConfigError(text) from None
    zone = body.get("zone", "UTC")
    if zone != "UTC":
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # only who has windows waits for it

        try:
            zone = str(ZoneInfo(zone).key)
        except (ZoneInfoNotFoundError, ValueError, TypeError, AttributeError, OSError):
            raise ConfigError(
                f"{zone!r} in {place} is not a valid time zone; use 'UTC' or 'Europe/Berlin'."
            ) from None
    return Window(
        days=tuple(days),
        begins=begins,
        for_s=for_s,
        zone=zone,
        targets=_read_patterns(body.get("targets", ["*"]), "targets", place),
        invariants=_read_patterns(body.get("invariants", ["*"]), "invariants", place),
        reason=reason,
    )


def _read_patterns(value: Any, key: str, place: str) -> tuple[str, ...]:
    if (
        not isinstance(value, list)
        or not all(isinstance(pattern, str) for pattern in value)
        or not value
    ):
        raise ConfigError(f"{key!r} in {place} must be a list of names or patterns.")
    return tuple(value)
