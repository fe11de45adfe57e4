"""The recent work of this node, in its own memory: counts by key, and how long checks took.

A monitor compares the tallies of all nodes with the windows in the store. A request that was
allowed and not counted, or counted and never allowed, shows as a difference.
"""

import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from operator_ratelimiter.settings import Live

__all__ = ["KeyTally", "RecentLatency", "Tally"]

# A window is remembered in so many slices; a count is at most two slices too low.
_SLICES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTally:
    """One key within the window that ends now: requests, allowed, and allowed without the store.

    `limit` is the highest limit that this node received for it in that time, None when it received
    none.
    """

    key: str
    requests: Annotated[int, Field(serialization_alias="asked")]
    allowed: int
    uncounted: int
    limit: int | None


@dataclass(slots=True)
class _Slice:
    number: int
    requests: int = 0
    allowed: int = 0
    uncounted: int = 0
    limit: int = -1


class Tally:
    """Counts by key in bounded memory; the key without a request for longest is dropped first."""

    def __init__(self, live: Live, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._live = live
        self._clock = clock
        self._keys: OrderedDict[str, deque[_Slice]] = OrderedDict()
        self._dropped_at: int | None = None

    @property
    def dropped(self) -> bool:
        """Something that lies within the window is not known any more."""
        at = self._dropped_at
        return at is not None and at > self._slice_now() - _SLICES

    def add(self, key: str, *, allowed: bool, limit: int | None) -> None:
        """Note one check; `limit` is None when the store did not decide it."""
        number = self._slice_now()
        slices = self._keys.get(key)
        if slices is None:
            slices = self._keys[key] = deque(maxlen=_SLICES)
            if len(self._keys) > self._live.settings.tally_keys_max:
                _, lost = self._keys.popitem(last=False)
                if lost and lost[-1].number > number - _SLICES:
                    self._dropped_at = number
        else:
            self._keys.move_to_end(key)
        if not slices or slices[-1].number != number:
            slices.append(_Slice(number))
        last = slices[-1]
        last.requests += 1
        last.allowed += allowed
        last.uncounted += allowed and limit is None
        last.limit = max(last.limit, -1 if limit is None else limit)

    def clear(self) -> None:
        """Forget everything, as when the window has another length."""
        self._keys.clear()
        self._dropped_at = self._slice_now()

    def count_requests(self) -> int:
        """How many checks of all keys are within the window."""
        return sum(each.requests for each in self._all())

    def listing(self, *, items_max: int) -> list[KeyTally]:
        """The keys with requests within the window, the busiest first."""
        return sorted(self._all(), key=lambda each: (-each.requests, each.key))[:items_max]

    def _all(self) -> list[KeyTally]:
        # One slice less than the window, so that no count is ever that of a longer time.
        oldest = self._slice_now() - _SLICES + 1
        found = []
        for key, slices in self._keys.items():
            recent = [each for each in slices if each.number > oldest]
            if recent:
                limit = max(each.limit for each in recent)
                found.append(
                    KeyTally(
                        key=key,
                        requests=sum(each.requests for each in recent),
                        allowed=sum(each.allowed for each in recent),
                        uncounted=sum(each.uncounted for each in recent),
                        limit=None if limit < 0 else limit,
                    )
                )
        return found

    def _slice_now(self) -> int:
        return int(self._clock() * _SLICES / self._live.settings.window_s)


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
        bucket = math.ceil(math.log(max(duration_s, _SMALLEST_S) / _SMALLEST_S, _GROWTH))
        if not self._slices or self._slices[-1][0] != second:
            self._slices.append((second, Counter()))
        self._slices[-1][1][bucket] += 1

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
            return _SMALLEST_S * _GROWTH**bucket
    return None
