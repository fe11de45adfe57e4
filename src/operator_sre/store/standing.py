"""Standing rules."""

from __future__ import annotations

import json
from collections.abc import Sequence

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.standing import Scope, StandingRule
from operator_protocols.errors import ConflictError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredStandingRules", "rule_stands"]


class StoredStandingRules:
    """What people have allowed for as long as they do not revoke it."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer

    async def add(self, rule: StandingRule) -> StandingRule:
        """Remember it; the same id added twice is one rule."""

        def change(transaction: Transaction) -> StandingRule:
            known = _load(transaction, rule.id)
            if known is None:
                # A rule that outlives its ticket must not go with it when that is purged.
                ticket = rule.ticket if rule.scope is Scope.TICKET else None
                by = Actor(rule.made_by, "user")
                payload = {"rule": to_json(rule)}
                transaction.append(Draft(Kind.RULE_ADDED, payload, ticket=ticket, actor=by))
            return known or rule

        return await self._writer.write(change)

    async def revoke(self, rule: str, *, by: Actor, reason: str) -> StandingRule:
        """It allows nothing from now on. ConflictError when it is revoked already."""

        def change(transaction: Transaction) -> StandingRule:
            known = _load(transaction, rule)
            if known is None:
                raise NotFoundError(
                    f"There is no standing rule {rule!r}.",
                    next_step="See them with: operator approvals rules",
                )
            if not known.stands:
                raise ConflictError(
                    f"Rule {rule!r} has been revoked already, by {known.revoked_by}."
                )
            ticket = known.ticket if known.scope is Scope.TICKET else None
            payload = {"id": rule, "reason": reason}
            transaction.append(Draft(Kind.RULE_REVOKED, payload, ticket=ticket, actor=by))
            revoked = _load(transaction, rule)
            assert revoked is not None
            return revoked

        return await self._writer.write(change)

    def get(self, rule: str) -> StandingRule | None:
        """One rule."""
        rows = self._reader.rows("SELECT body FROM standing_rules WHERE id = ?", (rule,))
        return from_json(StandingRule, json.loads(rows[0][0])) if rows else None

    def find(self, *, revoked: bool = False) -> Sequence[StandingRule]:
        """Those that stand, or all, oldest first."""
        rows = self._reader.rows(
            "SELECT body FROM standing_rules WHERE revoked <= ? ORDER BY seq", (int(revoked),)
        )
        return [from_json(StandingRule, json.loads(row[0])) for row in rows]


def rule_stands(transaction: Transaction, rule: str) -> bool:
    """Whether it is there and not revoked, inside a transaction."""
    known = _load(transaction, rule)
    return known is not None and known.stands


def _load(transaction: Transaction, rule: str) -> StandingRule | None:
    row = transaction.connection.execute(
        "SELECT body FROM standing_rules WHERE id = ?", (rule,)
    ).fetchone()
    return from_json(StandingRule, json.loads(row[0])) if row else None
