"""A Fault is one way to hurt a Rig."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Ability", "Fault"]


class Ability(StrEnum):
    """What the lab can do to a process of a rig."""

    KILL = "kill"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done, and to which kind of target; the lab picks one when none is named."""

    name: str
    sentence: str
    ability: Ability
    kind: str
