"""The stores that every contract of a stored noun is run against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from operator_protocols.ports import (
    Approvals,
    Clock,
    Conditions,
    Entries,
    Intents,
    Journal,
    Leases,
    Observations,
    Runs,
    Tickets,
)
from operator_sre.store import open_store

__all__ = ["STORES", "Home", "Ports"]


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
    def runs(self) -> Runs: ...
    @property
    def approvals(self) -> Approvals: ...
    @property
    def intents(self) -> Intents: ...
    @property
    def conditions(self) -> Conditions: ...
    @property
    def observations(self) -> Observations: ...
    def close(self) -> None: ...


# One more implementation is one more line here.
STORES: Mapping[str, Callable[[Path, Clock], Ports]] = {
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
