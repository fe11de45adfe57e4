"""What the leader of PD said, now or a few looks ago, by the question it was asked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from operator_sre.subjects.tikv.client import Answer
from operator_sre.subjects.tikv.heat import Hot, hottest_from
from operator_sre.subjects.tikv.screening import CHECKS, Screen
from operator_sre.subjects.tikv.state import (
    EVICT_LEADER,
    Members,
    Operator,
    count_from,
    evicting_from,
    members_from,
    operators_from,
    regions_from,
    schedulers_from,
)
from operator_sre.subjects.tikv.turns import HOT, Question

__all__ = ["Facts"]


@dataclass(slots=True)
class Facts:
    """All that is known; None for what nobody has told, or not in a way that can be used.

    `checks` has the numbers of unwell regions by their kind, `samples` the ids of some of them.
    `leaderless` regions had no leader when they were counted last.
    """

    screen: Screen = field(default_factory=Screen)
    operators: tuple[Operator, ...] | None = None
    count: int | None = None
    leaderless: int | None = None
    members: Members | None = None
    hot: dict[str, Hot | None] = field(default_factory=dict)
    checks: dict[str, int] = field(default_factory=dict)
    samples: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _schedulers: tuple[str, ...] | None = None
    _paused: tuple[str, ...] | None = None
    _evicting: frozenset[int] | None = None

    def screened(self, screen: Screen) -> None:
        """Take what the metrics of the leader say, which is newer than what was asked before."""
        self.screen = screen if screen.told else Screen()
        if not screen.told:
            return
        for kind in CHECKS:
            self.checks[kind] = screen.regions[kind]
            if not screen.regions[kind]:
                self.samples.pop(kind, None)
        for kind in HOT:
            if not screen.hot.get(kind, 0):
                self.hot[kind] = None

    def learn(self, question: Question, answer: Answer) -> None:
        """Take one answer. What could not be told is not known any more."""
        name, body = question.name, answer.body if answer.ok else _NOTHING
        if name == "operators":
            self.operators = operators_from(body)
        elif name == "count":
            self.count = count_from(answer.content) if answer.ok else None
        elif name == "members":
            self.members = members_from(body)
        elif name == "schedulers":
            self._schedulers = schedulers_from(body)
        elif name == "paused":
            self._paused = schedulers_from(body)
        elif name == "evicting":
            self._evicting = evicting_from(body)
        elif name in CHECKS:
            self._checked(name, answer)
        elif name.startswith("hot-"):
            self._warmed(name.removeprefix("hot-"), answer)

    def compare(self, leaders: int) -> None:
        """Take how many regions are led, at the same moment at which they were counted."""
        self.leaderless = None if self.count is None else max(0, self.count - leaders)

    @property
    def schedulers(self) -> Mapping[str, bool] | None:
        """Every scheduler, and whether it may schedule."""
        if self.screen.schedulers:
            return self.screen.schedulers
        if self._schedulers is None:
            return None
        return {name: name not in (self._paused or ()) for name in self._schedulers}

    @property
    def evicting(self) -> frozenset[int] | None:
        """The stores from which leaders are driven away; older PDs have a scheduler for each."""
        if self.schedulers is None:
            return None
        named = [one for one in self.schedulers if one.startswith(EVICT_LEADER)]
        ids = [one.removeprefix(f"{EVICT_LEADER}-") for one in named]
        apart = frozenset(int(one) for one in ids if one.isdecimal())
        if EVICT_LEADER not in named:
            return apart
        return None if self._evicting is None else apart | self._evicting

    @property
    def hottest(self) -> Hot | None:
        """The hottest region of all, written or read."""
        found = [one for one in self.hot.values() if one is not None]
        return max(found, key=lambda one: one.ratio, default=None)

    def _checked(self, kind: str, answer: Answer) -> None:
        count = count_from(answer.content) if answer.ok else None
        if count is None:
            self.checks.pop(kind, None)
            self.samples.pop(kind, None)
        else:
            self.checks[kind] = count
            self.samples[kind] = regions_from(answer.content)

    def _warmed(self, kind: str, answer: Answer) -> None:
        if answer.ok and isinstance(answer.body, dict):
            self.hot[kind] = hottest_from(answer.body, kind)
        else:
            self.hot.pop(kind, None)


_NOTHING = object()
