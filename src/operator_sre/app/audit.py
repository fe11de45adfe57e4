"""The ledger, for people and programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.run import RunRecord
from operator_protocols.errors import NotFoundError
from operator_sre.app.wiring import App
from operator_sre.ledger import Report, verify

__all__ = ["RunView", "list_runs", "show_entry", "show_run", "verify_ledger"]

ENTRIES_MAX = 5000


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and all its entries, in order."""

    run: RunRecord
    entries: tuple[Entry, ...]


def list_runs(app: App, *, limit: int) -> Sequence[RunRecord]:
    """The newest runs, newest first."""
    return app.store.runs.newest(limit=limit)


def show_run(app: App, run: str) -> RunView:
    """One run as it went."""
    record = app.store.runs.get(run)
    if record is None:
        raise NotFoundError(
            f"There is no run {run!r}.", next_step="See them with: operator audit list"
        )
    return RunView(record, tuple(app.store.entries.after(0, limit=ENTRIES_MAX, run=run)))


def show_entry(app: App, seq: int) -> Entry:
    """One entry of the ledger."""
    entry = app.store.entries.get(seq)
    if entry is None:
        raise NotFoundError(
            f"There is no entry {seq}.", next_step="See the newest with: operator audit list"
        )
    return entry


def verify_ledger(app: App, *, progress: Callable[[int], None]) -> Report:
    """Walk the whole chain."""
    return verify(
        app.store.entries, app.store.checkpoints, trusted_key=app.key.key, progress=progress
    )
