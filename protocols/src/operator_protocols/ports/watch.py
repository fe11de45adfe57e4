"""What is remembered of watching, and who works when: conditions, silences, engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Trouble

if TYPE_CHECKING:
    from operator_protocols.domain.silence import Silence
    from operator_protocols.domain.ticket import Ticket
    from operator_protocols.domain.watcher import Watcher, Worker

__all__ = [
    "BREAKS_KEPT",
    "FLAP_BREAKS",
    "FLAP_S",
    "Backlog",
    "Condition",
    "Conditions",
    "Engine",
    "Observations",
    "Silences",
    "Watchers",
    "Workers",
]

# What keeps breaking: so many breaks that began within so long.
FLAP_BREAKS = 3
FLAP_S = 600.0
# How many beginnings of breaks are remembered, at most.
BREAKS_KEPT = 8


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of one invariant at one target, and since when, across restarts.

    `breaks` are the times at which it recently broke, oldest first.
    """

    subject: str
    invariant: str
    target: str
    health: Health
    since: datetime
    broken_since: datetime | None
    detail: str = ""
    breaks: tuple[datetime, ...] = ()
    trouble: Trouble | None = None

    def flapping(self, now: datetime) -> bool:
        """True when it broke again and again within the last minutes."""
        if len(self.breaks) < FLAP_BREAKS:
            return False
        return (now - self.breaks[-FLAP_BREAKS]).total_seconds() <= FLAP_S


@runtime_checkable
class Conditions(Protocol):
    """Grace clocks and recovery clocks that survive a restart."""

    def of(self, subject: str) -> Sequence[Condition]:
        """All of one subject."""
        ...

    async def update(self, conditions: Sequence[Condition]) -> None:
        """Write them down."""
        ...

    async def forget(self, conditions: Sequence[Condition]) -> None:
        """Drop those of targets and invariants that are no more."""
        ...


@runtime_checkable
class Observations(Protocol):
    """Telemetry beside the ledger, with its own retention."""

    async def add(self, observation: Observation) -> None:
        """Remember one look."""
        ...

    def newest(self, subject: str, *, limit: int) -> Sequence[Observation]:
        """The newest observations of a subject, newest first."""
        ...

    def after(self, subject: str, at: datetime, *, limit: int) -> Sequence[Observation]:
        """The observations of a subject after this moment, oldest first."""
        ...


@runtime_checkable
class Silences(Protocol):
    """What people keep from opening tickets, as the ledger tells it."""

    def find(self, *, at: datetime | None = None) -> Sequence[Silence]:
        """All of them, newest first; or only those in force now."""
        ...

    async def add(self, silence: Silence) -> None:
        """It counts from its start on. ConflictError when there is one of that id."""
        ...

    async def end(self, silence: str, *, by: str, reason: str) -> None:
        """End it early. ConflictError when it has ended; NotFoundError for an unknown id."""
        ...


@runtime_checkable
class Watchers(Protocol):
    """Who watches, as they tell of themselves; beside the ledger."""

    def find(self) -> Sequence[Watcher]:
        """Everybody who has not left, who spoke last first."""
        ...

    async def beat(self, watcher: Watcher) -> None:
        """Say that one is there, and what one watches."""
        ...

    async def leave(self, worker: str) -> None:
        """Say that one goes; fine when one was never there."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Decides who works when, and nothing else.

    It is never trusted to do a thing once: a lease says who may act on a ticket, a permit is used
    up in the transaction that writes the intent down, and the ledger says what was done.
    """

    @property
    def name(self) -> str:
        """How it is chosen in configuration."""
        ...

    async def work(self) -> None:
        """Take up tickets until cancelled; what is under way then is parked and given back."""
        ...


@runtime_checkable
class Backlog(Protocol):
    """What an engine can hand out."""

    def waiting(self, *, limit: int) -> Sequence[Ticket]:
        """Tickets that could be claimed this moment, the most urgent and oldest first.

        Those whose worker is gone are among them.
        """
        ...

    def lease_end(self, ticket: int) -> datetime | None:
        """When the lease on a ticket ends or ended; None if no worker has one."""
        ...


@runtime_checkable
class Workers(Protocol):
    """Who works, as they tell of themselves; beside the ledger."""

    def find(self) -> Sequence[Worker]:
        """Everybody who has not left, who spoke last first."""
        ...

    async def beat(self, worker: Worker) -> None:
        """Say that one is there."""
        ...

    async def leave(self, worker: str) -> None:
        """Say that one goes; fine when one was never there."""
        ...
