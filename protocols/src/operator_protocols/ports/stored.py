"""What is remembered: one small port for each stored noun, at most four verbs each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from operator_protocols.domain.action import Result
from operator_protocols.domain.checkpoint import Checkpoint
from operator_protocols.domain.command import Attempt, Command, CommandFilter
from operator_protocols.domain.entry import Draft, Entry
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Violation
from operator_protocols.domain.pattern import Pattern, PatternNote
from operator_protocols.domain.permit import Approval, ApprovalState, Permit
from operator_protocols.domain.query import Query
from operator_protocols.domain.run import RunRecord
from operator_protocols.domain.ticket import Ticket, TicketState

__all__ = [
    "Approvals",
    "Checkpoints",
    "Commands",
    "Condition",
    "Conditions",
    "Entries",
    "Intents",
    "Journal",
    "Leases",
    "Observations",
    "Patterns",
    "RawEntry",
    "Runs",
    "Sealed",
    "Search",
    "Tickets",
]

RawEntry = tuple[int, bytes | None, bytes, bytes, bytes]


@runtime_checkable
class Journal(Protocol):
    """The writing end of the Ledger."""

    async def append(self, draft: Draft) -> Entry:
        """Durable when it returns; a second draft with the same key returns the first entry."""
        ...


@runtime_checkable
class Entries(Protocol):
    """The reading end of the Ledger."""

    def get(self, seq: int) -> Entry | None:
        """One entry."""
        ...

    def after(
        self, seq: int, *, limit: int, ticket: int | None = None, run: str = ""
    ) -> Sequence[Entry]:
        """The entries behind `seq`, oldest first."""
        ...

    def newest(self, *, limit: int, ticket: int | None = None, run: str = "") -> Sequence[Entry]:
        """The newest entries, newest first."""
        ...

    def raw(self, seq: int, *, limit: int) -> Sequence[RawEntry]:
        """Stored rows behind `seq` as they lie: seq, body or None, digest, previous, hash."""
        ...


@runtime_checkable
class Checkpoints(Protocol):
    """Signed heads of the Ledger."""

    def after(self, seq: int, *, limit: int) -> Sequence[Checkpoint]:
        """Checkpoints behind `seq`, oldest first."""
        ...


@runtime_checkable
class Sealed(Protocol):
    """What redaction took out of entries whose run is not over."""

    def unsealed(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The same entries, with their payloads as they were."""
        ...


@runtime_checkable
class Tickets(Protocol):
    """Tickets as the ledger tells them."""

    def get(self, ticket: int) -> Ticket | None:
        """One ticket."""
        ...

    def find(self, *, states: Iterable[TicketState] = (), subject: str = "") -> Sequence[Ticket]:
        """Tickets in these states (all when none is named), most urgent and oldest first."""
        ...

    async def open(self, violations: Sequence[Violation]) -> Ticket:
        """File violations as one ticket; the first is its root. ConflictError if one is filed."""
        ...

    async def grow(self, ticket: Ticket, violations: Sequence[Violation]) -> Ticket:
        """Add violations that belong to a live ticket. ConflictError if one is filed already."""
        ...


@runtime_checkable
class Leases(Protocol):
    """Who works on a ticket, for how long. An epoch tells one claim from the next."""

    async def claim(
        self, worker: str, *, run: str, lease_s: float, attempts_max: int
    ) -> Ticket | None:
        """Take the most urgent ticket that nobody works on, or whose worker is gone.

        An unfinished run of that ticket goes on under its own id; `run` is for a new one.
        """
        ...

    async def renew(self, ticket: Ticket, *, lease_s: float) -> bool:
        """Keep it; False when somebody else has it by now."""
        ...

    async def release(
        self, ticket: Ticket, *, reason: str, wait_s: float, counts: bool = True
    ) -> None:
        """Give it back; another may claim it after `wait_s`. Parked work `counts` as no attempt."""
        ...

    async def end(self, ticket: Ticket, *drafts: Draft) -> Entry:
        """Record all of it, if the ticket stands as the caller saw it; else ConflictError."""
        ...


