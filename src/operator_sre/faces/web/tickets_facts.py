"""What the page of a ticket shows, put together once for all of its parts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.ticket import MoveKind, Ticket, TicketState, refusal_of
from operator_sre.app.reports import Report, report_of
from operator_sre.app.reports.formats import charts_of
from operator_sre.app.reports.report import permission_of, result_of
from operator_sre.app.story import hypotheses_of
from operator_sre.app.tickets import end_of_ticket

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["Dossier", "Dossiers", "Weighing", "moves_for", "weighings_of"]

DOSSIERS_MAX = 32
# A dossier that nothing was written about is made anew after so long: what is seen goes on.
FRESH_S = 2.0
ENTRIES_MAX = 400
STEPS_MAX = 8
ROWS_MAX = 8
DEEDS_MAX = 60


@dataclass(frozen=True, slots=True)
class Weighing:
    """One thought of a mind: what it asks next, and how probable it holds what."""

    seq: int
    text: str
    shares: Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Dossier:
    """One ticket with its report and how its mind has weighed what."""

    ticket: Ticket
    report: Report
    weighings: tuple[Weighing, ...]
    # The entries with which commands began.
    calls: frozenset[int] = frozenset()

    @property
    def hypotheses(self) -> list[tuple[str, str]]:
        """The rows of the table: what is probable at last comes first."""
        last: dict[tuple[str, str], float] = {}
        for one in self.weighings:
            last |= one.shares
        now = self.weighings[-1].shares if self.weighings else {}
        return sorted(last, key=lambda row: (-now.get(row, 0.0), row))[:ROWS_MAX]

    def commands(self) -> Iterator[Mapping[str, Any]]:
        """What was wanted and done, the newest first."""
        for deed in self.report.deeds[: -DEEDS_MAX - 1 : -1]:
            runs = not deed.outcome and deed.seq in self.calls
            yield {
                "deed": deed,
                "runs": runs,
                "result": result_of(deed),
                "allowed": permission_of(deed.permission),
                "said": deed.outcome not in ("", "refused") or runs,
            }

    def charts(self) -> Markup:
        """Pictures of what was read around it; everything in them is escaped where it is drawn."""
        return Markup(charts_of(self.report))  # noqa: S704


def weighings_of(entries: Sequence[Entry]) -> tuple[Weighing, ...]:
    """How the table of hypotheses has moved, the last steps of it; empty for minds without one."""
    found = []
    for entry in entries:
        if rows := hypotheses_of(entry):
            shares = {(one.cause, one.target): one.probability for one in rows}
            found.append(Weighing(entry.seq, str(entry.payload["reasoning"]), shares))
    return tuple(found[-STEPS_MAX:])


def moves_for(ticket: Ticket, *, paused: bool) -> frozenset[str]:
    """What can be done with a ticket as it stands; the app decides once more when it is done."""
    kinds = {kind.value for kind in MoveKind if not refusal_of(ticket, kind)}
    kinds -= {MoveKind.HAND_OFF.value}
    kinds -= {MoveKind.UNHOLD.value} if not paused else {MoveKind.HOLD.value}
    if ticket.state in (TicketState.OPEN, TicketState.CLAIMED, TicketState.WATCHED):
        kinds -= {MoveKind.REOPEN.value}
    if ticket.state is TicketState.CLOSED:
        kinds -= {MoveKind.CLOSE.value}
    if ticket.state.live:
        kinds.add("resolve")
    return frozenset(kinds)


@dataclass(slots=True)
class Dossiers:
    """The newest of some tickets: the parts of a page that change together are made of the same."""

    _kept: OrderedDict[int, tuple[int, float, Dossier]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, home: App, number: int) -> Dossier:
        """One that is as new as the ledger. NotFoundError when there is no such ticket."""
        newest = home.store.entries.newest(limit=1, ticket=number)
        head, now_s = (newest[0].seq if newest else 0), home.clock.monotonic()
        with self._lock:
            known = self._kept.get(number)
            if known is not None and known[0] == head and now_s - known[1] <= FRESH_S:
                return known[2]
            view = end_of_ticket(home, number, limit=ENTRIES_MAX)
            told = [one for one in view.entries if one.kind is not Kind.PURGED]
            calls = frozenset(one.seq for one in told if one.kind is Kind.TOOL_CALL)
            dossier = Dossier(view.ticket, report_of(home, number), weighings_of(told), calls)
            self._kept[number] = (head, now_s, dossier)
            self._kept.move_to_end(number)
            while len(self._kept) > DOSSIERS_MAX:
                self._kept.popitem(last=False)
            return dossier
