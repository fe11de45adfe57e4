"""Who works when: engines, what waits for them, and the processes they run in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from operator_protocols.domain.ticket import Ticket
    from operator_protocols.domain.worker import Worker

__all__ = ["Backlog", "Engine", "Workers"]


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