@runtime_checkable
class Runs(Protocol):
    """Runs as the ledger tells them."""

    def get(self, run: str) -> RunRecord | None:
        """One run."""
        ...

    def newest(self, *, limit: int) -> Sequence[RunRecord]:
        """The newest runs, newest first."""
        ...


@runtime_checkable
class Approvals(Protocol):
    """Requests to people."""

    async def request(self, approval: Approval) -> Approval:
        """Record it; the same id asked twice is one request."""
        ...

    async def decide(
        self, approval: str, state: ApprovalState, *, by: str, reason: str
    ) -> Approval:
        """Answer a pending request. ConflictError when it is answered or expired already."""
        ...

    def get(self, approval: str) -> Approval | None:
        """One request."""
        ...

    def find(self, *, states: Iterable[ApprovalState] = ()) -> Sequence[Approval]:
        """Requests in these states, oldest first."""
        ...


@runtime_checkable
class Intents(Protocol):
    """What is about to run and what became of it."""

    async def begin(self, permit: Permit) -> Entry:
        """Use the permit up and record the intent, in one transaction; PermitError otherwise."""
        ...

    async def end(self, permit: Permit, result: Result) -> Entry:
        """Record what became of it."""
        ...


@runtime_checkable
class Commands(Protocol):
    """Every command, run or refused, as the ledger tells it."""

    def get(self, seq: int) -> Command | None:
        """One command, by the entry it began with."""
        ...

    def newest(
        self, where: CommandFilter, *, limit: int, before: int | None = None
    ) -> Sequence[Command]:
        """The newest commands, newest first; `before` a seq for the next page."""
        ...

    def attempts(self, where: CommandFilter, *, limit: int) -> Sequence[Attempt]:
        """The same without their texts, for counting."""
        ...


@runtime_checkable
class Search(Protocol):
    """Full text, newest first. The index is filled behind the ledger's back."""

    def behind(self) -> int:
        """How many entries are not in the index yet."""
        ...

    async def catch_up(self, *, entries_max: int) -> int:
        """Index up to so many entries now; how many are left."""
        ...

    def commands(
        self, query: Query, where: CommandFilter, *, limit: int, before: int | None = None
    ) -> Sequence[Command]:
        """Commands whose command, context or output has all the terms."""
        ...

    def entries(
        self,
        query: Query,
        *,
        limit: int,
        before: int | None = None,
        ticket: int | None = None,
        run: str = "",
    ) -> Sequence[Entry]:
        """Entries of any kind that have all the terms."""
        ...


@runtime_checkable
class Patterns(Protocol):
    """Patterns that people made, and what they did with those that were learned."""

    def notes(self) -> Sequence[PatternNote]:
        """Everything that the ledger holds under a name, by name."""
        ...

    async def create(self, pattern: Pattern, *, by: str) -> None:
        """Remember a pattern. ConflictError when there is one of that name."""
        ...

    async def use(self, name: str, *, lines: Sequence[str], level: str, by: str) -> None:
        """Record that somebody filled it in, with what came out and how it was judged."""
        ...

    async def hide(self, name: str, *, reason: str, by: str) -> None:
        """Offer it no more; what is in the ledger stays there."""
        ...


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of one invariant at one target, and since when, across restarts."""

    subject: str
    invariant: str
    target: str
    health: Health
    since: datetime
    broken_since: datetime | None
    detail: str = ""


@runtime_checkable
class Conditions(Protocol):
    """Grace clocks and recovery clocks that survive a restart."""

    def of(self, subject: str) -> Sequence[Condition]:
        """All of one subject."""
        ...

    async def update(self, conditions: Sequence[Condition]) -> None:
        """Write them down."""
        ...


@runtime_checkable
class Observations(Protocol):
    """Telemetry beside the ledger, with its own retention."""

    async def add(self, observation: Observation) -> None:
        """Remember one look."""
        ...

    def newest(self, subject: str, *, limit: int) -> Sequence[Observation]:
        """The newest looks at a subject, newest first."""
        ...
