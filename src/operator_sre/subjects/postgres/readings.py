"""What servers answered, as flat readings of each, and what they tell together. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.kit.changes import hide_secret

__all__ = [
    "Scans",
    "compare",
    "configured_of",
    "differs",
    "rates",
    "readings_of",
    "scans_of",
    "words_of",
]

NAMES_MAX = 5
WORDS_MAX = 40
TEXT_MAX = 120
HEARD_S = 5.0  # a primary with something to write says something at least that often
# Tables that are read row by row: name -> (scans, rows read by them, rows that it has).
Scans = Mapping[str, tuple[int, int, int]]
_MEMORY = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40, "8kb": 2**13}
_TIME = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_FLAGS = {"on": "on", "true": "on", "yes": "on", "1": "on"}
_FLAGS |= {"off": "off", "false": "off", "no": "off", "0": "off"}


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:TEXT_MAX]


def _seconds(value: object) -> float | None:
    # A clock that was set back makes no duration negative.
    return round(max(0.0, float(value)), 3) if isinstance(value, int | float | Decimal) else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float | Decimal) else None


def _as_it_is(value: Any) -> Value:
    found: Value = value
    return found


# reading -> the section that has it, where in that, and how it is read. What replication says is
# `primary` or `replica`, by who says it.
_READINGS: Mapping[str, tuple[str, str, Callable[[Any], Value]]] = {
    "version": ("state", "version", _text),
    "uptime_s": ("state", "uptime_s", _seconds),
    "read_only_default": ("state", "read_only_default", _as_it_is),
    "rolled_back": ("clients", "rollbacks", _whole),
    "deadlocks": ("clients", "deadlocks", _whole),
    "recovery_conflicts": ("clients", "conflicts", _whole),
    "sessions_fatal": ("clients", "sessions_fatal", _whole),
    "role": ("state", "in_recovery", lambda value: "replica" if value else "primary"),
    "connections": ("activity", "connections", _whole),
    "sessions_active": ("activity", "active", _whole),
    "transaction_s": ("activity", "long.s", lambda value: _seconds(value or 0.0)),
    "transaction_pid": ("activity", "long.pid", _as_it_is),
    "transaction_application": ("activity", "long.application", _text),
    "idle_transaction_s": ("activity", "idle.s", lambda value: _seconds(value or 0.0)),
    "idle_transaction_pid": ("activity", "idle.pid", _as_it_is),
    "idle_transaction_application": ("activity", "idle.application", _text),
    "hoarder": ("activity", "hoarder.application", lambda value: _text(value) or None),
    "hoarder_connections": ("activity", "hoarder.connections", _as_it_is),
    "hoarder_idle": ("activity", "hoarder.idle", _as_it_is),
    "locks_waiting": ("locks", "waiting", _whole),
    "lock_wait_s": ("locks", "s", lambda value: _seconds(value or 0.0)),
    "waiting_pid": ("locks", "pid", _as_it_is),
    "blocking_pid": ("locks", "blocking.pid", _as_it_is),
    "blocking_application": ("locks", "blocking.application", _text),
    "blocking_state": ("locks", "blocking.state", _text),
    "wal_position_bytes": ("primary", "position", _whole),
    "replicas_attached": ("primary", "attached", _whole),
    "senders_lag_s": ("primary", "lag_s", _seconds),
    "senders_lag_bytes": ("primary", "lag_bytes", _whole),
    "follows_upstream": ("replica", "follows", _as_it_is),
    "attached": ("replica", "receiver.status", lambda value: value == "streaming"),
    "sender": ("replica", "receiver.sender", _text),
    "receiver_silent_s": ("replica", "receiver.silent_s", _seconds),
    "received_bytes": ("replica", "received", _whole),
    "replayed_bytes": ("replica", "replayed", _whole),
    "replayed_age_s": ("replica", "age_s", _seconds),
    "replay_paused": ("replica", "paused", bool),
    "replay_blocked": ("replica", "blocked_by", bool),
    "replay_blocked_by": ("replica", "blocked_by", lambda value: value or None),
    "slots": ("slots", "slots", _whole),
    "slots_inactive": ("slots", "inactive", _whole),
    "slot_retained_bytes": ("slots", "worst.retained", lambda value: _whole(value) or 0),
    "slot_name": ("slots", "worst.name", _text),
    "slot_state": ("slots", "worst.status", _text),
    "dead_tuples": ("tables", "dead.dead", lambda value: int(value or 0)),
    "pending_restart": ("settings", "pending", lambda value: len(value or ())),
    "pending_restart_names": ("settings", "pending", lambda value: _list_names(value or ())),
    "configuration_errors": ("files", "errors", _whole),
    "wal_bytes": ("sizes", "wal", _whole),
    "data_bytes": ("sizes", "data", _whole),
    "checkpoints_timed": ("checkpoints", "timed", _whole),
    "checkpoints_requested": ("checkpoints", "requested", _whole),
}


def readings_of(answers: Mapping[str, Any]) -> dict[str, Value]:
    """Every reading that the sections which were answered give."""
    parts = {name: part for name, part in answers.items() if isinstance(part, Mapping)}
    if "replication" in parts:
        teller = "primary" if "position" in parts["replication"] else "replica"
        parts[teller] = parts["replication"]
    found: dict[str, Value] = {}
    for reading, (section, path, read) in _READINGS.items():
        if section in parts:
            value: Any = parts[section]
            for key in path.split("."):
                value = (value or {}).get(key)
            found[reading] = read(value)
    if state := parts.get("state"):
        found["connections_max"] = max(int(state["connections_max"]) - int(state["reserved"]), 1)
    for reading, key in (("transaction", "long"), ("idle_transaction", "idle")):
        if session := parts.get("activity", {}).get(key):
            found[f"{reading}_words"] = words_of(session["query"])
    if "tables" in parts:
        dead = parts["tables"].get("dead") or {}
        rows, live = int(dead.get("dead") or 0), int(dead.get("live") or 0)
        found["dead_tuples_ratio"] = round(rows / (rows + live), 3) if rows else 0.0
        found["dead_tuples_table"] = _text(dead.get("name")) if rows else None
    if "files" in parts:
        unloaded = [
            str(name)
            for name, written, running, shown, unit, kind in parts["files"].get("different") or ()
            if differs(written, str(running), str(shown), unit, str(kind))
        ]
        found["settings_unloaded"] = len(unloaded)
        found["settings_unloaded_names"] = _list_names(unloaded)
        if error := parts["files"].get("error"):
            place = f"{PurePath(str(error.get('file'))).name} line {error.get('line')}"
            words = " ".join(str(word) for word in (error.get("name"), error.get("error")) if word)
            found["configuration_error"] = f"{place}: {words}"[:TEXT_MAX]
            # What has an error need not be a setting, and its line may not be readable.
            name = str(error.get("name") or "")
            if re.fullmatch(r"[A-Za-z_][\w.]*", name):
                found["configuration_error_name"] = name
    return {reading: value for reading, value in found.items() if value is not None}


def configured_of(answers: Mapping[str, Any]) -> dict[str, str] | None:
    """Settings without their default, accounts and databases, by name; None where unknown."""
    parts = answers.get("configured")
    if not isinstance(parts, Mapping):
        return None
    return {
        f"{kind} {name}": hide_secret(str(name), str(value))
        for kind, each in parts.items()
        for name, value in (each or {}).items()
    }


def _list_names(names: Sequence[object]) -> str | None:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return (", ".join(str(name) for name in names[:NAMES_MAX]) + more) or None


def scans_of(answers: Mapping[str, Any]) -> Scans:
    """How often each large table was read row by row since its counters began."""
    tables = answers.get("tables")
    rows = tables.get("scanned") if isinstance(tables, Mapping) else None
    return {
        str(name): (int(scans or 0), int(rows_read or 0), int(live or 0))
        for name, scans, rows_read, live in rows or ()
    }


def rates(before: Scans, now: Scans, passed_s: float) -> dict[str, Value]:
    """The table of which most rows are read per second without an index; 0 where none is."""
    worst: dict[str, Value] = {"scanned_rows_per_s": 0.0, "scans_per_s": 0.0}
    for name, (scans, rows, live) in now.items():
        scans_before, rows_before, _ = before.get(name, (scans, rows, live))
        rate = max(0, rows - rows_before) / passed_s
        if rate > float(worst["scanned_rows_per_s"] or 0):
            worst = {
                "scanned_rows_per_s": round(rate, 1),
                "scans_per_s": round(max(0, scans - scans_before) / passed_s, 2),
                "scanned_table": name[:TEXT_MAX],
                "scanned_table_rows": live,
            }
    return worst


def words_of(query: object) -> str:
    """The beginning of a statement up to the first literal, so that no value of anybody shows."""
    text = " ".join(str(query or "").split())
    return re.split(r"['\"$0-9]", text, maxsplit=1)[0][:WORDS_MAX].rstrip(" =(,")


def differs(written: str | None, running: str, shown: str, unit: str | None, kind: str) -> bool:
    """Whether a setting of a file is another one than what runs, however it is spelled."""

    def measure(text: str) -> float | str:
        match = re.fullmatch(r"\s*(-?[0-9.]+)\s*([a-zA-Z]*)\s*", text)
        if match is None:
            return text
        given = match[2].lower() or (unit or "").lower()
        size = (_TIME | _MEMORY).get(given)
        return float(match[1]) if size is None else round(float(match[1]) * size, 6)

    def normalize(text: str) -> float | str:
        if kind in ("integer", "real"):
            return measure(text)
        if kind == "bool":
            return _FLAGS.get(text.strip().lower(), text.strip().lower())
        # Servers write many texts in a spelling of their own.
        return "".join(text.split()).lower().replace('"', "")

    if written is None:
        return True
    same = (running,) if kind == "bool" else (running, shown)
    return normalize(written) not in [normalize(text) for text in same]


def compare(seen: Sequence[Seen]) -> list[Seen]:
    """The same, with how far each replica is behind, who else is written to, and who is heard."""
    known = (each.readings.get("wal_position_bytes") for each in seen)
    position = max((bytes_ for bytes_ in known if isinstance(bytes_, int)), default=None)
    primaries = [each for each in seen if each.readings.get("role") == "primary"]
    compared = []
    for each in seen:
        readings = dict(each.readings)
        role = readings.get("role")
        if not each.problem and readings.get("up") is False:
            heard = _is_heard(primaries, seen)
            readings |= {} if heard is None else {"heard": heard}
        if role is not None:
            readings["another_writes"] = role == "primary" and len(primaries) > 1
        replayed, age_s = readings.get("replayed_bytes"), readings.get("replayed_age_s")
        newest = position if position is not None else readings.get("received_bytes")
        if role == "replica" and isinstance(replayed, int) and isinstance(newest, int):
            behind = max(0, newest - replayed)
            readings["lag_bytes"] = behind
            if not behind or isinstance(age_s, int | float):
                readings["lag_s"] = age_s if behind else 0.0
        compared.append(replace(each, readings=readings))
    return compared


def _is_heard(primaries: Sequence[Seen], seen: Sequence[Seen]) -> bool | None:
    """Whether another server hears a server that does not answer us, where that is known."""
    known = []
    for replica in (each.readings for each in seen if each.readings.get("role") == "replica"):
        silent_s = replica.get("receiver_silent_s")
        if not replica.get("attached"):
            known.append(False)
        elif isinstance(silent_s, int | float) and silent_s < HEARD_S:
            known.append(True)  # a silent waiter reports nothing
    if not primaries:  # the missing server may be the primary itself
        return any(known) if known else None
    attached = primaries[0].readings.get("replicas_attached")
    return attached > sum(known) if isinstance(attached, int) else None
