"""The stores that every contract of a stored noun is run against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from operator_protocols.ports import (
    Alerts,
    Approvals,
    Backlog,
    Clock,
    CommandHistory,
    Conditions,
    Confirmations,
    Cursors,
    Entries,
    Intents,
    Journal,
    Leases,
    LimitUsage,
    Modes,
    Observations,
    Patterns,
    Replies,
    Runs,
    Search,
    Sessions,
    Silences,
    StandingRules,
    Switch,
    TicketMoves,
    Tickets,
    Tokens,
    Watchers,
    Workers,
    WorkflowClaims,
    Workflows,
)
from operator_sre.store import open_store, open_store_at
from operator_sre.store.intents import StoredSpending
from operator_sre.store.transaction import Rules

__all__ = ["STORES", "URL", "Home", "Ports"]


class Ports(Protocol):
    """Every stored noun's port on one database, and a way to let go of it."""

    @property
    def journal(self) -> Journal: ...
    @property
    def entries(self) -> Entries: ...
    @property
    def tickets(self) -> Tickets: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def ticket_moves(self) -> TicketMoves: ...
    @property
    def runs(self) -> Runs: ...
    @property
    def spending(self) -> StoredSpending: ...
    @property
    def approvals(self) -> Approvals: ...
    @property
    def standing(self) -> StandingRules: ...
    @property
    def confirmations(self) -> Confirmations: ...
    @property
    def intents(self) -> Intents: ...
    @property
    def limit_usage(self) -> LimitUsage: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def switch(self) -> Switch: ...
    @property
    def modes(self) -> Modes: ...
    @property
    def commands(self) -> CommandHistory: ...
    @property
    def patterns(self) -> Patterns: ...
    @property
    def search(self) -> Search: ...
    @property
    def conditions(self) -> Conditions: ...
    @property
    def observations(self) -> Observations: ...
    @property
    def silences(self) -> Silences: ...
    @property
    def watchers(self) -> Watchers: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def backlog(self) -> Backlog: ...
    @property
    def workflows(self) -> Workflows: ...
    @property
    def alerts(self) -> Alerts: ...
    @property
    def cursors(self) -> Cursors: ...
    @property
    def tokens(self) -> Tokens: ...
    @property
    def replies(self) -> Replies: ...
    @property
    def workflow_claims(self) -> WorkflowClaims: ...
    def close(self) -> None: ...


URL = "store.url"  # a file in the folder of a store that lies elsewhere


def _postgresql(folder: Path, clock: Clock) -> Ports:
    return open_store_at((folder / URL).read_text(), Rules(clock))


# One more implementation is one more line here.
STORES: Mapping[str, Callable[[Path, Clock], Ports]] = {
    "postgresql": _postgresql,
    "sqlite": lambda folder, clock: open_store(folder / "operator.db", clock=clock),
}


class Home:
    """One database, and every handle that a test has opened on it."""

    def __init__(self, kind: str, folder: Path, clock: Clock) -> None:
        self.kind = kind
        self.folder = folder
        self._clock = clock
        self._opened: list[Ports] = []

    def open(self) -> Ports:
        """One more handle, as another process would have."""
        ports = STORES[self.kind](self.folder, self._clock)
        self._opened.append(ports)
        return ports

    def close(self) -> None:
        """Let go of everything."""
        while self._opened:
            self._opened.pop().close()
