"""What thinking costs: dollars for a million tokens, as configuration says."""

from __future__ import annotations

from dataclasses import dataclass

from operator_protocols.domain.budget import Spent

__all__ = ["Prices"]

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
