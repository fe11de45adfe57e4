"""What others report to us, and how far we have come in reporting to others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from operator_protocols.domain.alert import Alert, AlertChange
    from operator_protocols.domain.cursor import Cursor

__all__ = ["Alerts", "Cursors"]


@runtime_checkable
class Alerts(Protocol):
    """Alerts from elsewhere, as the ledger tells them."""

    async def take(self, alerts: Sequence[Alert]) -> Sequence[AlertChange]:
        """Record those that fire and those that are over, all or none; what each changed.

        One that is known already, and the end of one that nobody told us of, leave no entry.
        """
        ...

    def find(
        self, *, firing: bool | None = None, subject: str = "", limit: int = 1000
    ) -> Sequence[Alert]:
        """The newest alerts first: those that fire, those that are over, or both."""
        ...


@runtime_checkable
class Cursors(Protocol):
    """Followers of the ledger: one process at a time moves each of them."""

    async def claim(self, name: str, holder: str, *, lease_s: float) -> Cursor | None:
        """Take it, made at the head of the ledger on first use; None while another holds it."""
        ...

    async def keep(self, cursor: Cursor, *, lease_s: float) -> bool:
        """Write down where it is and what it remembers; False when somebody else has it by now."""
        ...

    async def release(self, cursor: Cursor) -> None:
        """Let another take it at once; fine when somebody has."""
        ...

    def find(self, prefix: str = "") -> Sequence[Cursor]:
        """Those whose name begins so, by name."""
        ...
