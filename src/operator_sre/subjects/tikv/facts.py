"""The answers of PD's leader, from this check or a few before, and the requests due next. Pure.

One request for its metrics tells what would otherwise take one for each kind of unwell region, and
each of those lists may be as long as there are regions. PD counts again every ten seconds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.kit.prometheus import samples_of
from operator_sre.subjects.tikv.client import Answer, Reading
from operator_sre.subjects.tikv.state import (
    EVICT_LEADER,
    Members,
    Operator,
    count_from,
    evicting_from,
    members_from,
    operators_from,
    regions_from,
    scheduled_stores,
    schedulers_from,
    whole_from,
)

__all__ = [
    "CHECKS",
    "COUNT",
    "HOT",
    "PROMETHEUS_UP",
    "Facts",
    "Hot",
    "Question",
    "Screen",
    "Turns",
    "choose_questions",
    "hottest_from",
    "screen_from",
]

# The kinds of unwell regions that matter here, as PD's list of each is called.
CHECKS = ("miss-peer", "down-peer", "pending-peer")
PROMETHEUS_UP = "prometheus"
STORES_MAX = 10_000
REGIONS_MAX = 10_000
PEERS_MAX = 100


@dataclass(frozen=True, slots=True)
class Question:
    """One request. It may wait `every` times as long as the most urgent requests."""

    name: str
    path: str
    reading: Reading = "json"
    every: int = 1


OPERATORS = Question("operators", "operators")
COUNT = Question("count", "regions/count", "head")
MEMBERS = Question("members", "members", every=3)
SCHEDULERS = Question("schedulers", "schedulers")
PAUSED = Question("paused", "schedulers?status=paused", every=2)
EVICTING = Question("evicting", f"scheduler-config/{EVICT_LEADER}/list")
UP = Question(PROMETHEUS_UP, "", every=2)
CHECKED = {kind: Question(kind, f"regions/check/{kind}", "head", 2) for kind in CHECKS}
HOT = {
    kind: Question(f"hot-{kind}", f"hotspot/regions/{kind}", every=2) for kind in ("write", "read")
}


@dataclass(frozen=True, slots=True)
class Hot:
    """The hottest region of one kind (`write` or `read`), and its share of all hot ones' bytes.

    `ratio` is of what all stores do of that kind, as far as PD tells it; `stores` have a copy.
    """

    kind: str
    region: int
    store: int
    bytes_per_s: float
    ratio: float
    degree: int
    stores: tuple[int, ...] = ()

    def beyond(self, *, ratio_max: float, bytes_min: float) -> bool:
        """It takes more than its share, and more than is worth a word."""
        return self.ratio > ratio_max and self.bytes_per_s > bytes_min


def hottest_from(body: Any, kind: str) -> Hot | None:
    """The hottest region of an answer to `hotspot/regions/KIND`; None where nothing is hot."""
    leaders = body.get("as_leader") if isinstance(body, dict) else None
    if not isinstance(leaders, dict):
        return None
    regions: list[tuple[int, dict[str, Any]]] = []
    total = 0.0
    for id_, stats in list(leaders.items())[:STORES_MAX]:
        total += _rate(stats, "store_bytes")
        listed = stats.get("statistics") if isinstance(stats, dict) else None
        store = int(id_) if str(id_).isdecimal() else 0
        entries = (listed if isinstance(listed, list) else [])[:REGIONS_MAX]
        regions += ((store, region) for region in entries if isinstance(region, dict))
    if not regions:
        return None
    store, hottest = max(regions, key=lambda pair: _rate(pair[1], "flow_bytes"))
    flow, stores = _rate(hottest, "flow_bytes"), hottest.get("stores")
    flows = sum(_rate(region, "flow_bytes") for _, region in regions)
    return Hot(
        kind=kind,
        region=whole_from(hottest.get("region_id")),
        store=store,
        bytes_per_s=round(flow, 1),
        ratio=round(flow / max(total, flows, flow, 1e-9), 3),
        degree=whole_from(hottest.get("hot_degree")),
        stores=tuple(map(whole_from, stores[:PEERS_MAX])) if isinstance(stores, list) else (),
    )


def _rate(entry: Any, name: str) -> float:
    value = entry.get(name) if isinstance(entry, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return max(0.0, float(value))


@dataclass(frozen=True, slots=True)
class Screen:
    """The metrics of PD's leader: numbers of regions by kind, schedulers, and what is hot.

    A kind that PD does not tell of is not there, and a scheduler that is paused may not schedule.
    """

    regions: Mapping[str, int] = field(default_factory=dict)
    schedulers: Mapping[str, bool] = field(default_factory=dict)
    hot: Mapping[str, int] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """It is what the leader of PD shows; who follows shows the same names, and zeros."""
        return bool(self.schedulers) and all(kind in self.regions for kind in CHECKS)


def screen_from(content: bytes) -> Screen:
    """Read what is wanted of the metrics of a leader."""
    regions = {
        labels.get("type", "").removesuffix("-region-count"): int(value)
        for labels, value in samples_of(content, "pd_regions_status")
        if 0 <= value < 2**53
    }
    schedulers = {
        labels["kind"]: value > 0
        for labels, value in samples_of(content, "pd_scheduler_status")
        if labels.get("type") == "allow" and "kind" in labels
    }
    hot = dict.fromkeys(HOT, 0)
    for labels, value in samples_of(content, "pd_hotspot_status"):
        for kind in hot:
            if labels.get("type") == f"hot_{kind}_region_as_leader" and 0 <= value < 2**53:
                hot[kind] += int(value)
    return Screen(regions, schedulers, hot)


def choose_questions(
    screen: Screen, schedulers: Sequence[str], *, prometheus: bool
) -> list[Question]:
    """The requests worth sending, the most urgent first.

    Where PD's metrics count no such regions, the list of them is not requested.
    """
    evicting = [EVICTING] if any(name.startswith(EVICT_LEADER) for name in schedulers) else []
    unwell = [CHECKED[kind] for kind in CHECKS if screen.regions.get(kind, 1)]
    return [
        *evicting,
        # A leader of only a moment shows no numbers yet, and may lack copies.
        *([OPERATORS, COUNT, *unwell] if screen.complete else [*unwell, OPERATORS, COUNT]),
        *([] if screen.schedulers else [SCHEDULERS, PAUSED]),
        *(HOT[kind] for kind in HOT if not screen.complete or screen.hot.get(kind, 0)),
        *([UP] if prometheus else []),
        MEMBERS,
    ]


@dataclass(slots=True)
class Turns:
    """Whose turn it is: who has waited longest, measured by how long it may wait."""

    _check: int = 0
    _asked: dict[str, int] = field(default_factory=dict)

    def take(self, questions: Sequence[Question], slots: int) -> list[Question]:
        """The next questions, no more than there are slots; they count as asked."""
        self._check += 1
        never = float("inf")

        def measure_wait(question: Question) -> float:
            last = self._asked.get(question.name)
            return never if last is None else (self._check - last) / question.every

        chosen = sorted(questions, key=measure_wait, reverse=True)[: max(0, slots)]
        self._asked |= {question.name: self._check for question in chosen}
        return chosen


@dataclass(slots=True)
class Facts:
    """All that is known; None for a value without a usable answer.

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

    def learn_screen(self, screen: Screen) -> None:
        """Take what the metrics of the leader say, which is newer than what was asked before."""
        self.screen = screen if screen.complete else Screen()
        if not screen.complete:
            return
        for kind in CHECKS:
            self.checks[kind] = screen.regions[kind]
            if not screen.regions[kind]:
                self.samples.pop(kind, None)
        for kind in HOT:
            if not screen.hot.get(kind, 0):
                self.hot[kind] = None

    def learn(self, question: Question, answer: Answer) -> None:
        """Take one answer. A value that it lacks is not known any more."""
        name, body = question.name, answer.body if answer.ok else _NOTHING
        count = count_from(answer.content) if answer.ok else None
        if name == "operators":
            self.operators = operators_from(body)
        elif name == "count":
            self.count = count
        elif name == "members":
            self.members = members_from(body)
        elif name == "schedulers":
            self._schedulers = schedulers_from(body)
        elif name == "paused":
            self._paused = schedulers_from(body)
        elif name == "evicting":
            self._evicting = evicting_from(body)
        elif name in CHECKS and count is None:
            self.checks.pop(name, None)
            self.samples.pop(name, None)
        elif name in CHECKS and count is not None:
            self.checks[name] = count
            self.samples[name] = regions_from(answer.content)
        elif name.startswith("hot-"):
            kind = name.removeprefix("hot-")
            if isinstance(body, dict):
                self.hot[kind] = hottest_from(body, kind)
            else:
                self.hot.pop(kind, None)

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
        apart = scheduled_stores(EVICT_LEADER, self.schedulers)
        if EVICT_LEADER not in self.schedulers:
            return apart
        return None if self._evicting is None else apart | self._evicting

    @property
    def hottest(self) -> Hot | None:
        """The hottest region of all, written or read."""
        regions = [hot for hot in self.hot.values() if hot is not None]
        return max(regions, key=lambda hot: hot.ratio, default=None)


_NOTHING = object()
