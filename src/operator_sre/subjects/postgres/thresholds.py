"""From where on something is too much, as the options of a subject say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from operator_protocols.errors import ConfigError

__all__ = ["OTHER_OPTIONS", "Thresholds", "thresholds_of"]

# What else can be said in the options: who signs in, to which database, and what is not checked.
OTHER_OPTIONS = (
    "acting_password_file",
    "acting_user",
    "database",
    "ignore",
    "password_file",
    "user",
)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """All of them, with what counts when nobody says otherwise."""

    latency_ms_max: float = 250.0
    connections_ratio_max: float = 0.9
    transaction_s_max: float = 300.0
    idle_transaction_s_max: float = 5.0
    lock_wait_s_max: float = 5.0
    lag_s_max: float = 5.0
    lag_bytes_max: float = 256 * 2**20
    slot_retained_bytes_max: float = 64 * 2**20
    disk_free_ratio_min: float = 0.1
    dead_tuples_min: float = 10_000
    dead_tuples_ratio_max: float = 0.5
    large_table_rows: float = 10_000
    scanned_rows_per_s_max: float = 50_000
    log_bytes_max: float = 24 * 2**20


def thresholds_of(options: Mapping[str, Any]) -> Thresholds:
    """The thresholds that these options say; ConfigError for what makes no sense."""
    names = [one.name for one in fields(Thresholds)]
    unknown = sorted(set(options) - {*names, *OTHER_OPTIONS})
    if unknown:
        raise ConfigError(
            f"{unknown[0]!r} is not an option of a PostgreSQL subject.",
            next_step=f"Its options are {', '.join(sorted((*names, *OTHER_OPTIONS)))}.",
        )
    given = {name: options[name] for name in names if name in options}
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise ConfigError(f"The option {name!r} has to be a number that is not negative.")
    ignored = options.get("ignore", [])
    if not isinstance(ignored, list | tuple) or not all(isinstance(one, str) for one in ignored):
        raise ConfigError("The option 'ignore' has to be a list of names of invariants.")
    return Thresholds(**{name: float(value) for name, value in given.items()})
