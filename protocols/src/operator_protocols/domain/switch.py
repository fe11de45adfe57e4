"""The kill switch: while it is on, nothing begins and nothing goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

__all__ = ["SwitchState"]


@dataclass(frozen=True, slots=True)
class SwitchState:
    """How the switch stands. Every turn of it is a new generation, which voids older permits."""

    on: bool = False
    generation: int = 0
    by: str = ""
    reason: str = ""
    at: datetime | None = None
