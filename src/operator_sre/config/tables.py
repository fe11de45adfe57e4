"""The tables `[triggers.*]` and `[notify]` of operator.toml, and checks for any table."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from operator_protocols.domain.health import Severity
from operator_protocols.errors import ConfigError
from operator_sre.notify.notice import Event, Quiet, quiet_of
from operator_sre.triggers.trigger import FIELDS, Trigger, TriggerKind

__all__ = [
    "SECRET",
    "NoticeConfig",
    "check_table",
    "notices_of",
    "number_of",
    "triggers_of",
    "unknown",
]

# The prefix of the name of a stored secret, where a path to a file is accepted too.
SECRET = "secret:"
GROUP_S_MAX = 600.0
PER_HOUR_MAX = 3600
_NOTICE_KEYS = (
    *("urls_file", "events", "min_severity", "group_s", "per_hour_max"),
    *("web_url", "quiet_hours"),
)
_TEXTS = ("token_file", "hmac_file", "hmac_header", "time_header", "subject", "target", "invariant")
_TRIGGER_KEYS = ("kind", *_TEXTS, "open", "fields")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")


def unknown(name: str, valid: Iterable[str], where: str) -> ConfigError:
    """The error for an unknown key, with the nearest known one."""
    near = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.0)
    return ConfigError(
        f"{name!r} in {where} is not a setting.", next_step=f"Did you mean {near[0]!r}?"
    )


def check_table(table: Any, keys: Iterable[str], place: str) -> None:
    """ConfigError unless it is a table of these keys."""
    if not isinstance(table, dict):
        raise ConfigError(f"{place} must be a table.")
    for key in table:
        if key not in keys:
            raise unknown(key, keys, place)


def number_of(value: Any, low: float, high: float, key: str, place: str) -> float:
    """A number of a table within its bounds; ConfigError for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigError(f"{key!r} of {place} must be a number between {low:g} and {high:g}.")
    return float(value)


@dataclass(frozen=True, slots=True)
class NoticeConfig:
    """Who is notified of what, and how often at most. Without a file of addresses, no one is.

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
    """The `[notify]` of a file; ConfigError names the first mistake."""
    place = f"[notify] in {str(file)!r}"
    check_table(table, _NOTICE_KEYS, place)
    urls_file = table.get("urls_file", "")
    if table and not (isinstance(urls_file, str) and urls_file):
        raise ConfigError(
            f"{place} needs 'urls_file', a file with the addresses.",
            next_step="See docs/notifications.md.",
        )
    if file and urls_file:
        urls_file = str(file.parent / Path(urls_file).expanduser())
    events = table.get("events", list(Event))
    if not isinstance(events, list) or not events or not set(map(str, events)) <= set(Event):
        raise ConfigError(f"'events' of {place} must be a list of {', '.join(Event)}.")
    severity = table.get("min_severity", Severity.INFO.value)
    if severity not in set(Severity):
        raise ConfigError(f"'min_severity' of {place} must be one of {', '.join(Severity)}.")
    group_s = number_of(table.get("group_s", 10), 0, GROUP_S_MAX, "group_s", place)
    per_hour = number_of(table.get("per_hour_max", 30), 1, PER_HOUR_MAX, "per_hour_max", place)
    web_url = table.get("web_url", "")
    try:
        url = urlsplit(web_url if isinstance(web_url, str) else "?")
        fine = url.scheme in ("http", "https") and bool(url.hostname) and not url.query
    except ValueError:
        fine = False
    if web_url != "" and (not fine or url.fragment or url.username is not None):
        raise ConfigError(
            f"'web_url' of {place} must be an address such as https://ops.example.com."
        )
    quiet_hours = table.get("quiet_hours", "")
    try:
        quiet = None if quiet_hours == "" else quiet_of(str(quiet_hours))
    except ValueError as error:
        raise ConfigError(f"'quiet_hours' of {place} {error}.") from None
    return NoticeConfig(
        urls_file=urls_file,
        events=frozenset(Event(word) for word in events),
        min_severity=Severity(severity),
        group_s=group_s,
        per_hour_max=int(per_hour),
        web_url=str(web_url).rstrip("/"),
        quiet=quiet,
    )


def triggers_of(table: Any, file: Path | None) -> tuple[Trigger, ...]:
    """The triggers of a file; ConfigError names the first mistake."""
    if not isinstance(table, dict):
        raise ConfigError(f"'triggers' in {str(file)!r} must be a table.")
    triggers = []
    for name, body in table.items():
        place = f"[triggers.{name}] in {str(file)!r}"
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{place} needs a name of letters, digits, - and _, because it is part of a URL."
            )
        check_table(body, _TRIGGER_KEYS, place)
        for key, value in body.items():
            if key in _TEXTS and not (isinstance(value, str) and value):
                raise ConfigError(f"{key!r} of {place} must be a string.")
        kind = body.get("kind")
        if kind not in set(TriggerKind):
            raise ConfigError(f"'kind' of {place} must be one of {', '.join(TriggerKind)}.")
        for key in ("hmac_header", "time_header"):
            if not _HEADER.fullmatch(body.get(key, "x")):
                raise ConfigError(f"{key!r} of {place} is not the name of a header.")
        if body.get("open", 0) not in (0, 1) or isinstance(body.get("open"), bool):
            raise ConfigError(f"'open' of {place} must be 0 or 1.")
        if body.get("invariant") and not body.get("subject"):
            raise ConfigError(
                f"'invariant' of {place} needs the subject that it belongs to.",
                next_step='Add: subject = "NAME"',
            )
        texts = {key: body[key] for key in _TEXTS if key in body}
        for key in texts.keys() & {"token_file", "hmac_file"}:
            texts[key] = str(Path(str(file)).parent / Path(texts[key]).expanduser())
        fields = body.get("fields", {})
        if fields and kind != TriggerKind.JSON:
            raise ConfigError(f"'fields' of {place} are for kind 'json'.")
        if not isinstance(fields, dict):
            raise ConfigError(f"'fields' of {place} must be a table.")
        for key, value in fields.items():
            if key not in FIELDS:
                raise unknown(key, FIELDS, f"'fields' of {place}")
            if not isinstance(value, str):
                raise ConfigError(f"{key!r} in 'fields' of {place} must be a path such as 'a.b'.")
        if texts.get("target") and kind == TriggerKind.JSON:
            raise ConfigError(
                f"'target' of {place} applies to Alertmanager labels only.",
                next_step="For kind 'json' use: fields = { target = \"path.to.it\" }",
            )
        is_open = bool(body.get("open", 0))
        fields = {**FIELDS, **fields}
        triggers.append(Trigger(name, TriggerKind(kind), **texts, open=is_open, fields=fields))
    return tuple(triggers)
