"""The ledger as sentences: the first lines of a story, and the lines that each entry adds."""

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

__all__ = [
    "Line",
    "beginning",
    "each_look",
    "first_look",
    "hypotheses_of",
    "lines_of",
    "summarize_entry",
]

NAMED_MAX = 3
# How much of an entry without a sentence of its own is shown.
FACT_MAX, FACTS_MAX = 60, 6

_MAY = {
    Mode.OBSERVE: "proposes changes and executes none",
    Mode.APPROVE: "requires approval for every change",
    Mode.EXECUTE: "executes what the policy allows",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of the story, the step it belongs to, and its tone."""

    step: str
    text: str
    tone: str = "plain"
    details: tuple[str, ...] = ()


def lines_of(entry: Entry) -> Iterable[Line]:
    """The sentences that an entry adds to the story; none for bookkeeping."""
    return (*_tell_work(entry), *_tell_control(entry), *_tell_people(entry))


def hypotheses_of(entry: Entry) -> tuple[RankedHypothesis, ...]:
    """The hypotheses that were weighed at this turn; none where the entry is no turn."""
    rows = entry.payload.get("hypotheses", ()) if entry.kind is Kind.REASONING else ()
    return tuple(from_json(RankedHypothesis, row) for row in rows)


def _tell_work(entry: Entry) -> Iterator[Line]:
    """Work on a ticket: reasoning, commands and proofs."""
    payload = entry.payload
    match entry.kind:
        case Kind.TICKET_OPENED:
            yield Line("file", f"ticket opened: {payload['summary']}", "bad")
        case Kind.TICKET_GREW:
            yield Line("file", f"added to the ticket: {payload['summary']}", "bad")
        case Kind.TICKET_CLAIMED:
            how = "resumed" if payload["resumed"] else "started"
            yield Line("think", f"work {how} by an agent (attempt {payload['attempts']})")
        case Kind.TICKET_RESOLVED:
            yield Line("close", f"RESOLVED with proof. {payload['reason']}", "good")
        case Kind.REASONING:
            if by := payload.get("by"):
                mind = "the built-in reasoner" if by == "reasoner" else by
                yield Line("think", f"fell back to {mind}: {payload.get('note', '')}", "warn")
            details = []
            for hypothesis in hypotheses_of(entry):
                bar = "#" * round(hypothesis.probability * 10)
                was = f", was {hypothesis.before:.1%}" if hypothesis.before is not None else ""
                cause = f"{hypothesis.cause} at {hypothesis.target}{was}"
                details.append(f"{hypothesis.probability:6.1%}  {bar:10}  {cause}")
            yield Line("think", payload["reasoning"], "plain", tuple(details))
        case Kind.DIAGNOSIS:
            details = [
                f"{'unproven claim' if fact.get('seq') is None else 'evidence'}: {fact['sentence']}"
                for fact in payload["evidence"]
            ]
            details += [
                f"ruled out: {other['cause']} at {other['target']}: {other['why_rejected']}"
                for other in payload["alternatives"]
            ]
            details += [
                f"option: {option['action']} (risk {option['risk']}): {option['trade_off']}"
                for option in payload["options"]
            ]
            details.append(f"choice: {payload['choice']}. {payload['why']}")
            text = f"diagnosis, {min(payload['confidence'], 0.999):.1%} sure: {payload['summary']}"
            yield Line("think", text, "strong", tuple(details))
        case Kind.SUSPICION:  # the model gets such a text as data, marked as such
            text = f"entry {payload['of']} contains instructions; they are treated as data"
            places = [
                f"{place['where']}: {place['rule']}: {place['excerpt']!r}"
                for place in payload["places"]
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
    """Verdicts, approvals and limits; and workflows."""
    payload, because = entry.payload, _because(entry.payload)
    match entry.kind:
        case Kind.VERDICT:
            tone = {"safe": "good", "review": "warn", "blocked": "bad"}[payload["level"]]
            level, risk = payload["level"].upper(), payload["risk"]
            yield Line("decide", f"{brief_of(payload['action'])}  {level}, risk {risk}", tone)
        case Kind.APPROVAL_REQUESTED:
            how = f"operator approvals approve {payload['approval']['id']}"
            yield Line("decide", f"approval required: {how}", "warn")
        case Kind.APPROVAL_ESCALATED:
            yield Line("decide", f"escalated: {payload['reason']}", "warn")
        case Kind.APPROVAL_DECIDED:
            answer = payload.get("answer", payload["state"])
            more = "; a second approval is required" if answer != payload["state"] else ""
            yield Line("decide", f"{answer} by {payload['decided_by']}{because}{more}")
        case Kind.PERMIT_MINTED if payload.get("rule"):
            yield Line("decide", f"allowed by the standing rule {payload['rule']}")
        case Kind.KILL_SWITCH_ON:
            yield Line("decide", f"the kill switch was turned on{because}", "bad")
        case Kind.KILL_SWITCH_OFF:
            yield Line("decide", f"the kill switch was turned off{because}", "good")
        case Kind.SESSION_HELD:
            text = f"{payload['agent']} was switched to observe at risk {payload['score']}"
            yield Line("decide", f"{text}{because}", "bad")
        case Kind.SESSION_RESET:
            yield Line("decide", f"the session of {payload['agent']} was reset{because}")
        case Kind.MODE_SET | Kind.MODE_RESET:
            mode = payload.get("mode", "the configured one")
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
            how = "started" if payload["epoch"] == 1 else "resumed"
            yield Line("act", f"{payload['worker']} {how} the workflow")
        case Kind.WORKFLOW_STEP:
            note = payload["note"]
            attempt = f", attempt {note['attempt']}" if note["attempt"] > 1 else ""
            tones = {"completed": "good", "failed": "bad", "cancelled": "warn"}
            text = f"step {note['step']}: {note['state']}{attempt}{_because(note)}"
            yield Line("act", text, tones.get(note["state"], "plain"))
        case Kind.WORKFLOW_UNDO:
            note = payload["note"]
            text = f"rollback of step {note['step']}: {note['state']}{_because(note)}"
            tone = {"completed": "good", "failed": "bad"}.get(note["state"], "plain")
            yield Line("act", text, tone)
        case Kind.WORKFLOW_CANCELLED:
            how = " and rolled back" if payload["undo"] else ""
            yield Line("decide", f"cancellation of the workflow requested{how}{because}", "warn")
        case Kind.WORKFLOW_ENDED:
            tone = "good" if payload["state"] == "completed" else "bad"
            yield Line("close", f"the workflow is {payload['state']}{because}", tone)


def _tell_people(entry: Entry) -> Iterator[Line]:
    """What people did, with their names."""
    payload, because, who = entry.payload, _because(entry.payload), entry.actor.id
    by = f" by {who}" if entry.actor.type == "user" else ""
    match entry.kind:
        case Kind.TICKET_HELD | Kind.TICKET_SNOOZED:
            until = payload["until"]
            how = "snoozed" if entry.kind is Kind.TICKET_SNOOZED else "held"
            end = f" until {until[:16].replace('T', ' ')} UTC" if until else ""
            yield Line("people", f"{how}{end} by {who}{because}", "warn")
        case Kind.TICKET_UNHELD:
            yield Line("people", f"released by {who}{because}")
        case Kind.TICKET_ASSIGNED:
            change = f"assigned to {payload['assignee']}" if payload["assignee"] else "unassigned"
            yield Line("people", f"{change} by {who}{because}")
        case Kind.TICKET_COMMENTED:
            first, *more = str(payload["text"]).splitlines() or [""]
            yield Line("people", f"{who} commented: {first}", "plain", tuple(more))
        case Kind.TICKET_CLOSED:
            yield Line("close", f"CLOSED without proof by {who}{because}")
        case Kind.TICKET_REOPENED:
            yield Line("file", f"reopened{by}{because}", "bad")
        case Kind.TICKET_WATCHED:
            yield Line("close", f"WATCHED. {payload['reason']}", "warn")
        case Kind.TICKET_ESCALATED:
            yield Line("close", f"ESCALATED{by}. {payload['reason']}", "bad")
        case Kind.TICKET_HANDED_OFF:
            yield Line("close", f"HANDED OFF by {who}. {payload['reason']}", "warn")
        case Kind.CONFIRMATION_REQUESTED:
            change = payload["confirmation"]
            details = f"({change['boundary']}, risk {change['risk']}): {change['rationale']}"
            text = f"{who} requested a change {details}"
            yield Line("people", text, "warn", (f"id {change['id']}",))
        case Kind.CONFIRMATION_DECIDED:
            text = f"the change was {payload['state']} by {payload['decided_by']}{because}"
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
    """An action as a command line, or as a call of a tool."""
    if action["tool"] == "shell":
        arguments = action["arguments"]
        return shlex.join(map(str, arguments.get("argv") or ())) or str(arguments.get("command"))
    inside = ", ".join(f"{name}={value}" for name, value in sorted(action["arguments"].items()))
    return f"{action['tool']}({inside})"


def brief_of(action: Mapping[str, Any]) -> str:
    """The same in one line: an argument of many lines is replaced by their number."""
    if action["tool"] == "shell":
        return command_of(action)
    arguments = {
        name: f"({len(value.splitlines())} lines)"
        if isinstance(value, str) and len(value.splitlines()) > 1
        else value
        for name, value in action["arguments"].items()
    }
    return command_of({**action, "arguments": arguments})


def beginning(app: App, subjects: Sequence[str], *, works: bool = True) -> Sequence[Line]:
    """The first lines of a story; `works` when this process also works on tickets."""
    from operator_sre.app.models import thinking_model

    who = f"{socket.gethostname()}:{os.getpid()}"
    lines = []
    for name in subjects:
        pace = f"{app.config.interval_of(name):g} s"
        lines.append(Line("watch", f"{name} is checked every {pace} by {who}"))
    if works:
        for name in subjects:
            mode = app.mode_of(name)
            lines.append(Line("decide", f"{name}: mode {mode}, {_MAY[mode]}"))
        lines.append(Line("think", f"tickets are worked on by {thinking_model(app.config)}"))
        if app.store.switch.state().on:
            off = "the kill switch is on; to resume: operator kill-switch off"
            lines.append(Line("decide", off, "bad"))
    return lines


def first_look(app: App, subject: str, since: datetime) -> Line | None:
    """The health of a subject at its first check after `since`; None until there is one."""
    newest = app.store.observations.newest(subject, limit=1)
    if not newest or newest[0].at < since:
        return None
    conditions = app.store.conditions.of(subject)
    health = worst(condition.health for condition in conditions) if conditions else Health.UNKNOWN
    wrong = sum(condition.health is not Health.HEALTHY for condition in conditions)
    if health is Health.HEALTHY:
        return Line("watch", f"{subject} is healthy: every invariant holds", "good")
    return Line(
        "watch",
        f"{subject} is {health}: {wrong} of {len(conditions)} invariants do not hold",
        "bad",
    )


def each_look(app: App, subject: str, since: datetime) -> tuple[datetime, Line] | None:
    """The newest check after `since`: its time and its result; None until there is one."""
    newest = app.store.observations.newest(subject, limit=1)
    if not newest or newest[0].at <= since:
        return None
    conditions = app.store.conditions.of(subject)
    if not conditions:
        return None  # the observation is stored before its findings
    broken = [condition for condition in conditions if condition.health is Health.BROKEN]
    unknown = sum(condition.health is Health.UNKNOWN for condition in conditions)
    if not broken and not unknown:
        return newest[0].at, Line(
            "watch", f"checked: all {len(conditions)} invariants hold", "good"
        )
    named = [f"{condition.invariant} at {condition.target}" for condition in broken[:NAMED_MAX]]
    if len(broken) > NAMED_MAX:
        named.append(f"{len(broken) - NAMED_MAX} more")
    found = [f"BROKEN {', '.join(named)}"] if named else []
    found += [f"{unknown} unknown"] if unknown else []
    return newest[0].at, Line("watch", f"checked: {'; '.join(found)}", "bad")


def summarize_entry(entry: Entry) -> str:
    """What an entry holds, in few words: its command, its text, or its short facts."""
    held = entry.payload
    action = held.get("action")
    if isinstance(action, Mapping) and {"tool", "arguments"} <= action.keys():
        return brief_of(action)
    if isinstance(held.get("text"), str):
        return str(held["text"])
    if isinstance(held.get("findings"), list | tuple):
        broken = sum(finding.get("health") == "broken" for finding in held["findings"])
        return f"check: {broken} of {len(held['findings'])} findings broken"
    return ", ".join([*_facts(held)][:FACTS_MAX])


def _facts(held: Mapping[str, Any], deep: int = 3) -> Iterator[str]:
    """The short values of a document, down to so deep; no moments, and nothing empty."""
    for name, value in held.items():
        if isinstance(value, Mapping) and deep:
            yield from _facts(value, deep - 1)
        text = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
        if not isinstance(text, str | int) or not text or name.endswith("_at"):
            continue
        if len(str(text)) <= FACT_MAX:
            yield name if text is True else f"{name}: {text}"
