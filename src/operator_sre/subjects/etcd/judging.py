"""How a reading becomes an opinion on an invariant. Pure."""

from __future__ import annotations

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Seen

__all__ = ["MB", "UNSEEN", "WELL", "Opinion", "number_of"]

MB = 1 << 20
Opinion = tuple[Health, str]
WELL: Opinion = (Health.HEALTHY, "")
UNSEEN: Opinion = (Health.UNKNOWN, "")


def number_of(seen: Seen, name: str) -> float | None:
    """A number that was read; None where there is none."""
    value = seen.readings.get(name)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value
