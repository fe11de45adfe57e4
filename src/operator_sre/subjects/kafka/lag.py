"""How a consumer group keeps up, by the rules of Burrow: its progress counts, not its lag. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

__all__ = ["LagStatus", "Sample", "judge_partition", "worst_status"]


class LagStatus(StrEnum):
    """The state of a group at a partition, or at all of them."""

    UNKNOWN = "unknown"
    OK = "ok"
    RISING = "rising"
    REWIND = "rewind"
    STOPPED = "stopped"
    STALLED = "stalled"


_ORDER = tuple(LagStatus)


@dataclass(frozen=True, slots=True)
class Sample:
    """When a group had read how far of a partition, and where that ended.

    `member` is whether a member of the group had the partition.
    """

    at: float
    read: int
    end: int
    member: bool = True

    @property
    def lag(self) -> int:
        """How many records it had not read."""
        return max(0, self.end - self.read)


def judge_partition(
    samples: Sequence[Sample], *, window_s: float, samples_min: int = 4
) -> LagStatus:
    """The state of a group at one partition, by the samples of at least `window_s`, oldest first.

    A group that went back has lost its place, whatever follows. A group that had read everything at
    any time keeps up. Without a member no record is read; with a member, an offset that stands
    still is stalled. A group that reads, and is further behind at each sample, is too slow.
    """
    if any(later.read < earlier.read for earlier, later in pairwise(samples)):
        return LagStatus.REWIND
    if any(sample.lag == 0 for sample in samples):
        return LagStatus.OK
    if len(samples) < samples_min or samples[-1].at - samples[0].at < window_s:
        return LagStatus.UNKNOWN
    lags = [sample.lag for sample in samples]
    grows = all(later >= earlier for earlier, later in pairwise(lags))
    if samples[-1].read == samples[0].read:
        return LagStatus.STALLED if samples[-1].member else LagStatus.STOPPED
    return LagStatus.RISING if grows and lags[-1] > lags[0] else LagStatus.OK


def worst_status(statuses: Iterable[LagStatus]) -> LagStatus:
    """The worst of all partitions; UNKNOWN only where nothing is known."""
    return max(statuses, key=_ORDER.index, default=LagStatus.UNKNOWN)
