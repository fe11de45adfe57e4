"""Whom each member hears: what came from its peers since a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from operator_sre.subjects.etcd.glimpse import Glimpse

__all__ = ["WINDOW_S", "Hearing"]

WINDOW_S = 2.0  # a leader and its followers send ten times a second
SAMPLES_MAX = 100


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    id: int
    received: Mapping[str, int]


class Hearing:
    """Counts of bytes over time.

    A connection that has fallen silent stands for a long time, and etcd counts it as active.
    """

    def __init__(self) -> None:
        self._samples: dict[str, deque[_Sample]] = {}

    def listened(self, one: Glimpse, at: float) -> bool:
        """Whether it was counted a while ago as well, so that silence can be told."""
        samples = self._samples.get(one.target.name, ())
        return any(each.at <= at - WINDOW_S and each.id == one.id for each in samples)

    def deaf_to(self, one: Glimpse, at: float) -> frozenset[str]:
        """The peers, by their id in hex, from which nothing has come for a while."""
        samples = self._samples.setdefault(one.target.name, deque(maxlen=SAMPLES_MAX))
        now = _Sample(at, one.id, dict(one.metrics.received))
        old = [each for each in samples if each.at <= at - WINDOW_S and each.id == one.id]
        samples.append(now)
        if not old:
            return frozenset()
        before = old[-1].received
        # Who was not there before has nothing to be compared with; who counts anew is heard.
        return frozenset(peer for peer, count in now.received.items() if before.get(peer) == count)
