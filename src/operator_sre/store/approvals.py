"""Requests for approval and their decisions."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.standing_rule import Scope, StandingRule
from operator_protocols.domain.ticket import TicketState
from operator_protocols.errors import ConflictError, LedgerDamagedError, NotFoundError
from operator_sre.codec import from_json, to_json
from operator_sre.store.database import Connection, Rows, plain
from operator_sre.store.decisions import UNCONFIRMED
from operator_sre.store.repository import JsonTable, Repository, in_transaction, marks

if TYPE_CHECKING:
    from operator_sre.store.decisions import Decisions
    from operator_sre.store.transaction import Transaction

__all__ = [
    "StoredApprovals",
    "StoredStandingRules",
    "add_rule",
    "add_to_approval",
    "cancel_requests",
    "count_use",
    "decide_approval",
    "escalate_approval",
    "is_rule_standing",
    "load_approval",
    "request_approval",
    "revoke_rule",
    "withdraw_requests",
]

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
            raise ConflictError(f"Rule {rule!r} has already been revoked, by {known.revoked_by}.")
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


_PEOPLE = (ApprovalState.APPROVED, ApprovalState.REJECTED)
_APPROVALS = JsonTable("approvals", Approval)


class StoredApprovals(Repository):
    """Requests to people. A decision after the expiry is refused."""

    @in_transaction
    def request(self, transaction: Transaction, approval: Approval) -> Approval:
        """Record a request; requesting the same id again changes nothing."""
        known = load_approval(transaction, approval.id)
        if known is None:
            transaction.append(
                Draft(
                    Kind.APPROVAL_REQUESTED,
                    {"approval": to_json(approval)},
                    ticket=approval.ticket,
                    run=approval.run,
                    actor=approval.requester,
                )
            )
        return known or approval

    @in_transaction
    def decide(
        self,
        transaction: Transaction,
        approval: str,
        state: ApprovalState,
        *,
        by: Actor,
        reason: str,
        version: int,
    ) -> Approval:
        """Decide the request as of `version`; it stays PENDING while it needs more approvers."""
        known = load_approval(transaction, approval)
        if known is None:
            raise NotFoundError(
                f"There is no approval {approval!r}.",
                next_step="List pending approvals with: operator approvals list",
            )
        if not known.state.may_become(state):
            raise ConflictError(f"Approval {known.id!r} is already {known.state}.")
        if transaction.rows("SELECT 1 FROM permits WHERE approval = ? AND used = 1", (approval,)):
            raise ConflictError(f"Approval {known.id!r} has already been used.")
        if known.expires_at <= transaction.now() and state in _PEOPLE:
            raise ConflictError(f"Approval {known.id!r} has expired.")
        if known.version != version:
            raise ConflictError(
                f"Approval {known.id!r} has changed: it is at version"
                f" {known.version}, and you saw {version}.",
                next_step=f"Read it again with: operator approvals show {known.id}",
            )
        transaction.append(_decision(known, state, by, reason))
        decided = load_approval(transaction, approval)
        assert decided is not None
        return decided

    def get(self, approval: str) -> Approval | None:
        """A request, confirmed by the ledger."""
        with self._decisions.snapshot(self._reader) as rows:
            stored = rows("SELECT body, seq FROM approvals WHERE id = ?", (plain(approval),))
            return _confirm(rows, self._decisions, *stored[0]) if stored else None

    def find(self, *, states: Iterable[ApprovalState] = (), run: str = "") -> Sequence[Approval]:
        """Requests in these states, of this run or of all, oldest first.

        The ledger confirms pending requests, and all requests of a run.
        """
        wanted = tuple(frozenset(states) or ApprovalState)
        where = f"state IN ({marks(wanted)})" + (" AND run = ?" if run else "")
        sql = f"SELECT body, seq, state FROM approvals WHERE {where} ORDER BY seq"  # noqa: S608
        values = [*(state.value for state in wanted), *([run] if run else [])]
        if not self._reader.rows(sql, values):
            return []  # without requests there is no signature to load
        with self._decisions.snapshot(self._reader) as rows:
            approvals = [
                _confirm(rows, self._decisions, body, seq)
                if run or state == ApprovalState.PENDING.value
                else _APPROVALS.parse(body)
                for body, seq, state in rows(sql, values)
            ]
        return [approval for approval in approvals if approval.state in wanted]

    def page(
        self,
        *,
        states: Iterable[ApprovalState] = (),
        alive_at: datetime | None = None,
        after: str = "",
        limit: int,
        newest: bool = False,
    ) -> Sequence[Approval]:
        """A page of requests after the one of an id, not expired at `alive_at`. UsageError."""
        return _APPROVALS.page(
            self._reader,
            states=[state.value for state in states],
            alive_at=alive_at,
            after=after,
            limit=limit,
            newest=newest,
        )


def load_approval(transaction: Transaction, approval: str) -> Approval | None:
    """A request inside a transaction, confirmed by the ledger."""
    stored = transaction.rows("SELECT body, seq FROM approvals WHERE id = ?", (plain(approval),))
    return _confirm(transaction.rows, transaction.decisions, *stored[0]) if stored else None


def _confirm(rows: Rows, decisions: Decisions, stored: str, seq: int) -> Approval:
    """A stored request if the ledger agrees with it, otherwise the same as superseded.

    Its permit and its escalation need no confirmation, because they decide nothing.
    """
    body = json.loads(stored)
    known = from_json(Approval, body)
    kinds = (Kind.APPROVAL_REQUESTED, Kind.APPROVAL_DECIDED)
    story = decisions.story(rows, seq, known.id, *kinds)
    confirmed = dict(story[0].payload["approval"]) if story else {}
    for entry in story[1:]:
        confirmed |= _answer_of(entry) | {"version": confirmed.get("version", 1) + 1}
    beside = {
        "escalated_at": body.get("escalated_at"),
        "step": body.get("step", 0),
        "permit": body.get("permit", ""),
    }
    stored_now = from_json(Approval, body | beside)
    same = confirmed and from_json(Approval, confirmed | beside) == stored_now
    approved = known.state is ApprovalState.APPROVED
    if same and (not approved or decisions.holds(rows, story[-1])):
        return known
    if not known.state.may_become(ApprovalState.SUPERSEDED):
        return known  # it allows nothing either way
    return replace(known, state=ApprovalState.SUPERSEDED, reason=UNCONFIRMED)


def withdraw_requests(transaction: Transaction, run: str, reason: str) -> None:
    """Withdraw the pending requests of a run that has ended."""
    where = "WHERE run = ? AND run <> '' AND state = ? ORDER BY seq"
    pending = (run, ApprovalState.PENDING.value)
    for known in _APPROVALS.select(transaction.rows, where, pending):
        transaction.append(_decision(known, ApprovalState.WITHDRAWN, Actor(), reason))


def cancel_requests(transaction: Transaction, by: Actor, reason: str) -> list[str]:
    """Cancel pending and approved requests without a permit, and return their ids."""
    requests = _APPROVALS.select(
        transaction.rows,
        "WHERE state = ? OR (state = ? AND expires_at > ?) ORDER BY seq",
        (ApprovalState.PENDING.value, ApprovalState.APPROVED.value, transaction.now().timestamp()),
    )
    cancelled = [known for known in requests if not known.permit]
    for known in cancelled:
        transaction.append(_decision(known, ApprovalState.CANCELLED, by, reason))
    return [known.id for known in cancelled]


def _decision(known: Approval, state: ApprovalState, by: Actor, reason: str) -> Draft:
    approvers, becomes = known.approvers, state
    if state is ApprovalState.APPROVED:
        if by.id in approvers:
            raise ConflictError(
                f"{by.id!r} already approved {known.id!r}, which needs"
                f" {known.needed} different approvers.",
                next_step="Ask another person to approve it.",
            )
        approvers = (*approvers, by.id)
        becomes = state if len(approvers) >= known.needed else ApprovalState.PENDING
    return Draft(
        Kind.APPROVAL_DECIDED,
        {
            "id": known.id,
            "answer": state,
            "state": becomes,
            "decided_by": by.id,
            "reason": reason,
            "approvers": list(approvers),
            "version": known.version + 1,
        },
        ticket=known.ticket,
        run=known.run,
        actor=by,
    )


def _answer_of(entry: Entry) -> dict[str, Any]:
    """The fields that a decision adds to its request. Pure."""
    answer = {name: entry.payload[name] for name in ("state", "decided_by", "reason")}
    if "approvers" in entry.payload:
        answer["approvers"] = entry.payload["approvers"]
    return answer | {"decided_at": entry.at.isoformat()}


def request_approval(connection: Connection, entry: Entry) -> None:
    """Store a request."""
    approval = entry.payload["approval"]
    _APPROVALS.insert(
        connection,
        entry.seq,
        approval,
        state=ApprovalState.PENDING.value,
        expires_at=datetime.fromisoformat(approval["expires_at"]).timestamp(),
        run=plain(entry.run),
    )


def escalate_approval(connection: Connection, entry: Entry) -> None:
    """Mark a request as escalated to more people."""
    more = {"escalated_at": entry.at.isoformat(), "step": entry.payload.get("step", 0)}
    add_to_approval(connection, entry.payload["id"], more)


def decide_approval(connection: Connection, entry: Entry) -> None:
    """Store a decision, or the reason why none is needed."""
    state = entry.payload["state"]
    answer = _answer_of(entry)
    add_to_approval(connection, entry.payload["id"], answer, answers=1, state=state)
    # A run that is parked until the decision need not wait any longer.
    if entry.run and state != ApprovalState.PENDING:
        connection.execute(
            "UPDATE tickets SET not_before = 0 WHERE run = ? AND state = ?",
            (entry.run, TicketState.OPEN.value),
        )


def add_to_approval(
    connection: Connection,
    approval: str,
    more: Mapping[str, Any],
    *,
    answers: int = 0,
    **columns: object,
) -> None:
    """Add fields to a request; every decision makes another version of it."""
    version = _APPROVALS.body(connection, approval).get("version", 1) + answers
    _APPROVALS.merge(connection, approval, {**more, "version": version}, **columns)
