"""Why a script is not run, and which layer says so."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Flaw", "Layer"]


class Layer(StrEnum):
    """The checks, in this order; the first that finds something is the last to run."""

    SIZE = "size"
    SYNTAX = "syntax"
    SECRETS = "secrets"
    DANGEROUS = "dangerous"


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is wrong with a script. `line` counts from 1; 0 speaks of all of it."""

    layer: Layer
    sentence: str
    line: int = 0

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{self.layer}: {where}{self.sentence}"
