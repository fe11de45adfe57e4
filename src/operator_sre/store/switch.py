"""The kill switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.switch import SwitchState
from operator_sre.store.approvals import cancel_requests
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredSwitch", "switch_state"]

Rows = Callable[[str], list[Any]]


class StoredSwitch:
    """One switch for everybody on this database; it stands as it was left."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    def state(self) -> SwitchState:
        """How it stands."""
        return switch_state(self._reader.rows)

    async def turn_on(self, *, by: str, reason: str) -> Sequence[str]:
        """Nothing is permitted from here on; returns the requests that were cancelled with it."""

        def change(transaction: Transaction) -> Sequence[str]:
            _turn(transaction, Kind.KILL_SWITCH_ON, by, reason)
            why = "the kill switch was turned on"
            return cancel_requests(transaction, Actor(id=by, type="user"), why)

        return await self._writer.write(change)

    async def turn_off(self, *, by: str, reason: str) -> None:
        """Permits may be given again; older ones stay void. Fine when it is off already."""
        await self._writer.write(
            lambda transaction: _turn(transaction, Kind.KILL_SWITCH_OFF, by, reason)
        )


def switch_state(rows: Rows) -> SwitchState:
    """How the switch stands, read through any session."""
    found = rows("SELECT is_on, generation, by_whom, reason, at FROM kill_switch")
    if not found:
        return SwitchState()
    is_on, generation, by, reason, at = found[0]
    return SwitchState(bool(is_on), generation, by, reason, datetime.fromtimestamp(at, UTC))


def _turn(transaction: Transaction, kind: Kind, by: str, reason: str) -> None:
    known = switch_state(lambda sql: transaction.connection.execute(sql).fetchall())
    if known.on is not (kind is Kind.KILL_SWITCH_ON):
        payload = {"generation": known.generation + 1, "reason": reason}
        transaction.append(Draft(kind, payload, actor=Actor(id=by, type="user")))
