"""What an incident leaves to do: nothing here is advice from nowhere, each has its entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.silence import Silence
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.reports.report import Deed, FollowUp, Proven, Understanding
from operator_sre.app.reports.wording import moment, plural, share

__all__ = ["Circumstances", "follow_ups_of"]

LIKELY_MIN = 0.05
NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Circumstances:
    """All that a follow-up can come from.

    `alike` are other tickets of the same subject and why they are: the same cause, or break.
    """

    ticket: Ticket
    entries: Sequence[Entry]
    deeds: Sequence[Deed]
    understandings: Sequence[Understanding]
    proofs: Sequence[Proven]
    alike: Mapping[int, str]
    silences: Sequence[Silence]
    purged: int
    now: datetime


def follow_ups_of(known: Circumstances) -> tuple[FollowUp, ...]:
    """What is left to do, the most pressing first."""
    found = [
        *_standing(known),
        *_waiting(known.deeds),
        *_unknown(known.deeds),
        *_left_changed(known),
        *_again(known),
        *_deeper(known),
        *_taken_back(known.deeds),
        *_claims(known.understandings),
        *_refused(known.deeds),
        *_people(known),
        *_attempts(known),
        *_instructed(known.entries),
        *_quiet(known.silences),
    ]
    if known.purged:
        text = f"{plural(known.purged, 'entry', 'entries')} of its story were purged."
        found.append(FollowUp("purged", text, "operator audit verify"))
    return tuple(found)


def _standing(known: Circumstances) -> Iterator[FollowUp]:
    ticket = known.ticket
    show = f"operator tickets show {ticket.id}"
    reason = ticket.reason or "nobody said why"
    match ticket.state:
        case TicketState.ESCALATED:
            yield FollowUp("escalated", f"A person has to look: {reason}", show)
        case TicketState.CLOSED:
            text = f"It was closed without a proof: {reason}. Nobody has seen that it holds."
            yield FollowUp("unproven", text, "operator health")
        case TicketState.WATCHED:
            yield FollowUp("watched", f"It holds, and is not trusted yet: {reason}", show)
        case TicketState.OPEN | TicketState.CLAIMED:
            yield FollowUp("open", "It is not over: this report is about the time until now.", show)
        case _:
            pass
    if ticket.paused(known.now) and ticket.pause is not None:
        until = f" until {moment(ticket.pause.until)}" if ticket.pause.until else ""
        text = f"No agent works on it{until}: {ticket.pause.by} said so."
        yield FollowUp("paused", text, f"operator tickets unhold {ticket.id}")
    if ticket.flapping:
        yield FollowUp("flapping", "It broke and recovered several times within minutes.", show)


def _waiting(deeds: Sequence[Deed]) -> Iterator[FollowUp]:
    for deed in deeds:
        if deed.permission.state == "pending" and not deed.outcome:
            text = f"A person has to answer whether this may run: {deed.command}"
            show = f"operator approvals show {deed.permission.approval}"
            yield FollowUp("approval", text, show, (deed.seq,))


def _unknown(deeds: Sequence[Deed]) -> Iterator[FollowUp]:
    for deed in deeds:
        if deed.outcome == "unknown":
            text = f"Nobody knows what became of this; look before it is run again: {deed.command}"
            yield FollowUp("unknown", text, f"operator history show {deed.seq}", (deed.seq,))
        if deed.left:
            text = f"{deed.command} left running: {', '.join(deed.left[:NAMED_MAX])}"
            yield FollowUp("left_running", text, "", (deed.seq,))


def _left_changed(known: Circumstances) -> Iterator[FollowUp]:
    """What was changed and stands: unproven, or meant for a while because it can be taken back."""
    held = [one.seq for one in known.proofs if one.proof.held]
    for deed in known.deeds:
        if not deed.changes or not deed.ok or deed.undone is not None:
            continue
        if deed.undo:
            text = f"{deed.command} is in force still; it is taken back with: {deed.undo}"
            yield FollowUp("temporary", text, "", (deed.seq,))
        if not any(seq > deed.seq for seq in held):
            text = f"{deed.command} was done, and no proof says that it helped."
            yield FollowUp("unproven", text, "", (deed.seq,))


def _again(known: Circumstances) -> Iterator[FollowUp]:
    if not known.alike:
        return
    numbers = sorted(known.alike, reverse=True)
    why = " and ".join(dict.fromkeys(known.alike[one] for one in numbers))
    text = (
        f"It is not the first time: {plural(len(numbers), 'other ticket')} of"
        f" {known.ticket.subject} had {why}. What was done ends it and does not prevent it."
    )
    show = f"operator tickets list --subject {known.ticket.subject}"
    yield FollowUp("repeated", text, show, tickets=tuple(numbers[:NAMED_MAX]))


def _deeper(known: Circumstances) -> Iterator[FollowUp]:
    """A repair ends what is broken; what made it break is the next question."""
    repaired = any(one.changes and one.ok and one.undone is None for one in known.deeds)
    if not known.understandings or not repaired:
        return
    diagnosis = known.understandings[-1].diagnosis
    backed = [one for one in diagnosis.evidence if one.seq is not None]
    last = f" The last that was seen of it: {backed[-1].sentence}." if backed else ""
    text = (
        f"What led to {diagnosis.cause} at {diagnosis.target} is not in the record;"
        f" find out, or it comes again.{last}"
    )
    yield FollowUp("deeper", text, "", tuple(filter(None, (one.seq for one in backed[-1:]))))


def _taken_back(deeds: Sequence[Deed]) -> Iterator[FollowUp]:
    for deed in deeds:
        if deed.undone is not None:
            text = f"{deed.command} did not help and was taken back."
            yield FollowUp("taken_back", text, "", (deed.seq, deed.undone))


def _claims(understandings: Sequence[Understanding]) -> Iterator[FollowUp]:
    if not understandings:
        return
    last = understandings[-1]
    for one in last.diagnosis.evidence:
        if one.seq is None:
            text = f"A claim of the diagnosis has no entry behind it: {one.sentence}"
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


def _refused(deeds: Sequence[Deed]) -> Iterator[FollowUp]:
    for deed in deeds:
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


def _people(known: Circumstances) -> Iterator[FollowUp]:
    """What whoever escalated or handed it over wants to be known."""
    for entry in known.entries:
        if entry.kind is Kind.TICKET_HANDED_OFF:
            text = f"It was handed to somebody else: {entry.payload['reason']}"
            yield FollowUp("handed_off", text, "", (entry.seq,))
        elif entry.kind is Kind.TICKET_ESCALATED and not _is_last(known, entry):
            text = f"It was escalated meanwhile: {entry.payload['reason']}"
            yield FollowUp("escalated", text, "", (entry.seq,))


def _is_last(known: Circumstances, entry: Entry) -> bool:
    return known.ticket.state is TicketState.ESCALATED and not any(
        one.kind is Kind.TICKET_ESCALATED and one.seq > entry.seq for one in known.entries
    )


def _attempts(known: Circumstances) -> Iterator[FollowUp]:
    lost = [one for one in known.proofs if not one.proof.held]
    if lost:
        text = f"{plural(len(lost), 'proof')} failed before: {lost[-1].proof.detail}"
        yield FollowUp("failed_proof", text, "", tuple(one.seq for one in lost[:NAMED_MAX]))
    harm = sorted({one for proven in known.proofs for one in proven.proof.harm})
    if harm:
        text = f"Broke meanwhile, and was not part of it: {', '.join(harm[:NAMED_MAX])}"
        yield FollowUp("harm", text, "operator health")


def _instructed(entries: Sequence[Entry]) -> Iterator[FollowUp]:
    seqs = tuple(one.seq for one in entries if one.kind is Kind.SUSPICION)
    if seqs:
        text = (
            "Text from outside tried to instruct the mind; it was taken as data. Find its origin."
        )
        yield FollowUp("instructed", text, "", seqs[:NAMED_MAX])


def _quiet(silences: Sequence[Silence]) -> Iterator[FollowUp]:
    for one in silences:
        text = f"What breaks there is silent until {moment(one.until)}: {one.reason} ({one.by})"
        yield FollowUp("silenced", text, "operator silences list")
