"""Follow-ups of an incident, each derived from entries of its ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.reports.report import FollowUp, Report, moment, share
from operator_sre.drawing import plural

__all__ = ["follow_ups_of"]

LIKELY_MIN = 0.05
NAMED_MAX = 5


def follow_ups_of(
    report: Report,
    ticket: Ticket,
    entries: Sequence[Entry],
    *,
    alike: Mapping[int, str],
    silences: Sequence[Silence],
) -> tuple[FollowUp, ...]:
    """Follow-ups, the most urgent first.

    `alike` maps other tickets of the same subject to what they share: the cause, or the violation.
    """
    found: list[FollowUp] = []
    show = f"operator tickets show {ticket.id}"
    reason = ticket.reason or "no reason was recorded"
    match ticket.state:
        case TicketState.ESCALATED:
            found.append(FollowUp("escalated", f"The ticket was escalated: {reason}", show))
        case TicketState.CLOSED:
            text = f"The ticket was closed without proof: {reason}. Check that the invariants hold."
            found.append(FollowUp("unproven", text, "operator health"))
        case TicketState.WATCHED:
            text = f"The invariants hold, but not yet for long enough: {reason}"
            found.append(FollowUp("watched", text, show))
        case TicketState.OPEN | TicketState.CLAIMED:
            text = "The incident is not resolved; this report covers the time until now."
            found.append(FollowUp("open", text, show))
        case _:
            pass
    if ticket.is_paused(report.written_at) and ticket.pause is not None:
        until = f" until {moment(ticket.pause.until)}" if ticket.pause.until else ""
        text = f"{ticket.pause.by} paused work on the ticket{until}."
        found.append(FollowUp("paused", text, f"operator tickets unhold {ticket.id}"))
    if ticket.flapping:
        text = "The subject broke and recovered several times within minutes."
        found.append(FollowUp("flapping", text, show))
    for deed in report.deeds:
        if deed.permission.state == "pending" and not deed.outcome:
            text = f"Approval required: {deed.command}"
            show = f"operator approvals show {deed.permission.approval}"
            found.append(FollowUp("approval", text, show, (deed.seq,)))
    for deed in report.deeds:
        if deed.outcome == "unknown":
            text = f"Result unknown; check before you run this again: {deed.command}"
            show = f"operator history show {deed.seq}"
            found.append(FollowUp("unknown", text, show, (deed.seq,)))
        if deed.left:
            text = f"{deed.command} left running: {', '.join(deed.left[:NAMED_MAX])}"
            found.append(FollowUp("left_running", text, "", (deed.seq,)))
    # Changes in force that are unproven, or temporary because they can be rolled back.
    held = [proven.seq for proven in report.proofs if proven.proof.held]
    for deed in report.deeds:
        if not deed.changes or not deed.ok or deed.undone is not None:
            continue
        if deed.undo:
            text = f"{deed.command} is still in force. To roll it back: {deed.undo}"
            found.append(FollowUp("temporary", text, "", (deed.seq,)))
        if not any(seq > deed.seq for seq in held):
            text = f"{deed.command} was executed, and no proof shows that it helped."
            found.append(FollowUp("unproven", text, "", (deed.seq,)))
    return (*found, *_from_cause(report, alike), *_from_story(report, ticket, entries, silences))


def _from_cause(report: Report, alike: Mapping[int, str]) -> Iterator[FollowUp]:
    if alike:
        numbers = sorted(alike, reverse=True)
        why = " and ".join(dict.fromkeys(alike[number] for number in numbers))
        text = (
            f"The incident has happened before: {plural(len(numbers), 'other ticket')} of"
            f" {report.subject} had {why}. The repair does not prevent it."
        )
        show = f"operator tickets list --subject {report.subject}"
        yield FollowUp("repeated", text, show, tickets=tuple(numbers[:NAMED_MAX]))
    last = report.cause
    # A repair ends the violation; its origin is the next question.
    if last and any(deed.changes and deed.ok and deed.undone is None for deed in report.deeds):
        diagnosis = last.diagnosis
        backed = [evidence for evidence in diagnosis.evidence if evidence.seq is not None]
        seen = f" Most telling evidence: {backed[0].sentence}." if backed else ""
        text = (
            f"The ledger does not show what led to {diagnosis.cause} at {diagnosis.target}."
            f" Find the origin, or the incident will happen again.{seen}"
        )
        yield FollowUp("deeper", text, "", tuple(filter(None, (fact.seq for fact in backed[:1]))))
    for deed in report.deeds:
        if deed.undone is not None:
            text = f"{deed.command} did not help and was rolled back."
            yield FollowUp("taken_back", text, "", (deed.seq, deed.undone))
    if last is None:
        return
    for evidence in last.diagnosis.evidence:
        if evidence.seq is None:
            text = f"No entry supports this claim of the diagnosis: {evidence.sentence}"
            yield FollowUp("claim", text, "", (last.seq,))
    blamed = (last.diagnosis.cause, last.diagnosis.target)
    likely = [
        f"{hypothese.cause} at {hypothese.target} ({share(hypothese.probability)})"
        for hypothese in last.diagnosis.hypotheses
        if hypothese.probability >= LIKELY_MIN and (hypothese.cause, hypothese.target) != blamed
    ]
    if likely:
        text = f"Not ruled out: {', '.join(likely[:NAMED_MAX])}."
        yield FollowUp("not_ruled_out", text, "", (last.seq,))


def _from_story(
    report: Report, ticket: Ticket, entries: Sequence[Entry], silences: Sequence[Silence]
) -> Iterator[FollowUp]:
    for deed in report.deeds:
        if deed.outcome != "refused" or not deed.changes:
            continue
        if deed.permission.state in ("rejected", "expired"):
            by = ", ".join(deed.permission.by)
            how = f"{deed.permission.state}{f' by {by}' if by else ''}"
            text = (
                f"{deed.command} was requested and {how}: {deed.permission.reason or 'no reason'}"
            )
            yield FollowUp("refused", text, "", (deed.seq,))
        elif deed.level == "blocked":
            text = f"The gate blocked a command of the agent: {deed.command}: {deed.output}"
            yield FollowUp("refused", text, "", (deed.seq,))
    # The state of the ticket already shows an escalation that is still in force.
    escalations = [event.seq for event in entries if event.kind is Kind.TICKET_ESCALATED]
    standing = escalations[-1:] if ticket.state is TicketState.ESCALATED else []
    for entry in entries:
        if entry.kind is Kind.TICKET_HANDED_OFF:
            text = f"The ticket was handed off: {entry.payload['reason']}"
            yield FollowUp("handed_off", text, "", (entry.seq,))
        elif entry.kind is Kind.TICKET_ESCALATED and entry.seq not in standing:
            text = f"The ticket was escalated meanwhile: {entry.payload['reason']}"
            yield FollowUp("escalated", text, "", (entry.seq,))
    lost = [proven for proven in report.proofs if not proven.proof.held]
    if lost:
        text = f"{plural(len(lost), 'proof')} failed earlier: {lost[-1].proof.detail}"
        yield FollowUp("failed_proof", text, "", tuple(proven.seq for proven in lost[:NAMED_MAX]))
    harm = sorted({name for proven in report.proofs for name in proven.proof.harm})
    if harm:
        text = f"Broke during the repair: {', '.join(harm[:NAMED_MAX])}"
        yield FollowUp("harm", text, "operator health")
    seqs = tuple(entry.seq for entry in entries if entry.kind is Kind.SUSPICION)
    if seqs:
        text = "An external text contained instructions for the agent; they were treated as data."
        yield FollowUp("instructed", f"{text} Find its origin.", "", seqs[:NAMED_MAX])
    for silence in silences:
        until = moment(silence.until)
        text = f"The subject is silenced until {until}: {silence.reason} ({silence.by})"
        yield FollowUp("silenced", text, "operator silences list")
    if report.purged:
        text = f"{plural(report.purged, 'entry', 'entries')} of the ticket were purged."
        yield FollowUp("purged", text, "operator audit verify")
