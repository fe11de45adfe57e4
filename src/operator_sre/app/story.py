"""The ledger as sentences, for faces that tell it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.diagnosis import Hypothesis
from operator_protocols.domain.entry import Entry, Kind

__all__ = ["Line", "lines_of", "weighed"]

# How a mind that weighs hypotheses says so, before each question and after its answer.
_TABLE = re.compile(r"Hypotheses: (.*?%)\. (.+)", re.DOTALL)
_ROW = re.compile(r"(\S+) at (\S+) ([\d.]+)%")
# A row of the table that such a mind draws, with or without what it thought before.
_WEIGHED = re.compile(r"^ +(\S+) at (\S+) +(?:[\d.]+% +-> +)?([\d.]+)%$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of the story: which step of the journey speaks, and how it sounds."""

    step: str
    text: str
    tone: str = "plain"
    details: tuple[str, ...] = ()


def lines_of(entry: Entry) -> Iterable[Line]:
    """What an entry adds to the story; nothing when it is only book-keeping."""
    if tell_move := _TELL_MOVES.get(entry.kind):
        return tell_move(entry)
    tell = _TELL.get(entry.kind)
    return tell(entry.payload) if tell else ()


def weighed(entry: Entry) -> tuple[Hypothesis, ...]:
    """How probable a mind held each cause at this thought; empty where it weighed none."""
    if entry.kind is not Kind.REASONING:
        return ()
    text = str(entry.payload.get("reasoning", ""))
    rows = _WEIGHED.findall(text) if "Hypotheses" in text else ()
    return tuple(Hypothesis(cause, at, float(percent) / 100) for cause, at, percent in rows)


