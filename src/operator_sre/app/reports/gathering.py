"""All that is known of an incident, put together from the ledger and from what was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from functools import cache, reduce
from typing import TYPE_CHECKING, Any, TypeVar

from operator_protocols.domain.alert import Alert
from operator_protocols.domain.budget import Spent
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Violation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import NotFoundError
from operator_sre.app.answers.wording import redacting
from operator_sre.app.reports.deeds import deeds_of
from operator_sre.app.reports.follow_ups import Circumstances, follow_ups_of
from operator_sre.app.reports.looks import changes_of, looks_around, series_of
from operator_sre.app.reports.minds import minds_of, people_of
from operator_sre.app.reports.report import (
    Break,
    Clock,
    Impact,
    Proven,
    Report,
    Source,
    Understanding,
)
from operator_sre.app.reports.summary import summary_of
from operator_sre.app.reports.timeline import clock_of, timeline_of
from operator_sre.app.story import command_of, lines_of
from operator_sre.app.tickets import ENTRIES_MAX, show_ticket
from operator_sre.codec import from_json

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["report_of"]

ALIKE_MAX = 500
SAYS_CHARACTERS_MAX = 200
T = TypeVar("T")


def report_of(app: App, ticket_id: int) -> Report:
    """The report of a ticket as it stands now. NotFoundError when there is none of that number."""
    _must_be_there(app, ticket_id)
    view = show_ticket(app, ticket_id)
    ticket, entries = view.ticket, _told(view.entries)
    now = app.clock.now()
    deeds, proofs = deeds_of(entries), _proofs(entries)
    understandings = _understandings(app, entries)
    breaks = _breaks(app, ticket, entries, proofs)
    clock = clock_of(ticket, entries, deeds, breaks)
    until = clock.over_at or clock.ended_at or now
    looks = looks_around(app, ticket.subject, entries, since=clock.began_at, until=until)
    impact = _impact(breaks, understandings, looks, clock, now)
    minds = minds_of(entries, app.store.runs.get)
    purged = len(view.entries) - len(entries)
    known = Circumstances(
        ticket=ticket,
        entries=entries,
        deeds=deeds,
        understandings=understandings,
        proofs=proofs,
        alike=_alike(app, ticket, understandings),
        silences=_silences(app, ticket, now),
        purged=purged,
        now=now,
    )
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
        follow_ups=follow_ups_of(known),
        minds=minds,
        people=people_of(entries),
        alerts=_alerts(app, ticket),
        assignee=ticket.assignee,
        attempts=ticket.attempts,
        spent=reduce(lambda one, mind: one + mind.spent, minds, Spent()),
        series=series_of(looks, impact.affected, impact.changes),
        entries=len(entries),
        first_seq=entries[0].seq if entries else None,
        last_seq=entries[-1].seq if entries else None,
        purged=purged,
        cut=len(view.entries) >= ENTRIES_MAX,
    )
    whole = replace(report, summary=summary_of(report))
    return _redacted(whole, redacting(app.config))


def _must_be_there(app: App, number: int) -> None:
    """NotFoundError that says so when its story was purged."""
    if app.store.tickets.get(number) is None and app.store.entries.newest(limit=1, ticket=number):
        raise NotFoundError(
            f"Ticket {number} was purged: the ledger keeps the digests of its entries, and nothing"
            " else.",
            next_step="Whether the chain is whole: operator audit verify",
        )


def _told(entries: Iterable[Entry]) -> list[Entry]:
    """Those whose bytes are there."""
    return [one for one in entries if one.kind is not Kind.PURGED]


def _proofs(entries: Iterable[Entry]) -> tuple[Proven, ...]:
    found: dict[int, Proven] = {}
    for entry in entries:
        told: Mapping[str, Any] | None = None
        if entry.kind is Kind.PROOF:
            told = entry.payload
        elif entry.kind is Kind.TICKET_RESOLVED:
            told = entry.payload.get("proof")
        if told:
            proof = from_json(Proof, told)
            if proof not in [one.proof for one in found.values()]:
                found[entry.seq] = Proven(entry.seq, entry.at, proof)
    return tuple(found.values())


def _understandings(app: App, entries: Sequence[Entry]) -> tuple[Understanding, ...]:
    found = []
    for entry in entries:
        if entry.kind is Kind.DIAGNOSIS:
            diagnosis = from_json(Diagnosis, entry.payload)
            sources = _sources(app, diagnosis, entries)
            found.append(Understanding(entry.seq, entry.at, entry.run, diagnosis, sources))
    return tuple(found)


def _sources(app: App, diagnosis: Diagnosis, entries: Sequence[Entry]) -> tuple[Source, ...]:
    """What each entry is that the diagnosis cites."""
    ours = {one.seq: one for one in entries}
    seqs = {one.seq for one in (*diagnosis.evidence, *diagnosis.timeline) if one.seq is not None}
    found = []
    for seq in sorted(seqs):
        entry = ours.get(seq) or app.store.entries.get(seq)
        if entry is None:
            found.append(Source(seq, "missing", "there is no such entry"))
        else:
            found.append(Source(seq, entry.kind, _says(entry, entries)))
    return tuple(found)


def _says(entry: Entry, entries: Sequence[Entry]) -> str:
    """What an entry that is cited is about, in a few words."""
    if entry.kind is Kind.PURGED:
        return "it was purged since"
    if entry.kind is Kind.OBSERVED:
        findings = entry.payload.get("findings") or ()
        broken = sum(one.get("health") == "broken" for one in findings)
        return f"a look: {broken} of {len(findings)} findings broken"
    if entry.kind is Kind.TOOL_RESULT:
        permit = entry.payload.get("permit")
        for one in entries:
            if one.kind is Kind.TOOL_CALL and one.payload.get("permit") == permit:
                return command_of(one.payload["action"])[:SAYS_CHARACTERS_MAX]
    lines = [line.text for line in lines_of(entry)]
    return " ".join(lines)[:SAYS_CHARACTERS_MAX] or entry.kind.replace("_", " ")


def _breaks(
    app: App, ticket: Ticket, entries: Sequence[Entry], proofs: Sequence[Proven]
) -> tuple[Break, ...]:
    """Each violation, and until when: a proof says so, or what is known of it now."""
    filed = {
        _key(one): entry.seq
        for entry in reversed(entries)
        if entry.kind in (Kind.TICKET_OPENED, Kind.TICKET_GREW)
        for one in entry.payload.get("violations") or ()
    }
    held = [one.proof for one in proofs if one.proof.held]
    proof = held[-1] if held and ticket.state is TicketState.RESOLVED else None
    well = {} if ticket.state is TicketState.CLOSED else _well(app, ticket.subject)
    return tuple(
        Break(
            invariant=one.invariant,
            target=one.target,
            severity=one.severity,
            detail=one.detail,
            since=one.since,
            until=_until(one, proof, well),
            seq=filed.get((one.invariant, one.target)),
        )
        for one in ticket.violations
    )


def _until(
    violation: Violation, proof: Proof | None, well: Mapping[tuple[str, str], datetime]
) -> datetime | None:
    """When it was first seen to hold for good.

    The monitor knows it of each invariant, as long as it has not broken again; a proof knows it of
    all together.
    """
    since = well.get((violation.invariant, violation.target))
    if proof is None:
        return since if since is None or since >= violation.since else violation.since
    if since is None or not violation.since <= since <= proof.until:
        return max(proof.since, violation.since)
    return since


def _key(told: Mapping[str, Any]) -> tuple[str, str]:
    return str(told.get("invariant")), str(told.get("target"))


def _well(app: App, subject: str) -> Mapping[tuple[str, str], datetime]:
    """What holds now, and since when."""
    return {
        (one.invariant, one.target): one.since
        for one in app.store.conditions.of(subject)
        if one.health is Health.HEALTHY
    }


def _impact(
    breaks: tuple[Break, ...],
    understandings: Sequence[Understanding],
    looks: Sequence[Observation],
    clock: Clock,
    now: datetime,
) -> Impact:
    named = understandings[-1].diagnosis.affected if understandings else ()
    affected = tuple(dict.fromkeys([*(one.target for one in breaks), *named]))
    until = clock.over_at or clock.ended_at
    meanwhile = [one for one in looks if clock.began_at <= one.at and one.at < (until or now)]
    unseen = [one.target for look in meanwhile for one in look.seen if one.problem]
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


def _alike(app: App, ticket: Ticket, understandings: Sequence[Understanding]) -> Mapping[int, str]:
    """Other tickets of the subject with the same cause, or with the same root broken."""
    others = {
        one.id: one
        for one in app.store.tickets.find(subject=ticket.subject, limit=ALIKE_MAX)
        if one.id != ticket.id
    }
    root = ticket.violations[0].key if ticket.violations else ""
    found = {
        number: "the same break"
        for number, one in others.items()
        if one.violations and one.violations[0].key == root
    }
    if understandings and others:
        cause = understandings[-1].diagnosis.cause
        for entry in app.store.entries.newest(limit=ALIKE_MAX, kind=Kind.DIAGNOSIS):
            if entry.ticket in others and entry.payload.get("cause") == cause:
                found[entry.ticket] = f"the same cause ({cause})"
    return found


def _silences(app: App, ticket: Ticket, now: datetime) -> list[Silence]:
    return [
        silence
        for silence in app.store.silences.find(at=now)
        if any(silence.covers(one.subject, one.target, one.invariant) for one in ticket.violations)
    ]


def _alerts(app: App, ticket: Ticket) -> tuple[Alert, ...]:
    """What others reported of the same breaks, while it was not over."""
    keys = {(one.target, one.invariant) for one in ticket.violations}
    known = app.store.alerts.find(subject=ticket.subject, limit=ALIKE_MAX)
    return tuple(
        one
        for one in known
        if (one.target, one.invariant) in keys
        and (one.cleared_at is None or one.cleared_at >= ticket.opened_at)
        and one.since <= ticket.changed_at
    )


def _redacted(value: T, redact: Callable[[str], str]) -> T:
    """The same facts, also without the secrets that came to be known since."""
    return _walk(value, cache(redact))  # type: ignore[no-any-return]


def _walk(value: Any, redact: Callable[[str], str]) -> Any:
    if type(value) is str:
        return redact(value) if value else value
    if isinstance(value, tuple):
        return tuple(_walk(one, redact) for one in value)
    if isinstance(value, Mapping):
        return {name: _walk(one, redact) for name, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        told = {one.name: _walk(getattr(value, one.name), redact) for one in fields(value)}
        return replace(value, **told)
    return value
