"""What a user may set for an etcd cluster, each with a sane value of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from operator_protocols.errors import ConfigError

__all__ = ["Options", "options_from"]


@dataclass(frozen=True, slots=True)
class Options:
    """Thresholds and habits of one subject.

    `quota_bytes` counts where the members' metrics do not tell. `write_probe` off: nothing is
    proposed. `lease_ttl_s` 0: no lease is granted. A database of which more than `hash_bytes_max`
    is in use is compared every `hash_every_s` only, because hashing reads all of it. A disk is full
    when it is used beyond its ratio and has less left than `disk_free_bytes_min`.
    """

    read_ms_max: float = 500.0
    write_ms_max: float = 250.0
    write_probe: bool = True
    lag_max: int = 5_000
    behind_s_max: float = 5.0
    quota_bytes: int = 0
    quota_ratio_max: float = 0.8
    history_ratio_max: float = 0.8
    history_quota_ratio_max: float = 0.25
    free_ratio_max: float = 0.5
    lease_ttl_s: int = 60
    lease_error_s_max: float = 5.0
    hash_bytes_max: int = 64 << 20
    hash_every_s: float = 600.0
    log_bytes_max: int = 16 << 20
    disk_ratio_max: float = 0.9
    disk_free_bytes_min: int = 1 << 30


def options_from(given: Mapping[str, Any]) -> Options:
    """The options of a subject; ConfigError for a name or a value that makes no sense."""
    known = {one.name: getattr(Options(), one.name) for one in fields(Options)}
    chosen: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(
                f"{name!r} is not an option of an etcd subject.",
                next_step=f"There are: {', '.join(sorted(known))}.",
            )
        chosen[name] = _checked(name, value, known[name])
    return Options(**chosen)


def _checked(name: str, value: Any, default: object) -> object:
    if isinstance(default, bool):
        if isinstance(value, bool):
            return value
        raise ConfigError(f"{name!r} has to be true or false.")
    whole = isinstance(default, int)
    fits = isinstance(value, int) if whole else isinstance(value, int | float)
    if isinstance(value, bool) or not fits or value < 0:
        kind = "a whole number" if whole else "a number"
        raise ConfigError(f"{name!r} has to be {kind} of 0 or more.")
    return value if whole else float(value)
