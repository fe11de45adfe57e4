"""What thinking costs: dollars for a million tokens, as configuration says."""

from __future__ import annotations

from typing import NamedTuple

from operator_protocols.domain.run import Spent

__all__ = ["Prices"]

TOKENS_PER_PRICE = 1_000_000
# Writing into a cache costs a quarter more than reading afresh, where it is told apart.
CACHE_WRITE_TIMES = 1.25


class Prices(NamedTuple):
    """Dollars for a million tokens in and out; tokens read from a cache cost `cached_usd`."""

    input_usd: float = 0.0
    output_usd: float = 0.0
    cached_usd: float | None = None

    def spent(
        self, tokens_in: int, tokens_out: int, *, cached: int = 0, cache_written: int = 0
    ) -> Spent:
        """The cost of one answer; of the tokens in, some were read from or written to a cache."""
        tokens_in, tokens_out = max(tokens_in, 0), max(tokens_out, 0)
        cached = min(max(cached, 0), tokens_in)
        cache_written = min(max(cache_written, 0), tokens_in - cached)
        cached_usd = self.input_usd if self.cached_usd is None else self.cached_usd
        usd = (tokens_in - cached) * self.input_usd + cached * cached_usd
        usd += cache_written * self.input_usd * (CACHE_WRITE_TIMES - 1)
        usd += tokens_out * self.output_usd
        return Spent(tokens_in, tokens_out, usd / TOKENS_PER_PRICE)
