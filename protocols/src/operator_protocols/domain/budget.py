"""What a Run may use, and what thinking has cost."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Budget", "Spent"]


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one Run; reaching one ends in escalation with all that is known."""

    turns_max: int = 40
    commands_max: int = 60
    seconds_max: float = 900.0
    attempts_max: int = 3
    tokens_max: int = 200_000
    usd_max: float = 2.0


@dataclass(frozen=True, slots=True)
class Spent:
    """What thinking cost."""

    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0

    @property
    def tokens(self) -> int:
        """All of them."""
        return self.tokens_in + self.tokens_out

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.tokens_in + other.tokens_in,
            self.tokens_out + other.tokens_out,
            self.usd + other.usd,
        )
