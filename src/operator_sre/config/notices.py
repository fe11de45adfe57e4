"""Who is notified of what, as operator.toml describes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from operator_protocols.domain.health import Severity
from operator_protocols.errors import ConfigError
from operator_sre.config.tables import unknown
from operator_sre.notify.event import Event
from operator_sre.notify.quiet import Quiet, quiet_of

__all__ = ["NoticeConfig", "notices_of"]

_KEYS = (
    *("urls_file", "events", "min_severity", "group_s", "per_hour_max"),
    *("web_url", "quiet_hours"),
)
GROUP_S_MAX = 600.0
PER_HOUR_MAX = 3600


@dataclass(frozen=True, slots=True)
class NoticeConfig:
    """Who is notified of what, and how often at most. Without a file of addresses, nobody is.

    `web_url` is where people reach the console in a browser.
    """

    urls_file: str = ""
    events: frozenset[Event] = frozenset(Event)
    min_severity: Severity = Severity.INFO
    group_s: float = 10.0
    per_hour_max: int = 30
    web_url: str = ""
    quiet: Quiet | None = None


def notices_of(table: Any, file: Path | None) -> NoticeConfig:
    """The `[notify]` of a file; ConfigError with the first thing that makes no sense."""
    place = f"[notify] in {str(file)!r}"
    if not isinstance(table, dict):
        raise ConfigError(f"{place} has to be a table.")
    for key in table:
        if key not in _KEYS:
            raise unknown(key, _KEYS, place)
    urls_file = table.get("urls_file", "")
    if table and not (isinstance(urls_file, str) and urls_file):
        raise ConfigError(
            f"{place} needs 'urls_file', a file with the addresses.",
            next_step="See docs/notifications.md.",
        )
    if file and urls_file:
        urls_file = str(file.parent / Path(urls_file).expanduser())
    return NoticeConfig(
        urls_file=urls_file,
        events=_events(table.get("events", list(Event)), place),
        min_severity=_severity(table.get("min_severity", Severity.INFO.value), place),
        group_s=_number(table.get("group_s", 10), 0, GROUP_S_MAX, f"'group_s' of {place}"),
        per_hour_max=int(
            _number(table.get("per_hour_max", 30), 1, PER_HOUR_MAX, f"'per_hour_max' of {place}")
        ),
        web_url=_place(table.get("web_url", ""), f"'web_url' of {place}"),
        quiet=_quiet(table.get("quiet_hours", ""), f"'quiet_hours' of {place}"),
    )


def _place(text: Any, what: str) -> str:
    """An address that links begin with."""
    try:
        url = urlsplit(text if isinstance(text, str) else "?")
        fine = url.scheme in ("http", "https") and bool(url.hostname) and not url.query
    except ValueError:
        fine = False
    if text != "" and (not fine or url.fragment or url.username is not None):
        raise ConfigError(f"{what} has to be an address such as https://ops.example.com.")
    return str(text).rstrip("/")


def _quiet(text: Any, what: str) -> Quiet | None:
    if text == "":
        return None
    try:
        return quiet_of(str(text))
    except ValueError as error:
        raise ConfigError(f"{what} {error}.") from None


def _events(words: Any, place: str) -> frozenset[Event]:
    if not isinstance(words, list) or not words or not set(map(str, words)) <= set(Event):
        raise ConfigError(f"'events' of {place} has to be a list of {', '.join(Event)}.")
    return frozenset(Event(word) for word in words)


def _severity(word: Any, place: str) -> Severity:
    if word not in set(Severity):
        raise ConfigError(f"'min_severity' of {place} has to be one of {', '.join(Severity)}.")
    return Severity(word)


def _number(value: Any, low: float, high: float, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{what} has to be a number between {low:g} and {high:g}.")
    return float(value)
