"""The kill switch."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.switch import SwitchState
from operator_protocols.errors import LedgerDamagedError
from operator_sre.store.approvals import cancel_requests
from operator_sre.store.decisions import UNCONFIRMED, Decisions, Rows
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredSwitch", "last_turned", "switch_state"]

OPERATOR = "operator"
_KINDS = (Kind.KILL_SWITCH_ON, Kind.KILL_SWITCH_OFF)


class StoredSwitch:
    """One switch for everybody on this database; it stands as it was left."""

    def __init__(self, reader: Reader, writer: Writer, decisions: Decisions) -> None:
        self._reader = reader
        self._writer = writer
        self._decisions = decisions

    def state(self) -> SwitchState:
        """How it stands."""
        return switch_state(self._reader.rows, self._decisions)

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


def switch_state(rows: Rows, decisions: Decisions) -> SwitchState:
    """How the switch stands, read through any session: off only as far as the ledger confirms."""
    found = rows("SELECT is_on, generation, by_whom, reason, at FROM kill_switch", ())
    try:
        turned = next(decisions.newest(rows, _KINDS), None)
    except LedgerDamagedError as error:
        return SwitchState(True, 0, OPERATOR, error.message.rstrip("."))
    if turned is None and not found:
        return SwitchState()
    if turned is not None and found:
        is_on, generation, by, reason, at = found[0]
        on = turned.kind is Kind.KILL_SWITCH_ON
        same = (bool(is_on), generation) == (on, turned.payload["generation"])
        if same and (on or decisions.holds(rows, turned)):
            return SwitchState(on, generation, by, reason, datetime.fromtimestamp(at, UTC))
    generations = [one[1] for one in found if isinstance(one[1], int)]
    generations += [turned.payload["generation"]] if turned else []
    at_last = turned.at if turned else None
    return SwitchState(True, max(generations, default=0), OPERATOR, UNCONFIRMED, at_last)


def last_turned(rows: Rows, decisions: Decisions) -> int:
    """The number of the entry that turned the switch last, 0 when nobody has."""
    return next((one.seq for one in decisions.newest(rows, _KINDS)), 0)


def _turn(transaction: Transaction, kind: Kind, by: str, reason: str) -> None:
    known = switch_state(transaction.rows, transaction.decisions)
    if known.on is not (kind is Kind.KILL_SWITCH_ON):
        payload = {"generation": known.generation + 1, "reason": reason}
        transaction.append(Draft(kind, payload, actor=Actor(id=by, type="user")))
