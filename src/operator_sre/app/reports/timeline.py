"""From the entries of a ticket to the lines of its timeline, and to the clock of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.reports.report import Break, Clock, Deed, Moment
from operator_sre.app.reports.telling import mind_name
from operator_sre.app.reports.wording import plural, share, span
from operator_sre.app.story import lines_of

__all__ = ["clock_of", "timeline_of"]

MOMENTS_MAX = 300
# Thoughts are told by what came of them, verdicts and permits by what ran.
_LEFT_OUT = frozenset(
    {
        *(Kind.REASONING, Kind.VERDICT, Kind.PERMIT_MINTED, Kind.TOOL_CALL, Kind.TOOL_STARTED),
        *(Kind.TOOL_RESULT, Kind.REFUSED, Kind.DIAGNOSIS, Kind.OBSERVED, Kind.SUMMARY),
        *(Kind.APPROVAL_REQUESTED, Kind.PURGED),
    }
)
_ENDS = frozenset({Kind.TICKET_RESOLVED, Kind.TICKET_CLOSED})


def clock_of(
    ticket: Ticket,
    entries: Sequence[Entry],
    deeds: Sequence[Deed],
    breaks: Sequence[Break],
) -> Clock:
    """When it began, was seen, taken up, repaired and over."""
    first: dict[Kind, datetime] = {}
    for entry in entries:
        first.setdefault(entry.kind, entry.at)
    repairs = [one for one in deeds if one.changes and one.ok and one.undone is None]
    last = [entry.at for entry in entries if entry.kind in _ENDS]
    over = ticket.state in (TicketState.RESOLVED, TicketState.CLOSED)
    held = [one.until for one in breaks if one.until is not None]
    return Clock(
        began_at=min([ticket.opened_at, *(one.since for one in breaks)]),
        detected_at=ticket.opened_at,
        taken_at=first.get(Kind.TICKET_CLAIMED),
        understood_at=first.get(Kind.DIAGNOSIS),
        repaired_at=_ended_at(repairs[-1], entries) if repairs and over else None,
        over_at=max(held) if held and len(held) == len(breaks) else None,
        ended_at=last[-1] if last and over else None,
    )


def _ended_at(deed: Deed, entries: Sequence[Entry]) -> datetime | None:
    return next((one.at for one in entries if one.seq == deed.result_seq), None)


def timeline_of(
    entries: Sequence[Entry], deeds: Sequence[Deed], breaks: Sequence[Break]
) -> tuple[Moment, ...]:
    """What happened, oldest first, as people tell it to each other."""
    done = {one.result_seq or one.seq: one for one in deeds}
    found = [
        Moment(one.since, "break", f"{one.target}: {one.invariant} is broken: {one.detail}")
        for one in breaks[:1]
    ]
    for entry in entries:
        found += _moments(entry, done)
    found.sort(key=lambda one: (one.at, one.seq or 0))
    return tuple(found if len(found) <= MOMENTS_MAX else _shortened(found))


def _shortened(found: Sequence[Moment]) -> Iterator[Moment]:
    """The beginning and the end; how much is missing stands between them."""
    half = MOMENTS_MAX // 2
    yield from found[:half]
    left = len(found) - 2 * half
    yield Moment(found[half].at, "...", f"{left} more are left out here", found[half].seq)
    yield from found[-half:]


def _moments(entry: Entry, done: Mapping[int, Deed]) -> Iterator[Moment]:
    if deed := done.get(entry.seq):
        yield Moment(entry.at, *_deed(deed), seq=entry.seq, tone=_tone(deed))
    elif entry.kind is Kind.DIAGNOSIS:
        sure = f"{share(float(entry.payload['confidence']))} sure"
        text = f"understood, {sure}: {entry.payload['summary']}"
        yield Moment(entry.at, "think", text, entry.seq, "strong")
    elif entry.kind is Kind.APPROVAL_REQUESTED:
        asked = entry.payload["approval"]
        text = f"a person is asked (request {asked['id']}, risk {asked['risk']})"
        yield Moment(entry.at, "decide", text, entry.seq, "warn")
    elif entry.kind is Kind.RUN_STARTED:
        yield Moment(entry.at, "think", f"{mind_name(entry.payload['model'])} begins", entry.seq)
    elif entry.kind is Kind.RUN_FINISHED and entry.payload["state"] != "completed":
        text = f"the run {entry.payload['state']}: {entry.payload['summary']}"
        yield Moment(entry.at, "think", text, entry.seq, "warn")
    elif entry.kind is Kind.REASONING and entry.payload.get("by"):
        for line in list(lines_of(entry))[:1]:  # who spoke in place of whom, not what was said
            yield Moment(entry.at, line.step, line.text, entry.seq, line.tone)
    elif entry.kind not in _LEFT_OUT:
        for line in lines_of(entry):
            text = " ".join([line.text, *line.details[:1]])
            yield Moment(entry.at, line.step, text, entry.seq, line.tone)


def _deed(deed: Deed) -> tuple[str, str]:
    """Which step it belongs to, and what it was."""
    if not deed.changes:
        return "think", f"looked: {deed.command}: {_ended(deed)}"
    if deed.outcome == "refused":
        return "decide", f"not run: {deed.command}: {_first(deed.output)}"
    if not deed.outcome:
        return "act", f"not over: {deed.command}"
    return "act", f"{deed.command}: {_ended(deed)}"


def _ended(deed: Deed) -> str:
    if deed.outcome != "ran":
        return f"{deed.outcome.replace('_', ' ') or 'not over'}. {_first(deed.output)}".strip()
    how = f"exit {deed.exit_code} in {span(deed.duration_s)}"
    lines = deed.output.splitlines()
    if not lines:
        return how
    return (
        f"{how}: {lines[-1].strip()}" if len(lines) == 1 else f"{how}, {plural(len(lines), 'line')}"
    )


def _first(text: str) -> str:
    return text.splitlines()[0] if text else ""


def _tone(deed: Deed) -> str:
    if not deed.changes:
        return "plain"
    return "good" if deed.ok else "warn"
