"""The ledger as sentences: how a story begins, and what every entry adds to it."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.diagnosis import RankedHypothesis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Health, worst
from operator_protocols.domain.verdict import Mode
from operator_sre.codec import from_json

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["Line", "beginning", "each_look", "first_look", "hypotheses_of", "lines_of"]

NAMED_MAX = 3

_MAY = {
    Mode.OBSERVE: "only proposes, changes nothing",
    Mode.APPROVE: "asks a person before every change",
    Mode.EXECUTE: "does by itself what the policy allows",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of the story: which step of the journey speaks, and how it sounds."""

    step: str
    text: str
    tone: str = "plain"
    details: tuple[str, ...] = ()


def lines_of(entry: Entry) -> Iterable[Line]:
    """What an entry adds to the story; nothing when it is only book-keeping."""
    return (*_tell_work(entry), *_tell_control(entry), *_tell_people(entry))


def hypotheses_of(entry: Entry) -> tuple[RankedHypothesis, ...]:
    """The hypotheses that were weighed at this turn; none where the entry is no turn."""
    rows = entry.payload.get("hypotheses", ()) if entry.kind is Kind.REASONING else ()
    return tuple(from_json(RankedHypothesis, row) for row in rows)


def _tell_work(entry: Entry) -> Iterator[Line]:
    """How a ticket is worked on: what was thought, done and proven."""
    payload = entry.payload
    match entry.kind:
        case Kind.TICKET_OPENED:
            yield Line("file", f"ticket opened: {payload['summary']}", "bad")
        case Kind.TICKET_GREW:
            yield Line("file", f"belongs to the same incident: {payload['summary']}", "bad")
        case Kind.TICKET_CLAIMED:
            how = "goes on with it" if payload["resumed"] else "takes it"
            yield Line("think", f"the agent {how} (attempt {payload['attempts']})")
        case Kind.TICKET_RESOLVED:
            yield Line("close", f"RESOLVED with a proof. {payload['reason']}", "good")
        case Kind.REASONING:
            if by := payload.get("by"):
                mind = "the built-in reasoner" if by == "reasoner" else by
                yield Line("think", f"fell back to {mind}: {payload.get('note', '')}", "warn")
            details = []
            for one in hypotheses_of(entry):
                bar = "#" * round(one.probability * 10)
                was = f", was {one.before:.1%}" if one.before is not None else ""
                cause = f"{one.cause} at {one.target}{was}"
                details.append(f"{one.probability:6.1%}  {bar:10}  {cause}")
            yield Line("think", payload["reasoning"], "plain", tuple(details))
        case Kind.DIAGNOSIS:
            details = [
                f"{'a mere claim' if one.get('seq') is None else 'evidence'}: {one['sentence']}"
                for one in payload["evidence"]
            ]
            details += [
                f"not {one['cause']} at {one['target']}: {one['why_rejected']}"
                for one in payload["alternatives"]
            ]
            details += [
                f"option: {one['action']} (risk {one['risk']}): {one['trade_off']}"
                for one in payload["options"]
            ]
            details.append(f"choice: {payload['choice']}. {payload['why']}")
            text = f"diagnosis, {min(payload['confidence'], 0.999):.1%} sure: {payload['summary']}"
            yield Line("think", text, "strong", tuple(details))
        case Kind.SUSPICION:  # what tried to instruct the mind, which was told it as data
            text = f"text in entry {payload['of']} tries to instruct; it is taken as data"
            places = [
                f"{one['where']}: {one['rule']}: {one['excerpt']!r}" for one in payload["places"]
            ]
            yield Line("watch", text, "warn", tuple(places))
        case Kind.TOOL_RESULT:
            result = payload["result"]
            output = (result["stdout"] or result["stderr"]).strip().splitlines()
            last = output[-1][:120] if output else "(no output)"
            ran = result["outcome"] == "ran"
            how = f"exit {result['exit_code']}" if ran else result["outcome"]
            tone = "plain" if ran and result["exit_code"] == 0 else "warn"
            yield Line("act", f"{how} in {result['duration_s']:.2f} s: {last}", tone)
        case Kind.REFUSED:
            yield Line("act", f"not run: {payload['result']['stderr']}", "warn")
        case Kind.PROOF:
            yield Line("prove", payload["detail"], "good" if payload["held"] else "bad")


