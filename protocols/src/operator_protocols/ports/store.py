"""What is remembered: one small port for each stored noun, at most four verbs each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from operator_protocols.domain.action import Result
    from operator_protocols.domain.command import Attempt, Command, CommandFilter, Query
    from operator_protocols.domain.entry import Actor, Checkpoint, Draft, Entry, Kind
    from operator_protocols.domain.limits import (
        Limits,
        SubjectMode,
        SwitchState,
        TargetChange,
        Usage,
    )
    from operator_protocols.domain.observation import Violation
    from operator_protocols.domain.pattern import Pattern, PatternNote
    from operator_protocols.domain.permit import Approval, ApprovalState, Permit
    from operator_protocols.domain.run_record import RunRecord
    from operator_protocols.domain.session import SessionAction, SessionRecord
    from operator_protocols.domain.standing_rule import StandingRule
    from operator_protocols.domain.target import Initiator, Process
    from operator_protocols.domain.ticket import Move, Ticket, TicketState
    from operator_protocols.domain.verdict import Mode

__all__ = [
    "Approvals",
    "ChangedCommands",
    "Checkpoints",
    "CommandHistory",
    "Commands",
    "Entries",
    "Intents",
    "Journal",
    "Leases",
    "LimitUsage",
    "Modes",
    "Patterns",
    "RawEntry",
    "Runs",
    "Sealed",
    "Search",
    "Sessions",
    "StandingRules",
    "Switch",
    "TicketMoves",
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

    def newest(
        self, *, limit: int, ticket: int | None = None, run: str = "", kind: Kind | None = None
    ) -> Sequence[Entry]:
        """The newest entries, newest first; of one kind where it is named."""
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

    def unseal(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """The same entries, with their payloads as they were."""
        ...


@runtime_checkable
class Tickets(Protocol):
    """Tickets as the ledger tells them."""

    def get(self, ticket: int) -> Ticket | None:
        """One ticket."""
        ...

    def find(
        self,
        *,
        states: Iterable[TicketState] = (),
        subject: str = "",
        severity: str = "",
        assignee: str = "",
        text: str = "",
        limit: int | None = None,
        after: int = 0,
    ) -> Sequence[Ticket]:
        """Tickets in these states (all when none is named), most urgent and oldest first.

        `text` is looked for in their summaries and reasons, `after` is a ticket for the next page.
        """
        ...

    async def open(
        self, violations: Sequence[Violation], *, began: datetime | None = None
    ) -> Ticket:
        """File violations as one ticket; the first is its root.

        ConflictError if one is filed, or if its ticket ended after the check that `began` then.
        """
        ...

    async def grow(
        self, ticket: Ticket, violations: Sequence[Violation], *, began: datetime | None = None
    ) -> Ticket:
        """Add violations that belong to a live ticket. ConflictError as for `open`."""
        ...


@runtime_checkable
class Leases(Protocol):
    """Who works on a ticket, for how long. An epoch tells one claim from the next."""

    async def claim(
        self,
        worker: str,
        *,
        run: str,
        lease_s: float,
        attempts_max: int,
        ticket: int = 0,
        subjects: Sequence[str] | None = None,
    ) -> Ticket | None:
        """Take the most urgent ticket that has no worker, or whose worker is gone.

        An unfinished run of that ticket goes on under its own id; `run` is for a new one. With
        `ticket` only that ticket is taken, with `subjects` only a ticket of these subjects.
        """
        ...

    async def renew(self, ticket: Ticket, *, lease_s: float) -> bool:
        """Renew the claim; False when another worker holds it by now."""
        ...

    async def release(
        self,
        ticket: Ticket,
        *,
        reason: str,
        wait_s: float,
        counts: bool = True,
        approval: str = "",
        category: str = "",
    ) -> None:
        """Give it back; another may claim it after `wait_s`, or when that request is answered.

        Parked work `counts` as no attempt. `category` says why it failed, where it did.
        """
        ...

    async def end(self, ticket: Ticket, *drafts: Draft) -> Entry:
        """Record all of it, if the ticket stands as the caller saw it; else ConflictError."""
        ...


@runtime_checkable
class TicketMoves(Protocol):
    """What people do with tickets."""

    async def make(self, ticket: int, move: Move) -> Ticket:
        """Apply the change once; a change that is already in effect writes nothing. NotFoundError,
        ConflictError.

        The worker of the ticket loses it when a user holds, snoozes, escalates or closes it.
        """
        ...


@runtime_checkable
class Runs(Protocol):
    """Runs as the ledger tells them."""

    def get(self, run: str) -> RunRecord | None:
        """One run."""
        ...

    def newest(self, *, limit: int, before: str = "") -> Sequence[RunRecord]:
        """The newest runs, newest first; `before` a run for the next page."""
        ...


@runtime_checkable
class Approvals(Protocol):
    """Requests to people."""

    async def request(self, approval: Approval) -> Approval:
        """Record it; the same id asked twice is one request."""
        ...

    async def decide(
        self, approval: str, state: ApprovalState, *, by: Actor, reason: str, version: int
    ) -> Approval:
        """Answer what was seen as `version`; a yes that another is needed for stays PENDING.

        ConflictError when it is answered, used or expired already, when it has changed since, and
        when the same person says yes twice.
        """
        ...

    def get(self, approval: str) -> Approval | None:
        """One request."""
        ...

    def find(self, *, states: Iterable[ApprovalState] = (), run: str = "") -> Sequence[Approval]:
        """Requests in these states, of this run or of all, oldest first."""
        ...


@runtime_checkable
class StandingRules(Protocol):
    """What people have allowed for as long as they do not revoke it."""

    async def add(self, rule: StandingRule) -> StandingRule:
        """Remember it; the same id added twice is one rule."""
        ...

    async def revoke(self, rule: str, *, by: Actor, reason: str) -> StandingRule:
        """It allows nothing from now on. ConflictError when it is revoked already."""
        ...

    def get(self, rule: str) -> StandingRule | None:
        """One rule."""
        ...

    def find(self, *, revoked: bool = False) -> Sequence[StandingRule]:
        """Rules in force, or all, oldest first."""
        ...


@runtime_checkable
class Intents(Protocol):
    """What is about to run and what became of it."""

    async def begin(
        self, permit: Permit, limits: Limits | None = None, *, initiator: Initiator | None = None
    ) -> Entry:
        """Use the permit up and record the intent, in one transaction; PermitError otherwise.

        The transaction also checks the kill switch and the limits on changes.
        """
        ...

    async def record_start(self, intent: Entry, process: Process) -> Entry:
        """Record which process it became."""
        ...

    async def end(self, intent: Entry, result: Result) -> Entry:
        """Record what became of it, once."""
        ...

    def open(self) -> Sequence[Entry]:
        """Every intent without a recorded outcome, oldest first."""
        ...


@runtime_checkable
class LimitUsage(Protocol):
    """What was changed about a subject, counted for its limits."""

    def usage(self, subject: str, limits: Limits, *, now: datetime) -> Usage:
        """What these limits go by, as it is now."""
        ...

    def newest(self, subject: str, tools: Sequence[str]) -> Sequence[TargetChange]:
        """The newest change of each target by one of these tools."""
        ...

    async def reset(self, subject: str, *, by: str, reason: str) -> None:
        """Count from here on."""
        ...


@runtime_checkable
class Sessions(Protocol):
    """Recent activity of each agent, and which agents are held in observe."""

    def actions(self, agent: str, *, since: datetime) -> Sequence[SessionAction]:
        """What it began since then and since its last reset, oldest first."""
        ...

    def find(self, agent: str = "") -> Sequence[SessionRecord]:
        """Everybody who was ever held, or this one."""
        ...

    async def hold(self, agent: str, *, score: int, reason: str) -> None:
        """Hold it in observe until a person resets it; fine when it is held already."""
        ...

    async def reset(self, agent: str, *, by: str, reason: str) -> None:
        """Release it, and start its session again."""
        ...


@runtime_checkable
class Switch(Protocol):
    """The kill switch."""

    def state(self) -> SwitchState:
        """How it stands."""
        ...

    async def turn_on(self, *, by: str, reason: str) -> Sequence[str]:
        """Nothing is permitted from here on; returns the requests that were cancelled with it.

        Fine when it is on already.
        """
        ...

    async def turn_off(self, *, by: str, reason: str) -> None:
        """Permits may be given again; older ones stay void. Fine when it is off already."""
        ...


@runtime_checkable
class Modes(Protocol):
    """Modes that people have set for subjects."""

    def find(self, subject: str = "") -> Sequence[SubjectMode]:
        """All of them by name, or the one of this subject."""
        ...

    async def set(self, subject: str, mode: Mode, *, by: str, reason: str) -> None:
        """It counts instead of the configured one."""
        ...

    async def reset(self, subject: str, *, by: str, reason: str) -> None:
        """The configured one counts again."""
        ...

    async def hold(self, subjects: Iterable[str], *, by: str, reason: str) -> Sequence[str]:
        """Set these to observe, and return all requests, which are cancelled with it."""
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
class ChangedCommands(Protocol):
    """Commands that changed something, and what undid them."""

    def changes(
        self, *, subject: str = "", limit: int, before: int | None = None
    ) -> Sequence[tuple[Command, str, int | None]]:
        """Commands that were permitted and not SAFE, newest first, with subject and last entry."""
        ...

    def succeeded_after(self, seq: int, command_hash: str, target: str) -> int | None:
        """The first command behind `seq` with this hash that succeeded at this target."""
        ...


@runtime_checkable
class CommandHistory(Commands, ChangedCommands, Protocol):
    """All that is known of commands that ran or were refused."""


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
    """Patterns that users made, and their notes on learned ones."""

    def notes(self) -> Sequence[PatternNote]:
        """Everything that the ledger holds under a name, by name."""
        ...

    async def create(self, pattern: Pattern, *, by: str) -> None:
        """Remember a pattern. ConflictError when there is one of that name."""
        ...

    async def use(self, name: str, *, lines: Sequence[str], level: str, by: str) -> None:
        """Record one use of it, with the result and the verdict."""
        ...

    async def hide(self, name: str, *, reason: str, by: str) -> None:
        """Offer it no more; what is in the ledger stays there."""
        ...
