"""From the entries of a ticket to its actions, its timeline and its clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.reports.report import (
    Break,
    Clock,
    Moment,
    Permission,
    ReportedAction,
    mind_name,
    share,
)
from operator_sre.app.story import command_of, lines_of
from operator_sre.drawing import plural, span

__all__ = ["clock_of", "read_actions", "timeline_of"]

OUTPUT_LINES_MAX = 12
OUTPUT_CHARACTERS_MAX = 1200
MOMENTS_MAX = 300
# The fields by which a call is recognized as the rollback of another.
_SAME = ("tool", "arguments", "target")
# Other lines of the timeline already cover these entries.
_LEFT_OUT = frozenset(
    {
        *(Kind.REASONING, Kind.VERDICT, Kind.PERMIT_MINTED, Kind.TOOL_CALL, Kind.TOOL_STARTED),
        *(Kind.TOOL_RESULT, Kind.REFUSED, Kind.DIAGNOSIS, Kind.OBSERVED, Kind.SUMMARY),
        *(Kind.APPROVAL_REQUESTED, Kind.PURGED),
    }
)
_ENDS = frozenset({Kind.TICKET_RESOLVED, Kind.TICKET_CLOSED})


@dataclass(slots=True)
class _Books:
    """State while the entries are read: by permit, by request, by action."""

    verdicts: list[Entry] = field(default_factory=list)
    minted: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    requests: dict[str, Entry] = field(default_factory=dict)
    answers: dict[str, list[Entry]] = field(default_factory=dict)
    calls: dict[str, Entry] = field(default_factory=dict)
    judged: dict[str, Entry | None] = field(default_factory=dict)


def read_actions(entries: Sequence[Entry]) -> tuple[ReportedAction, ...]:
    """Every action that was proposed, oldest first, with what became of it."""
    books, found = _Books(), []
    keys: dict[int, tuple[str, ...]] = {}
    undos: dict[int, tuple[str, ...]] = {}
    for entry in entries:
        payload = entry.payload
        match entry.kind:
            case Kind.VERDICT:
                books.verdicts.append(entry)
            case Kind.APPROVAL_REQUESTED:
                books.requests[payload["approval"]["id"]] = entry
            case Kind.APPROVAL_DECIDED:
                books.answers.setdefault(payload["id"], []).append(entry)
            case Kind.PERMIT_MINTED:
                books.minted[payload["permit"]] = payload
            case Kind.TOOL_CALL:
                keys[entry.seq] = _key(payload["action"])
                books.calls[payload["permit"]] = entry
                books.judged[payload["permit"]] = _verdict_of(books, entry)
            case Kind.TOOL_RESULT:
                if undo := (payload.get("result") or {}).get("undo"):
                    undos[entry.seq] = _key(undo)
                if call := books.calls.pop(payload["permit"], None):
                    judged = books.judged.get(payload["permit"])
                    found.append(_build_action(books, call, judged, entry))
            case Kind.REFUSED:
                found.append(_build_action(books, entry, _verdict_of(books, entry), entry))
    found += [
        _build_action(books, call, books.judged.get(key), None) for key, call in books.calls.items()
    ]
    # People were asked about these, and nothing has come of it yet.
    requested = {_key(request.payload["approval"]["action"]) for request in books.requests.values()}
    found += [
        _build_action(books, verdict, verdict, None)
        for verdict in books.verdicts
        if _key(verdict.payload["action"]) in requested
    ]
    found.sort(key=lambda deed: deed.seq)
    # Each action names the entry of its rollback.
    linked = []
    for at, deed in enumerate(found):
        wanted = undos.get(deed.result_seq or 0)
        back = [
            later.seq for later in found[at + 1 :] if later.ok and keys.get(later.seq) == wanted
        ]
        linked.append(replace(deed, undone=back[0]) if wanted is not None and back else deed)
    return tuple(linked)


def _verdict_of(books: _Books, entry: Entry) -> Entry | None:
    """The verdict that this call or refusal follows: the newest of the same action."""
    wanted = _key(entry.payload.get("action") or {})
    for at in range(len(books.verdicts) - 1, -1, -1):
        if _key(books.verdicts[at].payload["action"]) == wanted:
            return books.verdicts.pop(at)
    return None


def _build_action(
    books: _Books, start: Entry, judged: Entry | None, ended: Entry | None
) -> ReportedAction:
    action = start.payload.get("action") or {}
    verdict = judged.payload if judged else start.payload
    result = (ended.payload.get("result") if ended else None) or {}
    streams = [str(result.get(name) or "").strip("\n") for name in ("stdout", "stderr")]
    lines = "\n".join(filter(None, streams)).splitlines()
    output = "\n".join(lines[-OUTPUT_LINES_MAX:])[-OUTPUT_CHARACTERS_MAX:]
    level = str(verdict.get("level", ""))
    return ReportedAction(
        seq=start.seq,
        at=start.at,
        run=start.run,
        command=command_of(action) if action else "(unknown)",
        target=str(action.get("target", "")),
        cwd=str(action.get("cwd", "")),
        reasoning=str(action.get("reasoning", "")),
        expected=str(action.get("expected", "")),
        changes=level != "safe",
        level=level,
        risk=str(verdict.get("risk", "")),
        explanation=str(verdict.get("explanation", "")),
        rules=tuple(str(rule["id"]) for rule in verdict.get("rules", ())),
        reversible=verdict.get("reversible"),
        permission=_permission(books, start, action),
        outcome=str(result.get("outcome", "")),
        exit_code=result.get("exit_code"),
        duration_s=float(result.get("duration_s") or 0.0),
        output=output,
        truncated=len(output) < len("\n".join(lines)) or bool(result.get("truncated")),
        result_seq=ended.seq if ended else None,
        undo=command_of(result["undo"]) if result.get("undo") else "",
        left=tuple(
            f"{process['name']} (pid {process['process']['pid']})"
            for process in result.get("left") or ()
            if not process.get("ended")
        ),
    )


def _permission(books: _Books, start: Entry, action: Mapping[str, Any]) -> Permission:
    minted = books.minted.get(str(start.payload.get("permit", "")))
    if minted:
        number = str(minted.get("approval", ""))
    else:  # no permit names a request: the newest one about this very action
        requests = [
            number
            for number, entry in books.requests.items()
            if _key(entry.payload["approval"]["action"]) == _key(action) and entry.run == start.run
        ]
        number = requests[-1] if requests else ""
    if not number:
        if minted is None:
            return Permission("nobody")
        rule = minted.get("rule")
        return Permission("rule", rule=str(rule)) if rule else Permission("policy")
    request = books.requests.get(number)
    answers = books.answers.get(number, [])
    last = answers[-1].payload if answers else {}
    people = [
        str(entry.payload.get("decided_by") or entry.actor.id)
        for entry in answers
        if str(entry.payload.get("answer") or entry.payload.get("state", ""))
        in ("approved", "rejected")
    ]
    return Permission(
        "people",
        state=str(last.get("state", "pending")),
        approval=number,
        asked_at=request.at if request else None,
        decided_at=answers[-1].at if answers else None,
        by=tuple(dict.fromkeys(filter(None, people))),
        reason=str(last.get("reason", "")),
    )


def _key(action: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(repr(action.get(name)) for name in _SAME)


def clock_of(
    ticket: Ticket,
    entries: Sequence[Entry],
    deeds: Sequence[ReportedAction],
    breaks: Sequence[Break],
) -> Clock:
    """When the incident began, was detected, claimed, repaired and resolved."""
    first: dict[Kind, datetime] = {}
    for entry in entries:
        first.setdefault(entry.kind, entry.at)
    repairs = [deed for deed in deeds if deed.changes and deed.ok and deed.undone is None]
    repaired = repairs[-1].result_seq if repairs else None
    last = [entry.at for entry in entries if entry.kind in _ENDS]
    over = ticket.state in (TicketState.RESOLVED, TicketState.CLOSED)
    held = [broken.until for broken in breaks if broken.until is not None]
    return Clock(
        began_at=min([ticket.opened_at, *(broken.since for broken in breaks)]),
        detected_at=ticket.opened_at,
        taken_at=first.get(Kind.TICKET_CLAIMED),
        understood_at=first.get(Kind.DIAGNOSIS),
        repaired_at=next((event.at for event in entries if over and event.seq == repaired), None),
        over_at=max(held) if held and len(held) == len(breaks) else None,
        ended_at=last[-1] if last and over else None,
    )


def timeline_of(
    entries: Sequence[Entry], deeds: Sequence[ReportedAction], breaks: Sequence[Break]
) -> tuple[Moment, ...]:
    """What happened, oldest first.

    A long timeline keeps its beginning and its end; a line between them counts the rest.
    """
    done = {deed.result_seq or deed.seq: deed for deed in deeds}
    moments = [
        Moment(
            violation.since,
            "break",
            f"{violation.target}: {violation.invariant} is broken: {violation.detail}",
        )
        for violation in breaks[:1]
    ]
    for entry in entries:
        moments += _moments(entry, done.get(entry.seq))
    moments.sort(key=lambda moment: (moment.at, moment.seq or 0))
    half = MOMENTS_MAX // 2
    if len(moments) > MOMENTS_MAX:
        left = f"{len(moments) - 2 * half} entries left out"
        gap = Moment(moments[half].at, "...", left, moments[half].seq)
        moments = [*moments[:half], gap, *moments[-half:]]
    return tuple(moments)


def _moments(entry: Entry, deed: ReportedAction | None) -> Iterator[Moment]:
    payload = entry.payload
    if deed is not None:
        lines = deed.output.splitlines()
        first = lines[0] if lines else ""
        if deed.outcome == "ran":
            ended = f"exit {deed.exit_code} in {span(deed.duration_s)}"
            if len(lines) == 1:
                ended += f": {first.strip()}"
            elif lines:
                ended += f", {plural(len(lines), 'line')}"
        else:
            ended = f"{deed.outcome.replace('_', ' ') or 'not finished'}. {first}".strip()
        if not deed.changes:
            step, text = "think", f"checked: {deed.command}: {ended}"
        elif deed.outcome == "refused":
            step, text = "decide", f"not run: {deed.command}: {first}"
        elif not deed.outcome:
            step, text = "act", f"not finished: {deed.command}"
        else:
            step, text = "act", f"{deed.command}: {ended}"
        tone = "plain" if not deed.changes else "good" if deed.ok else "warn"
        yield Moment(entry.at, step, text, entry.seq, tone)
    elif entry.kind is Kind.DIAGNOSIS:
        confidence = share(float(payload["confidence"]))
        text = f"diagnosis, {confidence} sure: {payload['summary']}"
        yield Moment(entry.at, "think", text, entry.seq, "strong")
    elif entry.kind is Kind.APPROVAL_REQUESTED:
        request = payload["approval"]
        text = f"approval requested ({request['id']}, risk {request['risk']})"
        yield Moment(entry.at, "decide", text, entry.seq, "warn")
    elif entry.kind is Kind.RUN_STARTED:
        yield Moment(entry.at, "think", f"{mind_name(payload['model'])} starts", entry.seq)
    elif entry.kind is Kind.RUN_FINISHED and payload["state"] != "completed":
        text = f"the run {payload['state']}: {payload['summary']}"
        yield Moment(entry.at, "think", text, entry.seq, "warn")
    elif entry.kind is Kind.REASONING and payload.get("by"):
        for line in list(lines_of(entry))[:1]:  # the fallback, without the reasoning
            yield Moment(entry.at, line.step, line.text, entry.seq, line.tone)
    elif entry.kind not in _LEFT_OUT:
        for line in lines_of(entry):
            text = " ".join([line.text, *line.details[:1]])
            yield Moment(entry.at, line.step, text, entry.seq, line.tone)
