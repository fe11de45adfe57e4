"""Standing rules."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.standing import Scope, StandingRule
from operator_protocols.errors import ConflictError, LedgerDamagedError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.decisions import UNCONFIRMED, Decisions, Rows
from operator_sre.store.reader import Reader
from operator_sre.store.transaction import Transaction
from operator_sre.store.writer import Writer

__all__ = ["StoredStandingRules", "rule_stands"]

log = logging.getLogger(__name__)


class StoredStandingRules:
    """What people have allowed for as long as they do not revoke it."""

    def __init__(self, reader: Reader, writer: Writer, decisions: Decisions) -> None:
        self._reader = reader
        self._writer = writer
        self._decisions = decisions

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
        """Those that stand as the ledger confirms them, or all, oldest first."""
        rows = self._reader.rows(
            "SELECT body, seq FROM standing_rules WHERE revoked <= ? ORDER BY seq", (int(revoked),)
        )
        found = [(from_json(StandingRule, json.loads(body)), seq) for body, seq in rows]
        if revoked:
            return [rule for rule, _ in found]
        confirmed = (_is_confirmed(self._reader.rows, self._decisions, *one) for one in found)
        return [rule for (rule, _), stands in zip(found, confirmed, strict=True) if stands]


def rule_stands(transaction: Transaction, rule: str) -> bool:
    """Whether it is there and not revoked, inside a transaction."""
    rows = transaction.rows("SELECT body, seq FROM standing_rules WHERE id = ?", (rule,))
    known = [(from_json(StandingRule, json.loads(body)), seq) for body, seq in rows]
    return any(_is_confirmed(transaction.rows, transaction.decisions, *one) for one in known)


def _is_confirmed(rows: Rows, decisions: Decisions, rule: StandingRule, seq: int) -> bool:
    """Whether the ledger has the rule as it is stored, and nobody has revoked it there."""
    added = decisions.entry(rows, seq, Kind.RULE_ADDED)
    if added is None or not rule.stands:
        return False
    told = from_json(StandingRule, added.payload["rule"])
    try:
        if any(decisions.about(rows, (Kind.RULE_REVOKED,), rule.id, after=added.seq)):
            return False
    except LedgerDamagedError as error:
        log.warning("the standing rule %s allows nothing: %s", rule.id, error.message)
        return False
    same = replace(told, uses=rule.uses) == rule
    if same and decisions.holds(rows, added):
        return True
    log.warning("the standing rule %s allows nothing: %s", rule.id, UNCONFIRMED)
    return False


def _load(transaction: Transaction, rule: str) -> StandingRule | None:
    row = transaction.connection.execute(
        "SELECT body FROM standing_rules WHERE id = ?", (rule,)
    ).fetchone()
    return from_json(StandingRule, json.loads(row[0])) if row else None
