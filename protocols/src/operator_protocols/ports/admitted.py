"""What is remembered of those who come by the network: who is let in, and what they were told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Actor
    from operator_protocols.domain.token import Reply, Token

__all__ = ["Replies", "Tokens"]


@runtime_checkable
class Tokens(Protocol):
    """Tokens as the ledger tells them. Of a secret only its fingerprint is ever kept."""

    async def add(self, token: Token, *, fingerprint: str) -> None:
        """It lets in from now on. ConflictError when there is one of that id or secret."""
        ...

    async def revoke(self, token: str, *, by: Actor, reason: str) -> Token:
        """It lets nobody in from now on. NotFoundError; ConflictError when it is revoked."""
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
        """Remember that it is being done; or the one of that key that was begun before.

        Those that are older than `keep_s` are forgotten; of one owner, who stands in a key before
        its first '/', the latest `keep_max` are kept.
        """
        ...

    async def end(self, key: str, *, status: int, body: str) -> None:
        """What was answered."""
        ...

    async def drop(self, key: str) -> None:
        """Nothing was done; it may be asked again."""
        ...
