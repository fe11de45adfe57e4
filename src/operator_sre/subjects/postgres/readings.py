"""What a server answered, as flat readings. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from operator_protocols.domain.observation import Value

__all__ = ["Scans", "differs", "rates", "readings_of", "scans_of", "words_of"]

NAMES_MAX = 5
WORDS_MAX = 40
TEXT_MAX = 120
# Tables that are read row by row: name -> (scans, rows read by them, rows that it has).
Scans = Mapping[str, tuple[int, int, int]]
_MEMORY = {"b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40, "8kb": 2**13}
_TIME = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"\s*(-?[0-9.]+)\s*([a-zA-Z]*)\s*")
_TRUE, _FALSE = ("on", "true", "yes", "1"), ("off", "false", "no", "0")


def readings_of(said: Mapping[str, Any]) -> dict[str, Value]:
    """Every reading that the sections which were answered give."""
    found: dict[str, Value] = {}
    for name, read in _READERS.items():
        part = said.get(name)
        if isinstance(part, Mapping):
            found |= {key: value for key, value in read(part).items() if value is not None}
    return found


def scans_of(said: Mapping[str, Any]) -> Scans:
    """How often each large table was read row by row since its counters began."""
    tables = said.get("tables")
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
    if written is None:
        return True
    if kind == "bool":
        return _flag(written) != _flag(running)
    if kind in ("integer", "real"):
        amounts = [_amount(text, unit) for text in (written, running, shown)]
        return amounts[0] not in amounts[1:]
    # Servers write many texts in a spelling of their own.
    return _plain(written) not in (_plain(running), _plain(shown))


def _flag(text: str) -> bool | str:
    low = text.strip().lower()
    return True if low in _TRUE else False if low in _FALSE else low


def _plain(text: str) -> str:
    return "".join(text.split()).lower().replace('"', "")


def _amount(text: str, unit: str | None) -> float | str:
    """A number of bytes, of seconds, or of what it counts."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text
    number, given = float(match[1]), match[2].lower() or (unit or "").lower()
    for table in (_TIME, _MEMORY):
        if given in table:
            return round(number * table[given], 6)
    return number


def _state(part: Mapping[str, Any]) -> dict[str, Value]:
    usable = int(part["connections_max"]) - int(part["reserved"])
    return {
        "version": str(part["version"])[:TEXT_MAX],
        "uptime_s": _rounded(part["uptime_s"]),
        "role": "replica" if part["in_recovery"] else "primary",
        "connections_max": max(usable, 1),
    }


def _activity(part: Mapping[str, Any]) -> dict[str, Value]:
    long, idle = part.get("long") or {}, part.get("idle") or {}
    hoarder = part.get("hoarder") or {}
    return {
        "connections": int(part["connections"]),
        "sessions_active": int(part["active"]),
        "transaction_s": _rounded(long.get("s") or 0.0),
        "transaction_pid": long.get("pid"),
        "transaction_application": _text(long.get("application")),
        "transaction_words": words_of(long["query"]) if long else None,
        "idle_transaction_s": _rounded(idle.get("s") or 0.0),
        "idle_transaction_pid": idle.get("pid"),
        "idle_transaction_application": _text(idle.get("application")),
        "idle_transaction_words": words_of(idle["query"]) if idle else None,
        "hoarder": _text(hoarder.get("application")) or None,
        "hoarder_connections": hoarder.get("connections"),
        "hoarder_idle": hoarder.get("idle"),
    }


def _locks(part: Mapping[str, Any]) -> dict[str, Value]:
    blocking = part.get("blocking") or {}
    return {
        "locks_waiting": int(part["waiting"]),
        "lock_wait_s": _rounded(part.get("s") or 0.0),
        "waiting_pid": part.get("pid"),
        "blocking_pid": blocking.get("pid"),
        "blocking_application": _text(blocking.get("application")),
        "blocking_state": _text(blocking.get("state")),
    }


