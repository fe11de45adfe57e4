"""A Suspicion is a cause at an object with its evidence; and when an event still counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from operator_sre.subjects.kubernetes.snapshot import Event, Snapshot, Workload

__all__ = [
    "CERTAIN",
    "LIKELY",
    "POSSIBLE",
    "WEAK",
    "Suspicion",
    "first_match",
    "fresh_events",
    "incomplete",
]

# How much a suspicion is worth: the state of the object shows the cause; it fits the cause and
# something fails; it only could be the cause; it is what many healthy clusters show too.
CERTAIN = 0.95
LIKELY = 0.85
POSSIBLE = 0.6
WEAK = 0.3
# The kubelet and the controllers repeat an event for as long as its reason lasts.
EVENT_AGE_S_MAX = 600.0
EVIDENCE_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A cause at an object; `explains` are the workloads whose trouble would come from it."""

    cause: str
    target: str
    weight: float
    evidence: tuple[str, ...]
    explains: frozenset[str] = frozenset()

    @staticmethod
    def of(
        cause: str, target: str, weight: float, *evidence: str, explains: Iterable[str] = ()
    ) -> Suspicion:
        """A suspicion with evidence of bounded length."""
        shown = tuple(" ".join(line.split())[:EVIDENCE_CHARS_MAX] for line in evidence if line)
        return Suspicion(cause, target, weight, shown, frozenset(explains))


def fresh_events(snapshot: Snapshot, kind: str, name: str) -> list[Event]:
    """The warnings about an object that are not old, the newest first."""
    events = [
        event
        for event in snapshot.events
        if event.warning
        and event.kind == kind
        and event.name == name
        and (event.age_s is None or event.age_s <= EVENT_AGE_S_MAX)
    ]
    return sorted(events, key=lambda event: event.age_s or 0.0)


def first_match(
    rows: Sequence[tuple[str, re.Pattern[str]]], text: str
) -> tuple[str, re.Match[str]] | None:
    """The first row of a table whose pattern occurs in a text."""
    for name, pattern in rows:
        match = pattern.search(text)
        if match:
            return name, match
    return None


def incomplete(snapshot: Snapshot) -> Iterator[Workload]:
    """The workloads of which pods do not even exist."""
    for workload in snapshot.workloads:
        wanted = 1 if workload.desired is None else workload.desired
        if workload.kind in ("job", "cronjob", "daemonset"):
            continue
        if len(snapshot.pods_of(workload.name)) < wanted:
            yield workload
