"""Figures that grow: what the ledger tells, and how long looks take. Nothing is ever uncounted."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.watcher import Watch

__all__ = ["BUCKETS_S", "Counted", "LedgerCounts", "LookCounts"]

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PERMITS_MAX = 10_000
# So many different words for one label; whatever comes on top is counted as "other".
WORDS_MAX = 200
_TICKETS = {
    Kind.TICKET_OPENED: "opened",
    Kind.TICKET_RESOLVED: "resolved",
    Kind.TICKET_ESCALATED: "escalated",
}


@dataclass(slots=True)
class LedgerCounts:
    """What has been written since somebody began to follow."""

    tickets: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    commands: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    alerts: Counter[tuple[str, str]] = field(default_factory=Counter)
    untrusted: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    usd: float = 0.0
    _levels: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def take(self, entries: Iterable[Entry]) -> None:
        """Count these, which come behind those before."""
        for entry in entries:
            self._count(entry.kind, entry.payload)

    def _count(self, kind: Kind, payload: Mapping[str, Any]) -> None:
        if word := _TICKETS.get(kind):
            self.tickets[word] += 1
        elif kind is Kind.RUN_FINISHED:
            self.runs[str(payload.get("state", ""))] += 1
        elif kind in (Kind.REASONING, Kind.SUMMARY):
            self._think(kind, payload.get("spent") or {})
        elif kind is Kind.PERMIT_MINTED:
            self._levels[str(payload.get("permit", ""))] = str(payload.get("level", ""))
            if len(self._levels) > PERMITS_MAX:
                self._levels.popitem(last=False)
        elif kind is Kind.TOOL_RESULT:
            level = self._levels.pop(str(payload.get("permit", "")), "") or "unknown"
            self.commands[str(payload["result"]["outcome"]), level] += 1
        elif kind is Kind.REFUSED:
            self.refusals[str(payload.get("level") or "unknown")] += 1
        elif kind is Kind.ALERT_FIRED:
            self.alerts[_bounded(self.alerts, payload["alert"]["trigger"]), "fired"] += 1
        elif kind is Kind.ALERT_CLEARED:
            self.alerts[_bounded(self.alerts, payload["trigger"]), "cleared"] += 1
        elif kind is Kind.TRIGGER_REFUSED:
            trigger = _bounded(self.untrusted, payload["trigger"])
            self.untrusted[trigger] += int(payload.get("count", 1))

    def _think(self, kind: Kind, spent: Mapping[str, Any]) -> None:
        """A turn of a mind, or a summary by one: that costs as well, and is no turn."""
        self.turns += kind is Kind.REASONING
        for direction in ("in", "out"):
            self.tokens[direction] += int(spent.get(f"tokens_{direction}", 0))
        self.usd += float(spent.get("usd", 0.0))


def _bounded(known: Mapping[Any, int], word: object) -> str:
    words = {key[0] if isinstance(key, tuple) else key for key in known}
    return str(word) if word in words or len(words) < WORDS_MAX else "other"


@dataclass(slots=True)
class Counted:
    """The looks at one subject."""

    looks: int = 0
    missed: int = 0
    failed: int = 0
    sum_s: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    last_at_s: float = 0.0


class LookCounts:
    """Looks by subject, gathered from what watchers tell of themselves now and then.

    Of several looks between two of our own the last one stands for all.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, Counted] = {}
        self._before: dict[str, Watch] = {}

    def take(self, watches: Sequence[Watch]) -> None:
        """How every subject is watched by now."""
        for watch in watches:
            name = watch.subject
            if name not in self.subjects and len(self.subjects) >= WORDS_MAX:
                name = "other"
            known = self.subjects.setdefault(name, Counted())
            before = self._before.get(watch.subject)
            if before is None or before.looks > watch.looks:  # it is watched anew
                before = Watch(watch.subject, watch.interval_s)
            looks = watch.looks - before.looks
            known.looks += looks
            known.missed += max(0, watch.missed - before.missed)
            known.failed += max(0, watch.failed - before.failed)
            known.sum_s += looks * watch.last_s
            known.buckets[bisect_left(BUCKETS_S, watch.last_s)] += looks
            if watch.last_at is not None:
                known.last_at_s = max(known.last_at_s, watch.last_at.timestamp())
            self._before[watch.subject] = watch
        present = {watch.subject for watch in watches}
        self._before = {name: one for name, one in self._before.items() if name in present}
