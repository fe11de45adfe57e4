"""Recent latency in bounded memory: one small histogram for each of the last seconds."""

import math
import time
from collections import Counter, deque
from collections.abc import Callable

__all__ = ["RecentLatency"]

# Each bucket is 5 % wider than the one before, so a quantile is at most 5 % too high.
_GROWTH = 1.05
_SMALLEST_S = 0.000_01
_STRETCH_S = 4
_STRETCHES = 3


class RecentLatency:
    """Remembers durations for `span_s` seconds and answers quantiles over them."""

    def __init__(self, *, span_s: int = 60, clock: Callable[[], float] = time.monotonic) -> None:
        self._span_s = span_s
        self._clock = clock
        self._slices: deque[tuple[int, Counter[int]]] = deque(maxlen=span_s)

    def add(self, duration_s: float) -> None:
        """Remember one duration."""
        second = int(self._clock())
        if not self._slices or self._slices[-1][0] != second:
            self._slices.append((second, Counter()))
        self._slices[-1][1][_bucket(duration_s)] += 1

    def quantile_s(self, share: float) -> float | None:
        """The duration that `share` of the recent ones stayed within; None without any."""
        buckets: Counter[int] = Counter()
        for _, counts in self._recent():
            buckets.update(counts)
        return _quantile_s(buckets, share)

    def sustained_s(self, share: float) -> float | None:
        """The lowest quantile of the last few stretches with checks: high only if all of them are.

        A start, or one moment without a processor, makes single checks slow; this tells that from
        slowness that stays. None while there were too few stretches.
        """
        stretches: dict[int, Counter[int]] = {}
        for second, counts in self._recent():
            stretches.setdefault(second // _STRETCH_S, Counter()).update(counts)
        last = [stretches[number] for number in sorted(stretches)[-_STRETCHES:]]
        if len(last) < _STRETCHES:
            return None
        return min(_quantile_s(buckets, share) or 0.0 for buckets in last)

    def _recent(self) -> list[tuple[int, Counter[int]]]:
        oldest = int(self._clock()) - self._span_s
        return [(second, counts) for second, counts in self._slices if second > oldest]


def _quantile_s(buckets: Counter[int], share: float) -> float | None:
    wanted = math.ceil(share * buckets.total())
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if seen >= wanted:
            return _upper_edge_s(bucket)
    return None


def _bucket(duration_s: float) -> int:
    return math.ceil(math.log(max(duration_s, _SMALLEST_S) / _SMALLEST_S, _GROWTH))


def _upper_edge_s(bucket: int) -> float:
    return _SMALLEST_S * _GROWTH**bucket