def _tell_control(entry: Entry) -> Iterator[Line]:
    """What was allowed and what holds agents back; and workflows, which run on their own."""
    payload, because = entry.payload, _because(entry.payload)
    match entry.kind:
        case Kind.VERDICT:
            tone = {"safe": "good", "review": "warn", "blocked": "bad"}[payload["level"]]
            level, risk = payload["level"].upper(), payload["risk"]
            yield Line("decide", f"{brief_of(payload['action'])}  {level}, risk {risk}", tone)
        case Kind.APPROVAL_REQUESTED:
            how = f"operator approvals approve {payload['approval']['id']}"
            yield Line("decide", f"a person has to answer: {how}", "warn")
        case Kind.APPROVAL_ESCALATED:
            yield Line("decide", f"escalated: {payload['reason']}", "warn")
        case Kind.APPROVAL_DECIDED:
            answer = payload.get("answer", payload["state"])
            more = "; one more has to say so" if answer != payload["state"] else ""
            yield Line("decide", f"{answer} by {payload['decided_by']}{because}{more}")
        case Kind.PERMIT_MINTED if payload.get("rule"):
            yield Line("decide", f"allowed by the standing rule {payload['rule']}")
        case Kind.KILL_SWITCH_ON:
            yield Line("decide", f"the kill switch was turned on{because}", "bad")
        case Kind.KILL_SWITCH_OFF:
            yield Line("decide", f"the kill switch was turned off{because}", "good")
        case Kind.SESSION_HELD:
            text = f"{payload['agent']} is in observe from here on, at {payload['score']}"
            yield Line("decide", f"{text}{because}", "bad")
        case Kind.SESSION_RESET:
            yield Line("decide", f"the session of {payload['agent']} was reset{because}")
        case Kind.MODE_SET | Kind.MODE_RESET:
            mode = payload.get("mode", "what is configured")
            yield Line("decide", f"the mode of {payload['subject']} is {mode}{because}")
        case Kind.LIMITS_RESET:
            yield Line("decide", f"the limits of {payload['subject']} were reset{because}")
        case Kind.WORKFLOW_REQUESTED:
            record = payload["record"]
            due = record["due_at"][:19].replace("T", " ")
            when = f", due at {due} UTC" if record["scheduled"] else ""
            name, count = record["workflow"]["name"], len(record["workflow"]["steps"])
            steps = "one step" if count == 1 else f"{count} steps"
            yield Line("file", f"workflow {name}: {steps}{when}")
        case Kind.WORKFLOW_CLAIMED:
            how = "runs it" if payload["epoch"] == 1 else "goes on with it"
            yield Line("act", f"{payload['worker']} {how}")
        case Kind.WORKFLOW_STEP:
            note = payload["note"]
            attempt = f", attempt {note['attempt']}" if note["attempt"] > 1 else ""
            tones = {"completed": "good", "failed": "bad", "cancelled": "warn"}
            text = f"step {note['step']}: {note['state']}{attempt}{_because(note)}"
            yield Line("act", text, tones.get(note["state"], "plain"))
        case Kind.WORKFLOW_UNDO:
            note = payload["note"]
            text = f"taking back step {note['step']}: {note['state']}{_because(note)}"
            tone = {"completed": "good", "failed": "bad"}.get(note["state"], "plain")
            yield Line("act", text, tone)
        case Kind.WORKFLOW_CANCELLED:
            how = " and taken back" if payload["undo"] else ""
            yield Line("decide", f"the workflow is to be cancelled{how}{because}", "warn")
        case Kind.WORKFLOW_ENDED:
            tone = "good" if payload["state"] == "completed" else "bad"
            yield Line("close", f"the workflow is {payload['state']}{because}", tone)


def _tell_people(entry: Entry) -> Iterator[Line]:
    """What people do is told with who did it."""
    payload, because, who = entry.payload, _because(entry.payload), entry.actor.id
    by = f" by {who}" if entry.actor.type == "user" else ""
    match entry.kind:
        case Kind.TICKET_HELD | Kind.TICKET_SNOOZED:
            until = payload["until"]
            how = "put off" if entry.kind is Kind.TICKET_SNOOZED else "held"
            end = f" until {until[:16].replace('T', ' ')} UTC" if until else ""
            yield Line("people", f"{how}{end} by {who}{because}", "warn")
        case Kind.TICKET_UNHELD:
            yield Line("people", f"let go by {who}{because}")
        case Kind.TICKET_ASSIGNED:
            whose = f"given to {payload['assignee']}" if payload["assignee"] else "nobody's now"
            yield Line("people", f"{whose}, says {who}{because}")
        case Kind.TICKET_COMMENTED:
            first, *more = str(payload["text"]).splitlines() or [""]
            yield Line("people", f"{who} says: {first}", "plain", tuple(more))
        case Kind.TICKET_CLOSED:
            yield Line("close", f"CLOSED without a proof by {who}{because}")
        case Kind.TICKET_REOPENED:
            yield Line("file", f"open again{by}{because}", "bad")
        case Kind.TICKET_WATCHED:
            yield Line("close", f"WATCHED. {payload['reason']}", "warn")
        case Kind.TICKET_ESCALATED:
            yield Line("close", f"ESCALATED{by}. {payload['reason']}", "bad")
        case Kind.TICKET_HANDED_OFF:
            yield Line("close", f"HANDED OFF by {who}. {payload['reason']}", "warn")
        case Kind.CONFIRMATION_REQUESTED:
            change = payload["confirmation"]
            what = f"({change['boundary']}, risk {change['risk']}): {change['rationale']}"
            text = f"{who} asks for a change {what}"
            yield Line("people", text, "warn", (f"id {change['id']}",))
        case Kind.CONFIRMATION_DECIDED:
            text = f"the change is {payload['state']}, says {payload['decided_by']}{because}"
            yield Line("people", text, "good" if payload["state"] == "approved" else "warn")
        case Kind.CONFIRMATION_SETTLED:
            tone = "good" if payload["applied"] else "bad"
            yield Line("people", f"the change is {payload['outcome']}", tone)
        case Kind.POLICY_CHANGED:
            patch = tuple(str(payload["patch"]).splitlines())
            yield Line("decide", f"{payload['file']} was changed by {who}", "warn", patch)


