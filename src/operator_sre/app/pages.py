"""Pages of what can grow without end: entries of the ledger, and runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.errors import NotFoundError
from operator_sre.app.tickets import TicketView
from operator_sre.app.wiring import App

__all__ = ["EntryPages", "end_of_ticket", "page_of_run", "page_of_runs", "show_record"]

ENTRIES_MAX = 5000


@dataclass(frozen=True, slots=True)
class EntryPages:
    """Entries of a ticket, of a run, or all of them, in either direction."""

    app: App
    ticket: int | None = None
    run: str = ""

    def newer(self, after: int, *, limit: int) -> Sequence[Entry]:
        """Those behind an entry, oldest first; from the beginning with 0."""
        entries = self.app.store.entries
        return entries.after(after, limit=limit, ticket=self.ticket, run=self.run)

    def older(self, before: int, *, limit: int) -> Sequence[Entry]:
        """Those in front of an entry, newest first; from the end with 0."""
        entries = self.app.store.entries
        if not before:
            return entries.newest(limit=limit, ticket=self.ticket, run=self.run)
        if self.ticket is None and not self.run:
            # Nothing is ever missing in the chain, so that the page can be counted.
            found = entries.after(max(0, before - 1 - limit), limit=limit)
            return [one for one in reversed(found) if one.seq < before]
        story = entries.newest(limit=ENTRIES_MAX, ticket=self.ticket, run=self.run)
        return [one for one in story if one.seq < before][:limit]


def end_of_ticket(app: App, number: int, *, limit: int) -> TicketView:
    """A ticket and the newest entries about it, oldest first. NotFoundError."""
    ticket = app.store.tickets.get(number)
    if ticket is None:
        raise NotFoundError(
            f"There is no ticket {number}.", next_step="See them with: operator tickets list"
        )
    newest = app.store.entries.newest(limit=limit, ticket=number)
    return TicketView(ticket, tuple(reversed(newest)))


def page_of_runs(app: App, *, limit: int, before: str = "") -> Sequence[RunRecord]:
    """Runs, the newest first; `before` a run for the next page."""
    return app.store.runs.newest(limit=limit, before=before)


def page_of_run(app: App, run: str, *, after: int, limit: int) -> Sequence[Entry]:
    """Entries of a run behind an entry, oldest first. NotFoundError when there is no such run."""
    show_record(app, run)
    return app.store.entries.after(after, limit=limit, run=run)


def show_record(app: App, run: str) -> RunRecord:
    """One run without its entries."""
    record = app.store.runs.get(run)
    if record is None:
        raise NotFoundError(
            f"There is no run {run!r}.", next_step="See them with: operator audit list"
        )
    return record
