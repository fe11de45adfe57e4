"""What an incident leaves to do: nothing here is advice from nowhere, each has its entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.reports.report import (
    FollowUp,
    Report,
    moment,
    share,
)
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
    """What is left to do, the most pressing first.

    `alike` are other tickets of the same subject and why they are: the same cause, or break.
    """
    found: list[FollowUp] = []
    show = f"operator tickets show {ticket.id}"
    reason = ticket.reason or "nobody said why"
    match ticket.state:
        case TicketState.ESCALATED:
            found.append(FollowUp("escalated", f"A person has to look: {reason}", show))
        case TicketState.CLOSED:
            text = f"It was closed without a proof: {reason}. Nobody has seen that it holds."
            found.append(FollowUp("unproven", text, "operator health"))
        case TicketState.WATCHED:
            found.append(FollowUp("watched", f"It holds, and is not trusted yet: {reason}", show))
        case TicketState.OPEN | TicketState.CLAIMED:
            found.append(
                FollowUp("open", "It is not over: this report is about the time until now.", show)
            )
        case _:
            pass
    if ticket.paused(report.written_at) and ticket.pause is not None:
        until = f" until {moment(ticket.pause.until)}" if ticket.pause.until else ""
        text = f"No agent works on it{until}: {ticket.pause.by} said so."
        found.append(FollowUp("paused", text, f"operator tickets unhold {ticket.id}"))
    if ticket.flapping:
        found.append(
            FollowUp("flapping", "It broke and recovered several times within minutes.", show)
        )
    for deed in report.deeds:
        if deed.permission.state == "pending" and not deed.outcome:
            text = f"A person has to answer whether this may run: {deed.command}"
            show = f"operator approvals show {deed.permission.approval}"
            found.append(FollowUp("approval", text, show, (deed.seq,)))
    for deed in report.deeds:
        if deed.outcome == "unknown":
            text = f"Nobody knows what became of this; look before it is run again: {deed.command}"
            found.append(
                FollowUp("unknown", text, f"operator history show {deed.seq}", (deed.seq,))
            )
        if deed.left:
            text = f"{deed.command} left running: {', '.join(deed.left[:NAMED_MAX])}"
            found.append(FollowUp("left_running", text, "", (deed.seq,)))
    # What was changed and stands: unproven, or meant for a while because it can be taken back.
    held = [proven.seq for proven in report.proofs if proven.proof.held]
    for deed in report.deeds:
        if not deed.changes or not deed.ok or deed.undone is not None:
            continue
        if deed.undo:
            text = f"{deed.command} is in force still; it is taken back with: {deed.undo}"
            found.append(FollowUp("temporary", text, "", (deed.seq,)))
        if not any(seq > deed.seq for seq in held):
            text = f"{deed.command} was done, and no proof says that it helped."
            found.append(FollowUp("unproven", text, "", (deed.seq,)))
    return (*found, *_from_cause(report, alike), *_from_story(report, ticket, entries, silences))


def _from_cause(report: Report, alike: Mapping[int, str]) -> Iterator[FollowUp]:
    if alike:
        numbers = sorted(alike, reverse=True)
        why = " and ".join(dict.fromkeys(alike[number] for number in numbers))
        text = (
            f"It is not the first time: {plural(len(numbers), 'other ticket')} of"
            f" {report.subject} had {why}. What was done ends it and does not prevent it."
        )
        show = f"operator tickets list --subject {report.subject}"
        yield FollowUp("repeated", text, show, tickets=tuple(numbers[:NAMED_MAX]))
    last = report.cause
    # A repair ends what is broken; what made it break is the next question.
    if last and any(deed.changes and deed.ok and deed.undone is None for deed in report.deeds):
        diagnosis = last.diagnosis
        backed = [evidence for evidence in diagnosis.evidence if evidence.seq is not None]
        seen = f" The last that was seen of it: {backed[-1].sentence}." if backed else ""
        text = (
            f"What led to {diagnosis.cause} at {diagnosis.target} is not in the record;"
            f" find out, or it comes again.{seen}"
        )
        yield FollowUp("deeper", text, "", tuple(filter(None, (one.seq for one in backed[-1:]))))
    for deed in report.deeds:
        if deed.undone is not None:
            text = f"{deed.command} did not help and was taken back."
            yield FollowUp("taken_back", text, "", (deed.seq, deed.undone))
    if last is None:
        return
    for evidence in last.diagnosis.evidence:
        if evidence.seq is None:
            text = f"A claim of the diagnosis has no entry behind it: {evidence.sentence}"
            yield FollowUp("claim", text, "", (last.seq,))
    blamed = (last.diagnosis.cause, last.diagnosis.target)
    likely = [
        f"{one.cause} at {one.target} ({share(one.probability)})"
        for one in last.diagnosis.hypotheses
        if one.probability >= LIKELY_MIN and (one.cause, one.target) != blamed
    ]
    if likely:
        text = f"Not ruled out by what was seen: {', '.join(likely[:NAMED_MAX])}."
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
            text = f"{deed.command} was wanted and {how}: {deed.permission.reason or 'no reason'}"
            yield FollowUp("refused", text, "", (deed.seq,))
        elif deed.level == "blocked":
            text = f"The gate refused what the mind wanted: {deed.command}: {deed.output}"
            yield FollowUp("refused", text, "", (deed.seq,))
    # An escalation that stands is told by the state of the ticket.
    escalations = [one.seq for one in entries if one.kind is Kind.TICKET_ESCALATED]
    standing = escalations[-1:] if ticket.state is TicketState.ESCALATED else []
    for entry in entries:
        if entry.kind is Kind.TICKET_HANDED_OFF:
            text = f"It was handed to somebody else: {entry.payload['reason']}"
            yield FollowUp("handed_off", text, "", (entry.seq,))
        elif entry.kind is Kind.TICKET_ESCALATED and entry.seq not in standing:
            text = f"It was escalated meanwhile: {entry.payload['reason']}"
            yield FollowUp("escalated", text, "", (entry.seq,))
    lost = [proven for proven in report.proofs if not proven.proof.held]
    if lost:
        text = f"{plural(len(lost), 'proof')} failed before: {lost[-1].proof.detail}"
        yield FollowUp("failed_proof", text, "", tuple(one.seq for one in lost[:NAMED_MAX]))
    harm = sorted({name for proven in report.proofs for name in proven.proof.harm})
    if harm:
        text = f"Broke meanwhile, and was not part of it: {', '.join(harm[:NAMED_MAX])}"
        yield FollowUp("harm", text, "operator health")
    seqs = tuple(entry.seq for entry in entries if entry.kind is Kind.SUSPICION)
    if seqs:
        text = "Text from outside tried to instruct the mind; it was taken as data."
        yield FollowUp("instructed", f"{text} Find its origin.", "", seqs[:NAMED_MAX])
    for silence in silences:
        until = moment(silence.until)
        text = f"What breaks there is silent until {until}: {silence.reason} ({silence.by})"
        yield FollowUp("silenced", text, "operator silences list")
    if report.purged:
        text = f"{plural(report.purged, 'entry', 'entries')} of its story were purged."
        yield FollowUp("purged", text, "operator audit verify")
