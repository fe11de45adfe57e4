"""What INFO, ROLE and CONFIG of a store mean for us. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from operator_protocols.domain.observation import Value
from operator_sre.subjects.ratelimiter.resp import Reply

__all__ = ["store_readings"]

TEXT_CHARS_MAX = 300


def store_readings(info: Reply, role: Reply, config: Reply) -> dict[str, Value]:
    """Flat readings of one store; what it did not say is left out."""
    said = _fields(info)
    settings = _settings(config)
    if not said:
        return {}
    used, most = _number(said, "used_memory"), _number(said, "maxmemory")
    readings: dict[str, Value] = {
        "role": {"master": "primary", "slave": "replica"}.get(said.get("role", ""), "unknown"),
        "connected_replicas": _number(said, "connected_slaves"),
        "connected_clients": _number(said, "connected_clients"),
        "blocked_clients": _number(said, "blocked_clients"),
        "used_memory_bytes": used,
        "maxmemory_bytes": most,
        "memory_share": round(used / most, 3) if used is not None and most else 0.0,
        "uptime_s": _number(said, "uptime_in_seconds"),
        "writes_paused": any(
            word in said.get("paused_actions", "none") for word in ("write", "all")
        ),
        "disk_ok": said.get("aof_last_write_status", "ok") == "ok",
    }
    if readings["role"] == "replica":
        readings["replica_link"] = said.get("master_link_status", "unknown")
        readings["primary"] = f"{said.get('master_host', '')}:{said.get('master_port', '')}"
    if isinstance(role, list) and role and role[0] not in ("master", "slave"):
        readings["role"] = "unknown"
    for name, value in settings.items():
        readings[f"setting_{name.replace('-', '_')}"] = value[:TEXT_CHARS_MAX]
    kind, why = _refusing(said, settings, readings)
    readings |= {"refuses_writes": bool(kind), "refuses_kind": kind, "refuses_because": why}
    return {name: value for name, value in readings.items() if value is not None}


def _refusing(
    said: Mapping[str, str], settings: Mapping[str, str], readings: Mapping[str, Value]
) -> tuple[str, str]:
    """Why it takes no writes, in a word and in a sentence; empty when it does.

    A replica never does, and is not asked to.
    """
    if readings["role"] != "primary":
        return "", ""
    used = (_number(said, "used_memory") or 0) - (_number(said, "mem_not_counted_for_evict") or 0)
    most = _number(said, "maxmemory") or 0
    policy = settings.get("maxmemory-policy", said.get("maxmemory_policy", ""))
    if most and used > most and policy == "noeviction":
        return "memory", f"out of memory: it uses {used} bytes and may use {most}"
    if readings["writes_paused"]:
        return "paused", "writes are paused"
    wanted = _number(settings, "min-replicas-to-write") or 0
    good = _number(said, "min_slaves_good_slaves")
    if wanted and good is not None and good < wanted:
        return "replicas", f"it wants {wanted} replicas in step before it writes and has {good}"
    if not readings["disk_ok"]:
        return "disk", "it cannot write to its disk"
    stops = settings.get("stop-writes-on-bgsave-error", "no") == "yes"
    if stops and said.get("rdb_last_bgsave_status", "ok") != "ok":
        return "disk", "it could not save its data"
    return "", ""


def _fields(info: Reply) -> dict[str, str]:
    lines = info.splitlines() if isinstance(info, str) else []
    pairs = (line.partition(":") for line in lines if not line.startswith("#"))
    return {name: value.strip() for name, colon, value in pairs if colon}


def _settings(config: Reply) -> dict[str, str]:
    flat = config if isinstance(config, list) else []
    return {str(name): str(value) for name, value in zip(flat[::2], flat[1::2], strict=False)}


def _number(said: Mapping[str, str], name: str) -> int | None:
    text = said.get(name, "")
    return int(text) if text.isdigit() else None
