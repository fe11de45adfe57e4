"""What is remembered of workflows: asked for now or later, claimed, noted step by step, ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Actor, Entry
    from operator_protocols.domain.workflow import StepNote, WorkflowRecord, WorkflowState

__all__ = ["WorkflowClaims", "Workflows"]


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
        self, *, states: Iterable[WorkflowState] = (), limit: int = 1000
    ) -> Sequence[WorkflowRecord]:
        """The newest in these states (all when none is named), newest first."""
        ...

    async def cancel(
        self, workflow: str, *, by: Actor, reason: str, undo: bool = False
    ) -> WorkflowRecord:
        """Begin no more of it; one that nobody has begun ends here. ConflictError when it is over.

        Whoever runs it ends what runs; with `undo` what is done is taken back.
        """
        ...


@runtime_checkable
class WorkflowClaims(Protocol):
    """Who runs a workflow, for how long. Nothing of an older epoch is written or begun."""

    async def claim(
        self, worker: str, *, lease_s: float, late_s_max: float, workflow: str = ""
    ) -> WorkflowRecord | None:
        """Take this one, or the first that is due or whose worker is gone.

        What was due longer ago than `late_s_max` is missed: it ends, and is not run.
        """
        ...

    async def renew(self, record: WorkflowRecord, *, lease_s: float) -> bool:
        """Keep it; 0 gives it back. False when somebody else has it by now."""
        ...

    async def note(self, record: WorkflowRecord, note: StepNote) -> Entry:
        """Write a change of a step down. ConflictError when the claim is over."""
        ...

    async def end(
        self, record: WorkflowRecord, state: WorkflowState, *, reason: str
    ) -> WorkflowRecord:
        """Write down how it ended. ConflictError when the claim is over."""
        ...
