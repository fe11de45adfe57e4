"""Alerts from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

from operator_protocols.domain.alert import Alert, AlertChange
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_sre.codec import from_json, to_json
from operator_sre.store.alert_rows import ended_alerts, known_alert
from operator_sre.store.database import plain
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredAlerts"]

# So many that are over for long are forgotten with the next one that fires or ends.
FORGOTTEN_MAX = 100


class StoredAlerts:
    """What fires now and what fired before, one row for each alert."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._kept_s: float | None = None

    def keep(self, *, kept_s: float | None) -> None:
        """From now on what is over is kept for so long."""
        self._kept_s = kept_s

    async def take(self, alerts: Sequence[Alert]) -> Sequence[AlertChange]:
        """Record those that fire and those that are over, all or none; what each changed."""

        def change(transaction: Transaction) -> Sequence[AlertChange]:
            old = self._old(transaction)
            return [_take(transaction, one, old) for one in alerts]

        return await self._writer.write(change)

    def _old(self, transaction: Transaction) -> list[list[str]]:
        if self._kept_s is None:
            return []
        before = transaction.now() - timedelta(seconds=self._kept_s)
        return ended_alerts(transaction.connection, before=before, limit=FORGOTTEN_MAX)

    def find(
        self, *, firing: bool | None = None, subject: str = "", limit: int = 1000
    ) -> Sequence[Alert]:
        """The newest alerts first: those that fire, those that are over, or both."""
        where = ["1 = 1"]
        values: list[object] = []
        if firing is not None:
            where.append("firing = ?")
            values.append(int(firing))
        if subject:
            where.append("subject = ?")
            values.append(plain(subject))
        rows = self._reader.rows(
            f"SELECT body FROM alerts WHERE {' AND '.join(where)}"  # noqa: S608
            " ORDER BY seq DESC LIMIT ?",
            (*values, limit),
        )
        return [from_json(Alert, json.loads(row[0])) for row in rows]


def _take(transaction: Transaction, alert: Alert, old: list[list[str]]) -> AlertChange:
    """`old` is forgotten with the first of them that changes anything."""
    known = known_alert(transaction.connection, alert.trigger, alert.fingerprint)
    if alert.firing is (known is not None and known["firing"]):
        return AlertChange.KNOWN
    by = Actor(id=f"trigger:{alert.trigger}", type="trigger")
    forgets = {"forgets": [*old]} if old else {}
    old.clear()
    if alert.firing:
        fired = {"alert": to_json(alert), **forgets}
        transaction.append(Draft(Kind.ALERT_FIRED, fired, actor=by))
        return AlertChange.FIRED
    payload = {
        "trigger": alert.trigger,
        "fingerprint": alert.fingerprint,
        **{name: known[name] for name in ("name", "subject", "target", "invariant") if known},
        **forgets,
    }
    transaction.append(Draft(Kind.ALERT_CLEARED, payload, actor=by))
    return AlertChange.CLEARED
