"""What a Run may use, what thinking has cost, and the prices of models."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Budget", "Prices", "Spent"]


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


TOKENS_PER_PRICE = 1_000_000
# Writing into a cache costs a quarter more than plain input, where the provider counts it
# separately.
CACHE_WRITE_TIMES = 1.25


@dataclass(frozen=True, slots=True)
class Prices:
    """Dollars for a million tokens; those read from a cache cost `input` unless it is known."""

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None

    def price(
        self, tokens_in: int, tokens_out: int, *, cached: int = 0, cache_written: int = 0
    ) -> Spent:
        """The cost of one answer; of the tokens in, some were read from or written to a cache."""
        tokens_in, tokens_out = max(tokens_in, 0), max(tokens_out, 0)
        cached = min(max(cached, 0), tokens_in)
        cache_written = min(max(cache_written, 0), tokens_in - cached)
        cached_usd = self.input if self.cached_input is None else self.cached_input
        usd = (tokens_in - cached) * self.input + cached * cached_usd
        usd += cache_written * self.input * (CACHE_WRITE_TIMES - 1)
        usd += tokens_out * self.output
        return Spent(tokens_in, tokens_out, usd / TOKENS_PER_PRICE)