def _because(payload: Mapping[str, Any]) -> str:
    return f": {payload['reason']}" if payload.get("reason") else ""


def command_of(action: Mapping[str, Any]) -> str:
    """An action as people write it."""
    if action["tool"] == "shell":
        arguments = action["arguments"]
        return shlex.join(map(str, arguments.get("argv") or ())) or str(arguments.get("command"))
    inside = ", ".join(f"{name}={value}" for name, value in sorted(action["arguments"].items()))
    return f"{action['tool']}({inside})"


def brief_of(action: Mapping[str, Any]) -> str:
    """The same for a line of a story: of a text of many lines only how many there are."""
    if action["tool"] == "shell":
        return command_of(action)
    told = {
        name: f"({len(value.splitlines())} lines)"
        if isinstance(value, str) and len(value.splitlines()) > 1
        else value
        for name, value in action["arguments"].items()
    }
    return command_of({**action, "arguments": told})


def beginning(app: App, subjects: Sequence[str], *, works: bool = True) -> Sequence[Line]:
    """What to tell before anything has happened; `works` when tickets are worked on as well."""
    from operator_sre.app.models import thinking_model

    who = f"{socket.gethostname()}:{os.getpid()}"
    lines = []
    for name in subjects:
        pace = f"{app.config.interval_of(name):g} s"
        lines.append(Line("watch", f"{name} is looked at every {pace} by {who}"))
    if works:
        for name in subjects:
            mode = app.mode_of(name)
            lines.append(Line("decide", f"{name}: mode {mode}, {_MAY[mode]}"))
        lines.append(Line("think", f"tickets are worked on by {thinking_model(app.config)}"))
        if app.store.switch.state().on:
            off = "the kill switch is on, nothing is done until: operator kill-switch off"
            lines.append(Line("decide", off, "bad"))
    return lines


def first_look(app: App, subject: str, since: datetime) -> Line | None:
    """How a subject was found by the first look after `since`; None until there is one."""
    newest = app.store.observations.newest(subject, limit=1)
    if not newest or newest[0].at < since:
        return None
    conditions = app.store.conditions.of(subject)
    health = worst(one.health for one in conditions) if conditions else Health.UNKNOWN
    wrong = sum(one.health is not Health.HEALTHY for one in conditions)
    if health is Health.HEALTHY:
        return Line("watch", f"{subject} is healthy: every invariant holds", "good")
    return Line("watch", f"{subject} is {health}: {wrong} of {len(conditions)} do not hold", "bad")


def each_look(app: App, subject: str, since: datetime) -> tuple[datetime, Line] | None:
    """The newest look after `since`: when, and how it found a subject; None until there is one."""
    newest = app.store.observations.newest(subject, limit=1)
    if not newest or newest[0].at <= since:
        return None
    conditions = app.store.conditions.of(subject)
    if not conditions:
        return None  # what was seen is written before what it means
    broken = [one for one in conditions if one.health is Health.BROKEN]
    unknown = sum(one.health is Health.UNKNOWN for one in conditions)
    if not broken and not unknown:
        return newest[0].at, Line("watch", f"looked: all {len(conditions)} conditions hold", "good")
    named = [f"{one.invariant} at {one.target}" for one in broken[:NAMED_MAX]]
    if len(broken) > NAMED_MAX:
        named.append(f"{len(broken) - NAMED_MAX} more")
    told = [f"BROKEN {', '.join(named)}"] if named else []
    told += [f"{unknown} unknown"] if unknown else []
    return newest[0].at, Line("watch", f"looked: {'; '.join(told)}", "bad")
