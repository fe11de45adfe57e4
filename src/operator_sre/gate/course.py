"""What the gate would do with an action, before it does it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from operator_protocols.domain.standing_rule import StandingRule

__all__ = ["Course", "Way"]


class Way(StrEnum):
    """What becomes of an action that is asked for; HELD is as long as something restrains."""

    RUNS = "runs"
    ASKS = "asks"
    PROPOSES = "proposes"
    HELD = "held"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Course:
    """Which way an action goes, why, and the standing rule that lets it run without asking."""

    way: Way
    why: str = ""
    rule: StandingRule | None = None
