"""Who had a part in an incident: minds with what they cost, and people with what they did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.run import RunRecord, Spent
from operator_sre.app.reports.report import Mind, Person

__all__ = ["minds_of", "people_of"]

DID_MAX = 20
_DID: Mapping[Kind, str] = {
    Kind.TICKET_HELD: "kept agents off it",
    Kind.TICKET_UNHELD: "let agents work on it again",
    Kind.TICKET_SNOOZED: "put it off",
    Kind.TICKET_ASSIGNED: "said whose it is",
    Kind.TICKET_COMMENTED: "commented",
    Kind.TICKET_CLOSED: "closed it",
    Kind.TICKET_REOPENED: "opened it again",
    Kind.TICKET_ESCALATED: "escalated it",
    Kind.TICKET_RESOLVED: "resolved it",
    Kind.TICKET_HANDED_OFF: "handed it over",
    Kind.CONFIRMATION_REQUESTED: "asked for a change",
    Kind.CONFIRMATION_DECIDED: "answered a change",
    Kind.POLICY_CHANGED: "changed the policy",
}


def minds_of(
    entries: Sequence[Entry], record_of: Callable[[str], RunRecord | None]
) -> tuple[Mind, ...]:
    """Every run of the ticket, oldest first."""
    runs = dict.fromkeys(one.run for one in entries if one.run)
    found = [(record, run) for run in runs if (record := record_of(run)) is not None]
    return tuple(_mind(record, [one for one in entries if one.run == run]) for record, run in found)


def _mind(record: RunRecord, entries: Sequence[Entry]) -> Mind:
    thoughts = [one for one in entries if one.kind is Kind.REASONING]
    paid = [_spent(one.payload) for one in entries if one.kind in (Kind.REASONING, Kind.SUMMARY)]
    others = [str(one.payload["by"]) for one in thoughts if one.payload.get("by")]
    workers = [
        str(one.payload["worker"])
        for one in entries
        if one.kind is Kind.TICKET_CLAIMED and one.payload.get("worker")
    ]
    return Mind(
        run=record.id,
        model=record.model,
        state=record.state,
        summary=record.summary,
        started_at=record.started_at,
        finished_at=record.finished_at,
        turns=len(thoughts),
        spent=reduce(lambda one, more: one + more, paid, Spent()),
        others=tuple(dict.fromkeys(others)),
        workers=tuple(dict.fromkeys(workers)),
    )


def _spent(payload: Mapping[str, Any]) -> Spent:
    told = payload.get("spent") or {}
    return Spent(
        int(told.get("tokens_in") or 0),
        int(told.get("tokens_out") or 0),
        float(told.get("usd") or 0.0),
    )


def people_of(entries: Sequence[Entry]) -> tuple[Person, ...]:
    """Everybody who did something themselves, in the order of their first part in it."""
    did: dict[str, list[str]] = {}
    for entry in entries:
        if entry.kind is Kind.APPROVAL_DECIDED:
            answer = str(entry.payload.get("answer") or entry.payload.get("state", ""))
            if answer in ("approved", "rejected"):
                told = f"{answer} request {entry.payload.get('id', '')}".strip()
                did.setdefault(str(entry.payload["decided_by"]), []).append(told)
        elif entry.actor.type == "user" and (what := _DID.get(entry.kind)):
            did.setdefault(entry.actor.id, []).append(what)
    return tuple(Person(name, tuple(dict.fromkeys(what))[:DID_MAX]) for name, what in did.items())
