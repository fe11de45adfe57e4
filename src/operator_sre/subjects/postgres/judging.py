"""How a reading becomes a judgement, and what is said where nothing was read. Pure."""

from __future__ import annotations

from collections.abc import Callable

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Seen

__all__ = [
    "HOLDS",
    "Judged",
    "amount",
    "broken",
    "is_client",
    "megabytes",
    "of_client",
    "of_server",
    "unknown",
]

Judged = tuple[Health, str]
HOLDS: Judged = (Health.HEALTHY, "")
_BYTES_PER_MEGABYTE = 2**20


def broken(why: str) -> Judged:
    """It does not hold."""
    return Health.BROKEN, why


def unknown(seen: Seen, section: str = "") -> Judged:
    """Nothing was read, with the reason as far as it is known."""
    why = seen.problem or seen.readings.get(f"blind_{section}") or seen.readings.get("error")
    return Health.UNKNOWN, str(why or "it was not seen")


def of_server(
    seen: Seen, reading: str, section: str, judge: Callable[[float], Judged]
) -> Judged | None:
    """What one number of a server means; UNKNOWN without it."""
    value = amount(seen, reading)
    return unknown(seen, section) if value is None else judge(value)


def of_client(seen: Seen) -> Judged:
    """Whether a client runs."""
    running = seen.readings.get("running")
    if seen.problem or running is None:
        return unknown(seen)
    return HOLDS if running else broken("its process is gone")


def is_client(seen: Seen) -> bool:
    """It uses the servers, and is none of them."""
    return seen.readings.get("kind") == "client"


def amount(seen: Seen, reading: str) -> float | None:
    """A number that was read; None where there is none."""
    value = seen.readings.get(reading)
    return value if isinstance(value, int | float) and not seen.problem else None


def megabytes(count: float) -> str:
    """A number of bytes for people."""
    return f"{count / _BYTES_PER_MEGABYTE:.0f} MB"