def _opened(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("file", f"ticket opened: {payload['summary']}", "bad")


def _grew(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("file", f"belongs to the same incident: {payload['summary']}", "bad")


def _claimed(payload: Mapping[str, Any]) -> Iterable[Line]:
    how = "goes on with it" if payload["resumed"] else "takes it"
    yield Line("think", f"the agent {how} (attempt {payload['attempts']})")


def _reasoning(payload: Mapping[str, Any]) -> Iterable[Line]:
    if by := payload.get("by"):
        mind = "the built-in reasoner" if by == "reasoner" else by
        yield Line("think", f"fell back to {mind}: {payload.get('note', '')}", "warn")
    table = _TABLE.fullmatch(payload["reasoning"])
    if table is None:
        yield Line("think", payload["reasoning"])
    else:
        rows = [_row(*one) for one in _ROW.findall(table[1])]
        yield Line("think", table[2], "plain", tuple(rows))


def _suspected(payload: Mapping[str, Any]) -> Iterable[Line]:
    """What tried to instruct the mind, and where: it was told as data, like all around it."""
    told = f"text in entry {payload['of']} tries to instruct; it is taken as data"
    details = [f"{one['where']}: {one['rule']}: {one['excerpt']!r}" for one in payload["places"]]
    yield Line("watch", told, "warn", tuple(details))


def _row(cause: str, target: str, percent: str) -> str:
    """One hypothesis as a row of a table: how likely, how long its bar, what it says."""
    bar = "#" * round(float(percent) / 10)
    return f"{float(percent):5.1f} %  {bar:10}  {cause} at {target}"


def _verdict(payload: Mapping[str, Any]) -> Iterable[Line]:
    tone = {"safe": "good", "review": "warn", "blocked": "bad"}[payload["level"]]
    level, risk = payload["level"].upper(), payload["risk"]
    yield Line("decide", f"{brief_of(payload['action'])}  {level}, risk {risk}", tone)


def _diagnosis(payload: Mapping[str, Any]) -> Iterable[Line]:
    details = [
        f"{'a mere claim' if item.get('seq') is None else 'evidence'}: {item['sentence']}"
        for item in payload["evidence"]
    ]
    details += [
        f"not {item['cause']} at {item['target']}: {item['why_rejected']}"
        for item in payload["alternatives"]
    ]
    details += [
        f"option: {item['action']} (risk {item['risk']}): {item['trade_off']}"
        for item in payload["options"]
    ]
    details.append(f"choice: {payload['choice']}. {payload['why']}")
    sure = f"{min(payload['confidence'], 0.999):.1%} sure"
    yield Line("think", f"diagnosis, {sure}: {payload['summary']}", "strong", tuple(details))


def _requested(payload: Mapping[str, Any]) -> Iterable[Line]:
    approval = payload["approval"]
    how = f"operator approvals approve {approval['id']}"
    yield Line("decide", f"a person has to answer: {how}", "warn")


def _louder(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("decide", f"escalated: {payload['reason']}", "warn")


def _decided(payload: Mapping[str, Any]) -> Iterable[Line]:
    reason = f": {payload['reason']}" if payload["reason"] else ""
    said = payload.get("answer", payload["state"])
    more = "; one more has to say so" if said != payload["state"] else ""
    yield Line("decide", f"{said} by {payload['decided_by']}{reason}{more}")


def _minted(payload: Mapping[str, Any]) -> Iterable[Line]:
    if payload.get("rule"):
        yield Line("decide", f"allowed by the standing rule {payload['rule']}")


def _outcome(payload: Mapping[str, Any]) -> Iterable[Line]:
    result = payload["result"]
    said = (result["stdout"] or result["stderr"]).strip().splitlines()
    last = said[-1][:120] if said else "(no output)"
    good = result["outcome"] == "ran" and result["exit_code"] == 0
    how = f"exit {result['exit_code']}" if result["outcome"] == "ran" else result["outcome"]
    yield Line("act", f"{how} in {result['duration_s']:.2f} s: {last}", "plain" if good else "warn")


def _refused(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("act", f"not run: {payload['result']['stderr']}", "warn")


def _proof(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("prove", payload["detail"], "good" if payload["held"] else "bad")


def _resolved(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("close", f"RESOLVED with a proof. {payload['reason']}", "good")


def _switched_on(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("decide", f"the kill switch was turned on{_because(payload)}", "bad")


def _switched_off(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("decide", f"the kill switch was turned off{_because(payload)}", "good")


def _held(payload: Mapping[str, Any]) -> Iterable[Line]:
    text = f"{payload['agent']} is in observe from here on, at {payload['score']}"
    yield Line("decide", f"{text}{_because(payload)}", "bad")


def _let_go(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("decide", f"the session of {payload['agent']} was reset{_because(payload)}")


def _mode(payload: Mapping[str, Any]) -> Iterable[Line]:
    mode = payload.get("mode", "what is configured")
    yield Line("decide", f"the mode of {payload['subject']} is {mode}{_because(payload)}")


def _counted_anew(payload: Mapping[str, Any]) -> Iterable[Line]:
    yield Line("decide", f"the limits of {payload['subject']} were reset{_because(payload)}")


def _workflow_requested(payload: Mapping[str, Any]) -> Iterable[Line]:
    record = payload["record"]
    workflow, due = record["workflow"], record["due_at"][:19].replace("T", " ")
    count = len(workflow["steps"])
    when = f", due at {due} UTC" if record["scheduled"] else ""
    steps = "one step" if count == 1 else f"{count} steps"
    yield Line("file", f"workflow {workflow['name']}: {steps}{when}")


def _workflow_claimed(payload: Mapping[str, Any]) -> Iterable[Line]:
    how = "runs it" if payload["epoch"] == 1 else "goes on with it"
    yield Line("act", f"{payload['worker']} {how}")


def _workflow_step(payload: Mapping[str, Any]) -> Iterable[Line]:
    note = payload["note"]
    attempt = f", attempt {note['attempt']}" if note["attempt"] > 1 else ""
    tone = {"completed": "good", "failed": "bad", "cancelled": "warn"}.get(note["state"], "plain")
    yield Line("act", f"step {note['step']}: {note['state']}{attempt}{_because(note)}", tone)


def _workflow_undo(payload: Mapping[str, Any]) -> Iterable[Line]:
    note = payload["note"]
    tone = {"completed": "good", "failed": "bad"}.get(note["state"], "plain")
    yield Line("act", f"taking back step {note['step']}: {note['state']}{_because(note)}", tone)


def _workflow_cancelled(payload: Mapping[str, Any]) -> Iterable[Line]:
    what = " and taken back" if payload["undo"] else ""
    yield Line("decide", f"the workflow is to be cancelled{what}{_because(payload)}", "warn")


def _workflow_ended(payload: Mapping[str, Any]) -> Iterable[Line]:
    tone = "good" if payload["state"] == "completed" else "bad"
    yield Line("close", f"the workflow is {payload['state']}{_because(payload)}", tone)


def _paused(entry: Entry) -> Iterable[Line]:
    until = entry.payload["until"]
    how = "put off" if entry.kind is Kind.TICKET_SNOOZED else "held"
    end = f" until {until[:16].replace('T', ' ')} UTC" if until else ""
    yield Line("people", f"{how}{end} by {entry.actor.id}{_because(entry.payload)}", "warn")


def _unheld(entry: Entry) -> Iterable[Line]:
    yield Line("people", f"let go by {entry.actor.id}{_because(entry.payload)}")


def _assigned(entry: Entry) -> Iterable[Line]:
    whose = f"given to {entry.payload['assignee']}" if entry.payload["assignee"] else "nobody's now"
    yield Line("people", f"{whose}, says {entry.actor.id}{_because(entry.payload)}")


def _commented(entry: Entry) -> Iterable[Line]:
    first, *more = str(entry.payload["text"]).splitlines() or [""]
    yield Line("people", f"{entry.actor.id} says: {first}", "plain", tuple(more))


def _closed(entry: Entry) -> Iterable[Line]:
    yield Line("close", f"CLOSED without a proof by {entry.actor.id}{_because(entry.payload)}")


def _reopened(entry: Entry) -> Iterable[Line]:
    by = f" by {entry.actor.id}" if entry.actor.type == "user" else ""
    yield Line("file", f"open again{by}{_because(entry.payload)}", "bad")


def _watched(entry: Entry) -> Iterable[Line]:
    yield Line("close", f"WATCHED. {entry.payload['reason']}", "warn")


def _escalated(entry: Entry) -> Iterable[Line]:
    by = f" by {entry.actor.id}" if entry.actor.type == "user" else ""
    yield Line("close", f"ESCALATED{by}. {entry.payload['reason']}", "bad")


def _handed_off(entry: Entry) -> Iterable[Line]:
    yield Line("close", f"HANDED OFF by {entry.actor.id}. {entry.payload['reason']}", "warn")


def _asked_for(entry: Entry) -> Iterable[Line]:
    asked = entry.payload["confirmation"]
    told = f"{entry.actor.id} asks for a change ({asked['boundary']}, risk {asked['risk']})"
    yield Line("people", f"{told}: {asked['rationale']}", "warn", (f"id {asked['id']}",))


def _answered(entry: Entry) -> Iterable[Line]:
    payload = entry.payload
    tone = "good" if payload["state"] == "approved" else "warn"
    told = f"the change is {payload['state']}, says {payload['decided_by']}{_because(payload)}"
    yield Line("people", told, tone)


def _settled(entry: Entry) -> Iterable[Line]:
    tone = "good" if entry.payload["applied"] else "bad"
    yield Line("people", f"the change is {entry.payload['outcome']}", tone)


def _policy_changed(entry: Entry) -> Iterable[Line]:
    payload = entry.payload
    lines = tuple(str(payload["patch"]).splitlines())
    yield Line("decide", f"{payload['file']} was changed by {entry.actor.id}", "warn", lines)


def _because(payload: Mapping[str, Any]) -> str:
    return f": {payload['reason']}" if payload["reason"] else ""


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


_TELL: dict[Kind, Callable[[Mapping[str, Any]], Iterable[Line]]] = {
    Kind.TICKET_OPENED: _opened,
    Kind.TICKET_GREW: _grew,
    Kind.TICKET_CLAIMED: _claimed,
    Kind.TICKET_RESOLVED: _resolved,
    Kind.REASONING: _reasoning,
    Kind.DIAGNOSIS: _diagnosis,
    Kind.SUSPICION: _suspected,
    Kind.VERDICT: _verdict,
    Kind.APPROVAL_REQUESTED: _requested,
    Kind.APPROVAL_ESCALATED: _louder,
    Kind.APPROVAL_DECIDED: _decided,
    Kind.PERMIT_MINTED: _minted,
    Kind.TOOL_RESULT: _outcome,
    Kind.REFUSED: _refused,
    Kind.PROOF: _proof,
    Kind.KILL_SWITCH_ON: _switched_on,
    Kind.KILL_SWITCH_OFF: _switched_off,
    Kind.SESSION_HELD: _held,
    Kind.SESSION_RESET: _let_go,
    Kind.MODE_SET: _mode,
    Kind.MODE_RESET: _mode,
    Kind.LIMITS_RESET: _counted_anew,
    Kind.WORKFLOW_REQUESTED: _workflow_requested,
    Kind.WORKFLOW_CLAIMED: _workflow_claimed,
    Kind.WORKFLOW_STEP: _workflow_step,
    Kind.WORKFLOW_UNDO: _workflow_undo,
    Kind.WORKFLOW_CANCELLED: _workflow_cancelled,
    Kind.WORKFLOW_ENDED: _workflow_ended,
}

# What people do is told with who did it.
_TELL_MOVES: dict[Kind, Callable[[Entry], Iterable[Line]]] = {
    Kind.TICKET_HELD: _paused,
    Kind.TICKET_SNOOZED: _paused,
    Kind.TICKET_UNHELD: _unheld,
    Kind.TICKET_ASSIGNED: _assigned,
    Kind.TICKET_COMMENTED: _commented,
    Kind.TICKET_CLOSED: _closed,
    Kind.TICKET_REOPENED: _reopened,
    Kind.TICKET_WATCHED: _watched,
    Kind.TICKET_ESCALATED: _escalated,
    Kind.TICKET_HANDED_OFF: _handed_off,
    Kind.CONFIRMATION_REQUESTED: _asked_for,
    Kind.CONFIRMATION_DECIDED: _answered,
    Kind.CONFIRMATION_SETTLED: _settled,
    Kind.POLICY_CHANGED: _policy_changed,
}
