"""What others ask of us and report to us: tokens, confirmations, workflows, alerts, cursors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from operator_protocols.domain.alert import Alert, AlertChange
    from operator_protocols.domain.confirmation import Confirmation, ConfirmationState
    from operator_protocols.domain.entry import Actor, Cursor, Draft, Entry
    from operator_protocols.domain.ticket import Move
    from operator_protocols.domain.token import Reply, Token
    from operator_protocols.domain.workflow import StepNote, WorkflowRecord, WorkflowState

__all__ = ["Alerts", "Confirmations", "Cursors", "Replies", "Tokens", "WorkflowClaims", "Workflows"]


@runtime_checkable
class Tokens(Protocol):
    """Tokens as the ledger tells them. Of a secret only its fingerprint is ever kept."""

    async def add(self, token: Token, *, fingerprint: str) -> None:
        """It lets in from now on. ConflictError when there is one of that id or secret."""
        ...

    async def revoke(self, token: str, *, by: Actor, reason: str) -> Token:
        """Revoke it for good. NotFoundError; ConflictError when it is revoked already."""
        ...

    def of(self, fingerprint: str) -> Token | None:
        """The one with this secret, whether it still counts or not."""
        ...

    def find(self) -> Sequence[Token]:
        """All there ever were, newest first."""
        ...


@runtime_checkable
class Replies(Protocol):
    """What was answered to requests that must not be done twice, for a while."""

    async def begin(self, reply: Reply, *, keep_s: float, keep_max: int = 2000) -> Reply | None:
        """Record a request in progress, or return the earlier one with that key.

        Requests older than `keep_s` are forgotten; of one owner, who stands in a key before its
        first '/', the latest `keep_max` are kept.
        """
        ...

    async def end(self, key: str, *, status: int, body: str) -> None:
        """What was answered."""
        ...

    async def drop(self, key: str) -> None:
        """Nothing was done; it may be asked again."""
        ...


@runtime_checkable
class Confirmations(Protocol):
    """Asked-for changes: each is answered once, and a yes is settled once."""

    async def request(self, confirmation: Confirmation) -> Confirmation:
        """Record it; the same id asked twice is one request."""
        ...

    async def decide(
        self,
        confirmation: str,
        state: ConfirmationState,
        *,
        by: Actor,
        reason: str,
        digest: str = "",
        changed: Callable[[Confirmation], str] = lambda _: "",
        drafts: Sequence[Draft] = (),
        move: tuple[int, Move] | None = None,
    ) -> Confirmation:
        """Answer it once, in one transaction with looking whether all is as it was when asked.

        What came too late, is not what `digest` says, or stands on ground of which `changed` says
        that it moved, is returned EXPIRED with the reason. A yes with `drafts` or a `move` is
        settled with them, in that transaction. ConflictError when it is answered already;
        NotFoundError.
        """
        ...

    async def settle(
        self, confirmation: str, *, applied: bool, outcome: str, drafts: Sequence[Draft] = ()
    ) -> Confirmation:
        """Record what became of a yes, once, and what followed. ConflictError the second time."""
        ...

    def find(
        self, confirmation: str = "", *, states: Iterable[ConfirmationState] = ()
    ) -> Sequence[Confirmation]:
        """Those in these states (all when none is named), oldest first; or the one of this id."""
        ...


@runtime_checkable
class Workflows(Protocol):
    """Workflows as the ledger tells them."""

    async def add(
        self, record: WorkflowRecord, *, worker: str = "", lease_s: float = 0.0
    ) -> WorkflowRecord:
        """Remember it; with a worker it is claimed in the same moment."""
        ...

    def get(self, workflow: str) -> WorkflowRecord | None:
        """One of them."""
        ...

    def find(
        self, *, states: Iterable[WorkflowState] = (), after: str = "", limit: int = 1000
    ) -> Sequence[WorkflowRecord]:
        """The newest in these states (all when none is named), newest first.

        With `after`, only workflows older than this one.
        """
        ...

    async def cancel(
        self, workflow: str, *, by: Actor, reason: str, undo: bool = False
    ) -> WorkflowRecord:
        """Start no more steps; a workflow that has not started ends here. ConflictError after its
        end.

        Its worker stops the running step; with `undo` the completed steps are rolled back.
        """
        ...


@runtime_checkable
class WorkflowClaims(Protocol):
    """Claim a workflow for a worker and a time. Writes of an older epoch are refused."""

    async def claim(
        self, worker: str, *, lease_s: float, late_s_max: float, workflow: str = ""
    ) -> WorkflowRecord | None:
        """Take this one, or the first that is due or whose worker is gone.

        What was due longer ago than `late_s_max` is missed: it ends, and is not run.
        """
        ...

    async def renew(self, record: WorkflowRecord, *, lease_s: float) -> bool:
        """Renew the claim; 0 releases it. False when another worker holds it by now."""
        ...

    async def note(self, record: WorkflowRecord, note: StepNote) -> Entry:
        """Record a change of a step. ConflictError when the claim has ended."""
        ...

    async def end(
        self, record: WorkflowRecord, state: WorkflowState, *, reason: str
    ) -> WorkflowRecord:
        """Record the outcome. ConflictError when the claim has ended."""
        ...


@runtime_checkable
class Alerts(Protocol):
    """Alerts from elsewhere, as the ledger tells them."""

    async def take(self, alerts: Sequence[Alert]) -> Sequence[AlertChange]:
        """Record firing and cleared alerts, all or none; return the change of each.

        A known alert, and the end of an unknown one, leave no entry.
        """
        ...

    def find(
        self, *, firing: bool | None = None, subject: str = "", limit: int = 1000
    ) -> Sequence[Alert]:
        """The newest alerts first: firing ones, cleared ones, or both."""
        ...


@runtime_checkable
class Cursors(Protocol):
    """Followers of the ledger: one process at a time moves each of them."""

    async def claim(self, name: str, holder: str, *, lease_s: float) -> Cursor | None:
        """Take it, made at the head of the ledger on first use; None while another holds it."""
        ...

    async def keep(self, cursor: Cursor, *, lease_s: float) -> bool:
        """Save the cursor and its memory; False when another process holds it by now."""
        ...

    async def release(self, cursor: Cursor) -> None:
        """Release it at once; harmless when another process holds it."""
        ...

    def find(self, prefix: str = "") -> Sequence[Cursor]:
        """Those whose name begins so, by name."""
        ...