def _replication(part: Mapping[str, Any]) -> dict[str, Value]:
    if "position" in part:
        return {
            "wal_position_bytes": _whole(part["position"]),
            "replicas_attached": int(part["attached"]),
            "senders_lag_s": _rounded(part.get("lag_s")),
            "senders_lag_bytes": _whole(part.get("lag_bytes")),
        }
    receiver = part.get("receiver") or {}
    received, replayed = _whole(part.get("received")), _whole(part.get("replayed"))
    return {
        "attached": receiver.get("status") == "streaming",
        "sender": _text(receiver.get("sender")),
        "receiver_silent_s": _rounded(receiver.get("silent_s")),
        "received_bytes": received,
        "replayed_bytes": replayed,
        "replayed_age_s": _rounded(part.get("age_s")),
        "replay_paused": bool(part.get("paused")),
        "replay_blocked": bool(part.get("blocked_by")),
        "replay_blocked_by": part.get("blocked_by") or None,
    }


def _slots(part: Mapping[str, Any]) -> dict[str, Value]:
    worst = part.get("worst") or {}
    return {
        "slots": int(part["slots"]),
        "slots_inactive": int(part["inactive"]),
        "slot_retained_bytes": _whole(worst.get("retained")) or 0,
        "slot_name": _text(worst.get("name")),
        "slot_state": _text(worst.get("status")),
    }


def _tables(part: Mapping[str, Any]) -> dict[str, Value]:
    dead = part.get("dead") or {}
    rows, live = int(dead.get("dead") or 0), int(dead.get("live") or 0)
    return {
        "dead_tuples": rows,
        "dead_tuples_ratio": round(rows / (rows + live), 3) if rows else 0.0,
        "dead_tuples_table": _text(dead.get("name")) if rows else None,
    }


def _settings(part: Mapping[str, Any]) -> dict[str, Value]:
    pending = [str(name) for name in part.get("pending") or ()]
    return {"pending_restart": len(pending), "pending_restart_names": _names(pending)}


def _files(part: Mapping[str, Any]) -> dict[str, Value]:
    error = part.get("error") or {}
    place = f"{PurePath(str(error.get('file'))).name} line {error.get('line')}"
    what = " ".join(str(one) for one in (error.get("name"), error.get("error")) if one)
    unloaded = [
        str(name)
        for name, written, running, shown, unit, kind in part.get("different") or ()
        if differs(written, str(running), str(shown), unit, str(kind))
    ]
    return {
        "configuration_errors": int(part["errors"]),
        "configuration_error": f"{place}: {what}"[:TEXT_MAX] if error else None,
        "configuration_error_name": _setting_name(error),
        "settings_unloaded": len(unloaded),
        "settings_unloaded_names": _names(unloaded),
    }


def _setting_name(error: Mapping[str, Any]) -> str | None:
    """The setting that has an error; None where it is none, or its line cannot be read."""
    name = str(error.get("name") or "")
    return name if re.fullmatch(r"[A-Za-z_][\w.]*", name) else None


def _sizes(part: Mapping[str, Any]) -> dict[str, Value]:
    return {"wal_bytes": _whole(part.get("wal")), "data_bytes": _whole(part.get("data"))}


def _checkpoints(part: Mapping[str, Any]) -> dict[str, Value]:
    return {
        "checkpoints_timed": _whole(part.get("timed")),
        "checkpoints_requested": _whole(part.get("requested")),
    }


_READERS = {
    "state": _state,
    "activity": _activity,
    "locks": _locks,
    "replication": _replication,
    "slots": _slots,
    "tables": _tables,
    "settings": _settings,
    "files": _files,
    "sizes": _sizes,
    "checkpoints": _checkpoints,
}


def _names(names: list[str]) -> str | None:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return (", ".join(names[:NAMES_MAX]) + more) or None


def _text(value: object) -> str | None:
    return None if value is None else str(value)[:TEXT_MAX]


def _rounded(value: object) -> float | None:
    # A clock that was set back makes no duration negative.
    return round(max(0.0, float(value)), 3) if isinstance(value, int | float | Decimal) else None


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float | Decimal) else None
