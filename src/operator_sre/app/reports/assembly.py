"""A report, assembled from the ledger of a ticket."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.budget import Spent
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import NotFoundError
from operator_sre.app.answers.texts import build_redactor
from operator_sre.app.reports.follow_ups import follow_ups_of
from operator_sre.app.reports.observations import changes_of, looks_around, series_of
from operator_sre.app.reports.report import (
    Break,
    Clock,
    Impact,
    Mind,
    Person,
    Proven,
    Report,
    Source,
    Understanding,
    summary_of,
)
from operator_sre.app.reports.timeline import clock_of, read_actions, timeline_of
from operator_sre.app.story import command_of, lines_of
from operator_sre.app.tickets import ENTRIES_MAX, show_ticket
from operator_sre.codec import from_json

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["minds_of", "people_of", "report_of"]

ALIKE_MAX = 500
SAYS_CHARACTERS_MAX = 200
DID_MAX = 20
_DID: Mapping[Kind, str] = {
    Kind.TICKET_HELD: "held the ticket",
    Kind.TICKET_UNHELD: "released the ticket",
    Kind.TICKET_SNOOZED: "snoozed the ticket",
    Kind.TICKET_ASSIGNED: "assigned the ticket",
    Kind.TICKET_COMMENTED: "commented",
    Kind.TICKET_CLOSED: "closed the ticket",
    Kind.TICKET_REOPENED: "reopened the ticket",
    Kind.TICKET_ESCALATED: "escalated the ticket",
    Kind.TICKET_RESOLVED: "resolved the ticket",
    Kind.TICKET_HANDED_OFF: "handed off the ticket",
    Kind.CONFIRMATION_REQUESTED: "requested a change",
    Kind.CONFIRMATION_DECIDED: "decided on a change",
    Kind.POLICY_CHANGED: "changed the policy",
}


def minds_of(
    entries: Sequence[Entry], record_of: Callable[[str], RunRecord | None]
) -> tuple[Mind, ...]:
    """Every run of the ticket, oldest first."""
    minds = []
    for run in dict.fromkeys(entry.run for entry in entries if entry.run):
        record = record_of(run)
        if record is None:
            continue
        ours = [entry for entry in entries if entry.run == run]
        thoughts = [entry for entry in ours if entry.kind is Kind.REASONING]
        others = [str(entry.payload["by"]) for entry in thoughts if entry.payload.get("by")]
        workers = [
            str(entry.payload["worker"])
            for entry in ours
            if entry.kind is Kind.TICKET_CLAIMED and entry.payload.get("worker")
        ]
        spent = Spent()
        for entry in ours:
            if entry.kind in (Kind.REASONING, Kind.SUMMARY):
                paid = entry.payload.get("spent") or {}
                spent += Spent(
                    int(paid.get("tokens_in") or 0),
                    int(paid.get("tokens_out") or 0),
                    float(paid.get("usd") or 0.0),
                )
        minds.append(
            Mind(
                run=record.id,
                model=record.model,
                state=record.state,
                summary=record.summary,
                started_at=record.started_at,
                finished_at=record.finished_at,
                turns=len(thoughts),
                spent=spent,
                others=tuple(dict.fromkeys(others)),
                workers=tuple(dict.fromkeys(workers)),
            )
        )
    return tuple(minds)


def people_of(entries: Sequence[Entry]) -> tuple[Person, ...]:
    """Everybody who did something themselves, in the order of their first part in it."""
    parts: dict[str, list[str]] = {}
    for entry in entries:
        if entry.kind is Kind.APPROVAL_DECIDED:
            answer = str(entry.payload.get("answer") or entry.payload.get("state", ""))
            if answer in ("approved", "rejected"):
                part = f"{answer} request {entry.payload.get('id', '')}".strip()
                parts.setdefault(str(entry.payload["decided_by"]), []).append(part)
        elif entry.actor.type == "user" and entry.kind in _DID:
            parts.setdefault(entry.actor.id, []).append(_DID[entry.kind])
    return tuple(Person(name, tuple(dict.fromkeys(did))[:DID_MAX]) for name, did in parts.items())


def report_of(app: App, ticket_id: int) -> Report:
    """The report of a ticket as it stands now. NotFoundError when there is none of that number."""
    newest = app.store.entries.newest
    if app.store.tickets.get(ticket_id) is None and newest(limit=1, ticket=ticket_id):
        raise NotFoundError(
            f"Ticket {ticket_id} was purged: the ledger keeps only the digests of its entries.",
            next_step="Verify the chain with: operator audit verify",
        )
    view, now = show_ticket(app, ticket_id), app.clock.now()
    ticket = view.ticket
    entries = [entry for entry in view.entries if entry.kind is not Kind.PURGED]
    deeds, proofs = read_actions(entries), _read_proofs(entries)
    understandings = _read_understandings(app, entries)
    breaks = _read_breaks(app, ticket, entries, proofs)
    clock = clock_of(ticket, entries, deeds, breaks)
    until = clock.over_at or clock.ended_at or now
    looks = looks_around(app, ticket.subject, entries, since=clock.began_at, until=until)
    impact = _measure_impact(breaks, understandings, looks, clock, now)
    minds = minds_of(entries, app.store.runs.get)
    keys = {(violation.target, violation.invariant) for violation in ticket.violations}
    alerts = [  # external alerts about the same violations, during the incident
        alert
        for alert in app.store.alerts.find(subject=ticket.subject, limit=ALIKE_MAX)
        if (alert.target, alert.invariant) in keys
        and (alert.cleared_at is None or alert.cleared_at >= ticket.opened_at)
        and alert.since <= ticket.changed_at
    ]
    silences = [
        silence
        for silence in app.store.silences.find(at=now)
        if any(silence.covers(v.subject, v.target, v.invariant) for v in ticket.violations)
    ]
    report = Report(
        ticket=ticket.id,
        title=ticket.summary,
        subject=ticket.subject,
        target=ticket.target,
        severity=ticket.severity,
        state=ticket.state,
        reason=ticket.reason,
        written_at=now,
        clock=clock,
        summary=(),
        impact=impact,
        timeline=timeline_of(entries, deeds, breaks),
        understandings=understandings,
        deeds=deeds,
        proofs=proofs,
        follow_ups=(),
        minds=minds,
        people=people_of(entries),
        alerts=tuple(alerts),
        assignee=ticket.assignee,
        attempts=ticket.attempts,
        spent=sum((mind.spent for mind in minds), Spent()),
        series=series_of(looks, impact.affected, impact.changes),
        entries=len(entries),
        first_seq=entries[0].seq if entries else None,
        last_seq=entries[-1].seq if entries else None,
        purged=len(view.entries) - len(entries),
        cut=len(view.entries) >= ENTRIES_MAX,
    )
    alike = _find_alike(app, ticket, understandings)
    whole = replace(
        report,
        summary=summary_of(report),
        follow_ups=follow_ups_of(report, ticket, entries, alike=alike, silences=silences),
    )
    # The same facts, also without the secrets that came to be known since.
    return _redact(whole, cache(build_redactor(app.config)))  # type: ignore[no-any-return]


def _read_proofs(entries: Sequence[Entry]) -> tuple[Proven, ...]:
    proofs: dict[Proof, Proven] = {}
    for entry in entries:
        recorded: Mapping[str, Any] | None = None
        if entry.kind is Kind.PROOF:
            recorded = entry.payload
        elif entry.kind is Kind.TICKET_RESOLVED:
            recorded = entry.payload.get("proof")
        if recorded:
            proof = from_json(Proof, recorded)
            proofs.setdefault(proof, Proven(entry.seq, entry.at, proof))
    return tuple(proofs.values())


def _read_understandings(app: App, entries: Sequence[Entry]) -> tuple[Understanding, ...]:
    """Each diagnosis, and a summary of each entry that it cites."""
    ours = {entry.seq: entry for entry in entries}
    calls = {
        entry.payload.get("permit"): entry.payload["action"]
        for entry in reversed(entries)
        if entry.kind is Kind.TOOL_CALL
    }
    understandings = []
    for entry in entries:
        if entry.kind is not Kind.DIAGNOSIS:
            continue
        diagnosis = from_json(Diagnosis, entry.payload)
        facts = (*diagnosis.evidence, *diagnosis.timeline)
        sources = []
        for seq in sorted({fact.seq for fact in facts if fact.seq is not None}):
            cited = ours.get(seq) or app.store.entries.get(seq)
            kind = "missing" if cited is None else cited.kind.value
            if cited is None:
                says = "the entry does not exist"
            elif cited.kind is Kind.PURGED:
                says = "the entry was purged"
            elif cited.kind is Kind.OBSERVED:
                findings = cited.payload.get("findings") or ()
                broken = sum(finding.get("health") == "broken" for finding in findings)
                says = f"observation: {broken} of {len(findings)} findings broken"
            elif cited.kind is Kind.TOOL_RESULT and cited.payload.get("permit") in calls:
                says = command_of(calls[cited.payload.get("permit")])[:SAYS_CHARACTERS_MAX]
            else:
                text = " ".join(line.text for line in lines_of(cited))
                says = text[:SAYS_CHARACTERS_MAX] or kind.replace("_", " ")
            sources.append(Source(seq, kind, says))
        understandings.append(
            Understanding(entry.seq, entry.at, entry.run, diagnosis, tuple(sources))
        )
    return tuple(understandings)


def _read_breaks(
    app: App, ticket: Ticket, entries: Sequence[Entry], proofs: Sequence[Proven]
) -> tuple[Break, ...]:
    """Each violation, and when it was first seen to hold for good.

    The monitor knows it of each invariant, as long as it has not broken again; a proof knows it of
    all together.
    """
    filed = {
        (str(violation.get("invariant")), str(violation.get("target"))): entry.seq
        for entry in reversed(entries)
        if entry.kind in (Kind.TICKET_OPENED, Kind.TICKET_GREW)
        for violation in entry.payload.get("violations") or ()
    }
    held = [proven.proof for proven in proofs if proven.proof.held]
    proof = held[-1] if held and ticket.state is TicketState.RESOLVED else None
    well: dict[tuple[str, str], datetime] = {}
    if ticket.state is not TicketState.CLOSED:
        for condition in app.store.conditions.of(ticket.subject):
            if condition.health is Health.HEALTHY:
                well[condition.invariant, condition.target] = condition.since
    breaks = []
    for violation in ticket.violations:
        until = well.get((violation.invariant, violation.target))
        if proof is None:
            until = until and max(until, violation.since)
        elif until is None or not violation.since <= until <= proof.until:
            until = max(proof.since, violation.since)
        breaks.append(
            Break(
                invariant=violation.invariant,
                target=violation.target,
                severity=violation.severity,
                detail=violation.detail,
                since=violation.since,
                until=until,
                seq=filed.get((violation.invariant, violation.target)),
            )
        )
    return tuple(breaks)


def _measure_impact(
    breaks: tuple[Break, ...],
    understandings: Sequence[Understanding],
    looks: Sequence[Observation],
    clock: Clock,
    now: datetime,
) -> Impact:
    named = understandings[-1].diagnosis.affected if understandings else ()
    affected = tuple(dict.fromkeys([*(violation.target for violation in breaks), *named]))
    until = clock.over_at or clock.ended_at
    meanwhile = [
        observation
        for observation in looks
        if clock.began_at <= observation.at and observation.at < (until or now)
    ]
    unseen = [sighting.target for look in meanwhile for sighting in look.seen if sighting.problem]
    end = clock.over_at or (None if clock.ended_at else now)
    return Impact(
        breaks=breaks,
        lasted_s=(end - clock.began_at).total_seconds() if end else None,
        affected=affected,
        targets=max((len(look.seen) for look in looks), default=0),
        unseen=tuple(dict.fromkeys(unseen)),
        changes=changes_of(looks, affected, since=clock.began_at, until=until),
        looks=len(looks),
    )


def _find_alike(
    app: App, ticket: Ticket, understandings: Sequence[Understanding]
) -> Mapping[int, str]:
    """Other tickets of the subject with the same cause, or with the same root broken."""
    others = {
        other.id: other
        for other in app.store.tickets.find(subject=ticket.subject, limit=ALIKE_MAX)
        if other.id != ticket.id
    }
    root = ticket.violations[0].key if ticket.violations else ""
    found = {
        number: "the same violation"
        for number, other in others.items()
        if other.violations and other.violations[0].key == root
    }
    if understandings and others:
        cause = understandings[-1].diagnosis.cause
        for entry in app.store.entries.newest(limit=ALIKE_MAX, kind=Kind.DIAGNOSIS):
            if entry.ticket in others and entry.payload.get("cause") == cause:
                found[entry.ticket] = f"the same cause ({cause})"
    return found


def _redact(value: Any, redact: Callable[[str], str]) -> Any:
    if type(value) is str:
        return redact(value) if value else value
    if isinstance(value, tuple):
        return tuple(_redact(inner, redact) for inner in value)
    if isinstance(value, Mapping):
        return {name: _redact(inner, redact) for name, inner in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: _redact(getattr(value, field.name), redact) for field in fields(value)}
        return replace(value, **parts)
    return value
