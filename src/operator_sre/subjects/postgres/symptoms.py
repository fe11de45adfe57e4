"""What readings amount to, as yes or no, so that a cause can say which of them it shows. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from operator_protocols.domain.observation import Value
from operator_sre.subjects.postgres.thresholds import Thresholds

__all__ = ["SYMPTOMS", "symptoms_of"]

HOARD_RATIO = 0.5

# symptom -> the reading that it goes by, and from when on it is there
SYMPTOMS: Mapping[str, tuple[str, Callable[[float, Thresholds], bool]]] = {
    "locks_block": ("lock_wait_s", lambda value, limits: value > limits.lock_wait_s_max),
    "transaction_idles": (
        "idle_transaction_s",
        lambda value, limits: value > limits.idle_transaction_s_max,
    ),
    "transaction_lasts": ("transaction_s", lambda value, limits: value > limits.transaction_s_max),
    "slot_unused": (
        "slot_retained_bytes",
        lambda value, limits: value > limits.slot_retained_bytes_max,
    ),
    "disk_short": ("disk_free_ratio", lambda value, limits: value < limits.disk_free_ratio_min),
    "answers_late": ("latency_ms", lambda value, limits: value > limits.latency_ms_max),
    "rows_scanned": (
        "scanned_rows_per_s",
        lambda value, limits: value > limits.scanned_rows_per_s_max,
    ),
    "rows_dead": (
        "dead_tuples_ratio",
        lambda value, limits: value > limits.dead_tuples_ratio_max,
    ),
    "files_wrong": ("configuration_errors", lambda value, limits: value > 0),
    "files_differ": ("settings_unloaded", lambda value, limits: value > 0),
    "restart_awaited": ("pending_restart", lambda value, limits: value > 0),
    "log_grown": ("log_bytes", lambda value, limits: value > limits.log_bytes_max),
}


def symptoms_of(readings: Mapping[str, Value], limits: Thresholds) -> dict[str, Value]:
    """Every symptom that can be told from these readings, there or not."""
    found: dict[str, Value] = {}
    for name, (reading, is_there) in SYMPTOMS.items():
        value = readings.get(reading)
        if isinstance(value, int | float):
            found[name] = is_there(value, limits)
    held, most = readings.get("hoarder_connections"), readings.get("connections_max")
    if isinstance(held, int) and isinstance(most, int):
        found["connections_hoarded"] = held > HOARD_RATIO * most
    return found
