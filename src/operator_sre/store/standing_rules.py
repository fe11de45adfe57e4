"""Standing rules: approvals for all commands of one kind."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.standing_rule import Scope, StandingRule
from operator_protocols.errors import ConflictError, LedgerDamagedError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, Rows, plain
from operator_sre.store.decisions import UNCONFIRMED
from operator_sre.store.repository import JsonTable, Repository, in_transaction

if TYPE_CHECKING:
    from operator_sre.store.decisions import Decisions
    from operator_sre.store.transaction import Transaction

__all__ = ["StoredStandingRules", "add_rule", "count_use", "is_rule_standing", "revoke_rule"]

_RULES = JsonTable("standing_rules", StandingRule, "standing rule", "operator approvals rules")
log = logging.getLogger(__name__)


class StoredStandingRules(Repository):
    """Rules of people that allow commands until they are revoked."""

    @in_transaction
    def add(self, transaction: Transaction, rule: StandingRule) -> StandingRule:
        """Add a rule; adding the same id again changes nothing."""
        known = _RULES.get(transaction.rows, rule.id)
        if known is None:
            # A purge of the ticket must not purge a rule that outlives it.
            ticket = rule.ticket if rule.scope is Scope.TICKET else None
            by, payload = Actor(rule.made_by, "user"), {"rule": to_json(rule)}
            transaction.append(Draft(Kind.RULE_ADDED, payload, ticket=ticket, actor=by))
        return known or rule

    @in_transaction
    def revoke(
        self, transaction: Transaction, rule: str, *, by: Actor, reason: str
    ) -> StandingRule:
        """Revoke a rule. ConflictError when it is revoked already."""
        known = _RULES.load(transaction.rows, rule)
        if not known.stands:
            raise ConflictError(f"Rule {rule!r} has been revoked already, by {known.revoked_by}.")
        ticket = known.ticket if known.scope is Scope.TICKET else None
        payload = {"id": rule, "reason": reason}
        transaction.append(Draft(Kind.RULE_REVOKED, payload, ticket=ticket, actor=by))
        return _RULES.load(transaction.rows, rule)

    def get(self, rule: str) -> StandingRule | None:
        """The rule of this id, or None."""
        return _RULES.get(self._reader.rows, rule)

    def find(self, *, revoked: bool = False) -> Sequence[StandingRule]:
        """Rules that the ledger confirms as valid, or all rules, oldest first."""
        sql = "SELECT body, seq FROM standing_rules WHERE revoked <= ? ORDER BY seq"
        with self._decisions.snapshot(self._reader) as rows:
            stored = [(_RULES.parse(body), seq) for body, seq in rows(sql, (int(revoked),))]
            return [
                rule
                for rule, seq in stored
                if revoked or _is_confirmed(rows, self._decisions, rule, seq)
            ]


def is_rule_standing(transaction: Transaction, rule: str) -> bool:
    """Whether a rule is valid, inside a transaction."""
    rows, decisions = transaction.rows, transaction.decisions
    stored = rows("SELECT body, seq FROM standing_rules WHERE id = ?", (plain(rule),))
    return any(_is_confirmed(rows, decisions, _RULES.parse(body), seq) for body, seq in stored)


def _is_confirmed(rows: Rows, decisions: Decisions, rule: StandingRule, seq: int) -> bool:
    """Whether the ledger has the same rule and no revocation of it."""
    added = decisions.entry(rows, seq, Kind.RULE_ADDED)
    if added is None or not rule.stands:
        return False
    confirmed = from_json(StandingRule, added.payload["rule"])
    try:
        if any(decisions.about(rows, (Kind.RULE_REVOKED,), rule.id, after=added.seq)):
            return False
    except LedgerDamagedError as error:
        log.warning("the standing rule %s is ignored: %s", rule.id, error.message)
        return False
    if replace(confirmed, uses=rule.uses) == rule and decisions.holds(rows, added):
        return True
    log.warning("the standing rule %s is ignored: %s", rule.id, UNCONFIRMED)
    return False


def add_rule(connection: Connection, entry: Entry) -> None:
    """Store a rule."""
    _RULES.insert(connection, entry.seq, entry.payload["rule"], revoked=0)


def revoke_rule(connection: Connection, entry: Entry) -> None:
    """Mark a rule as revoked."""
    revocation = {
        "revoked_at": entry.at.isoformat(),
        "revoked_by": entry.actor.id,
        "revoked_because": entry.payload["reason"],
    }
    _RULES.merge(connection, entry.payload["id"], revocation, revoked=1)


def count_use(connection: Connection, rule: str) -> None:
    """Count a permit that rests on a rule."""
    _RULES.merge(connection, rule, {"uses": _RULES.body(connection, rule)["uses"] + 1})
