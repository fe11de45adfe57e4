"""Maintenance windows as operator.toml describes them, and spans of time as people write them."""

from __future__ import annotations

import re
from datetime import time
from typing import Any

from operator_protocols.domain.silence import DAYS, Window
from operator_protocols.errors import ConfigError
from operator_sre.config.tables import unknown

__all__ = ["seconds_of", "windows_of"]

_KEYS = ("days", "from", "for", "zone", "targets", "invariants", "reason")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
WINDOW_S_MAX = 7 * 86_400.0


def seconds_of(text: str) -> float | None:
    """How long `90s`, `1h30m` or `2d` is; None for what is no span of time."""
    if not _SPAN.fullmatch(text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


def windows_of(value: Any, place: str) -> tuple[Window, ...]:
    """The windows of a subject; ConfigError with the first thing that makes no sense."""
    if not isinstance(value, list):
        raise ConfigError(f"'windows' of {place} has to be a list of tables.")
    return tuple(_window(one, f"a window of {place}") for one in value)


def _window(body: Any, place: str) -> Window:
    if not isinstance(body, dict):
        raise ConfigError(f"'windows': {place} has to be a table.")
    for key in body:
        if key not in _KEYS:
            raise unknown(key, _KEYS, place)
    for_s = seconds_of(str(body.get("for", "")))
    if for_s is None or not 0 < for_s <= WINDOW_S_MAX:
        raise ConfigError(f"'for' in {place} has to be a span up to 7d, such as '2h' or '90m'.")
    reason = body.get("reason", "planned maintenance")
    if not isinstance(reason, str):
        raise ConfigError(f"'reason' in {place} has to be a text.")
    return Window(
        days=_days(body.get("days", list(DAYS)), place),
        begins=_begins(body.get("from"), place),
        for_s=for_s,
        zone=_zone(body.get("zone", "UTC"), place),
        targets=_patterns(body.get("targets", ["*"]), "targets", place),
        invariants=_patterns(body.get("invariants", ["*"]), "invariants", place),
        reason=reason,
    )


def _days(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ConfigError(f"'days' in {place} has to be a list such as ['sat', 'sun'].")
    for one in value:
        if one not in DAYS:
            raise ConfigError(f"{one!r} in {place} is no day; days are {', '.join(DAYS)}.")
    return tuple(value)


def _begins(value: Any, place: str) -> time:
    if isinstance(value, time):  # TOML has times of its own, which need no quotes
        return value
    try:
        hour, minute = str(value).split(":")
        return time(int(hour), int(minute))
    except ValueError:
        raise ConfigError(f"'from' in {place} has to be a time of day such as '02:00'.") from None


def _zone(value: Any, place: str) -> str:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # only who has windows waits for it

    if value == "UTC":
        return "UTC"
    try:
        return str(ZoneInfo(value).key)
    except (ZoneInfoNotFoundError, ValueError, TypeError, AttributeError, OSError):
        raise ConfigError(
            f"{value!r} in {place} is no time zone; one is 'UTC' or 'Europe/Berlin'."
        ) from None


def _patterns(value: Any, key: str, place: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value) or not value:
        raise ConfigError(f"{key!r} in {place} has to be a list of names or patterns.")
    return tuple(value)
