"""Changes that cross a trust boundary, and people's answers to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from operator_protocols.domain.confirmation import Confirmation, ConfirmationState
    from operator_protocols.domain.entry import Actor, Draft
    from operator_protocols.domain.ticket import Move

__all__ = ["Confirmations"]


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
