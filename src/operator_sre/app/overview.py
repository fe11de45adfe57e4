"""Everything at a glance: how readings moved lately, and what happened in the last hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.story import lines_of
from operator_sre.app.wiring import App

__all__ = ["Change", "Spark", "changes_lately", "live_tickets", "sparks_of"]

LOOKS = 60
LATELY_S = 3600.0
# So many entries are looked at for what happened; in an hour with more, the newest are told.
ENTRIES_MAX = 400
# Beyond it, sums of figures are none any more.
FIGURE_MAX = 1e15
_QUIET = frozenset({Kind.OBSERVED, Kind.REASONING, Kind.VERDICT, Kind.PERMIT_MINTED})


@dataclass(frozen=True, slots=True)
class Spark:
    """How the liveliest reading of a target moved, oldest first; None where nothing was seen."""

    target: str
    reading: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened, in a sentence."""

    seq: int
    at: datetime
    text: str
    tone: str
    by: str
    ticket: int | None


def sparks_of(app: App, subject: str, *, looks: int = LOOKS) -> Sequence[Spark]:
    """For each target of a subject the reading that moved most in the last looks."""
    seen = app.store.observations.newest(subject, limit=looks)[::-1]
    targets = dict.fromkeys(one.target for look in seen for one in look.seen)
    return [_spark(name, seen) for name in targets]


def live_tickets(app: App, *, limit: int) -> Sequence[Ticket]:
    """Tickets whose trouble is not known to be over, the most urgent and oldest first."""
    states = [state for state in TicketState if state.live]
    return app.store.tickets.find(states=states, limit=limit)


def changes_lately(app: App, *, limit: int, within_s: float = LATELY_S) -> Sequence[Change]:
    """What happened lately that a person wants to know of, the newest first."""
    since = app.clock.now() - timedelta(seconds=within_s)
    found: list[Change] = []
    for entry in app.store.entries.newest(limit=ENTRIES_MAX):
        if entry.at < since or len(found) >= limit:
            break
        if entry.kind not in _QUIET:
            found += _changes(entry)
    return found[:limit]


def _changes(entry: Entry) -> list[Change]:
    line = next(iter(lines_of(entry)), None)
    if line is None:
        return []
    by = entry.actor.id if entry.actor.type == "user" else ""
    return [Change(entry.seq, entry.at, line.text, line.tone, by, entry.ticket)]


def _spark(target: str, looks: Sequence[Observation]) -> Spark:
    seen = [look.of(target) for look in looks]
    names = dict.fromkeys(name for one in seen for name in one.readings)
    series = dict(
        _moving(name, [_figure(one.readings.get(name)) for one in seen]) for name in names
    )
    chosen = max(sorted(series), key=lambda name: _liveliness(series[name]), default="")
    return Spark(target, chosen, series.get(chosen, tuple(None for _ in seen)))


def _moving(name: str, values: list[float | None]) -> tuple[str, tuple[float | None, ...]]:
    """A reading as it moved; of what only grows, as a counter, how much it grew at each look."""
    known = [one for one in values if one is not None]
    if len(known) < 3 or known[0] == known[-1] or sorted(known) != known:
        return name, tuple(values)
    steps: list[float | None] = [None]
    for before, after in pairwise(values):
        steps.append(None if before is None or after is None else after - before)
    return f"{name} per look", tuple(steps[1:])


def _figure(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= FIGURE_MAX else None


def _liveliness(values: Sequence[float | None]) -> float:
    """How much it goes up and down for its size; what was not seen at all comes last."""
    known = [one for one in values if one is not None]
    if len(known) < 2:
        return -1.0 if not known else 0.0
    reach, seen = max(known) - min(known), len(known) / len(values)
    return seen * (reach / max(abs(max(known)), abs(min(known))) if reach else 0.1)
