"""A Pattern is a command line that worked, with placeholders where it varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_protocols.domain.observation import Value

__all__ = ["Pattern", "PatternNote"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One command or a sequence of them. Learned from history, or made by a person.

    `contexts` say what it was wanted for, `examples` what stood for a placeholder. `uses` counts
    how often it was run or asked for; `success_rate` is of the runs that fit it, None before one.
    """

    name: str
    lines: tuple[str, ...]
    category: str = "general"
    preconditions: Mapping[str, Value] = field(default_factory=dict)
    placeholders: tuple[str, ...] = ()
    examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    contexts: tuple[str, ...] = ()
    learned: bool = False
    made_by: str = ""
    uses: int = 0
    success_rate: float | None = None


@dataclass(frozen=True, slots=True)
class PatternNote:
    """The Ledger's note on a name: a pattern that a user made, if any, and how it was used.

    A learned pattern has no note until someone uses or hides it.
    """

    name: str
    pattern: Pattern | None
    hidden: bool
    uses: int
