"""The essence of a ticket for an engineer on call: diagnosis, action, evidence, findings. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from operator_protocols.domain.action import SHELL, Action
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, Violation
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_sre.app.story import brief_of as describe_action
from operator_sre.app.ticket_page import FoldedFindings, fold_findings, headline_of
from operator_sre.codec import from_json

__all__ = ["ProposedAction", "TicketBrief", "brief_ticket", "command_by_hand"]


@dataclass(frozen=True, slots=True)
class ProposedAction:
    """A change that an agent proposed: its verdict, its approval, and its result.

    `approval_id` names a request that is still pending. `expected` is what it will do, with every
    argument filled in. `by_hand` is the command line with which a person runs a change that the
    mode observe only proposed.
    """

    command: str
    level: str
    risk: str
    reversible: bool | None
    approval: str = ""
    approval_id: str = ""
    result: str = ""
    expected: str = ""
    by_hand: str = ""


@dataclass(frozen=True, slots=True)
class TicketBrief:
    """What a person needs first; `action` is the newest change that was proposed.

    `over` are the keys of the findings that held when the ticket was last checked.
    """

    headline: str
    diagnosis: Diagnosis | None
    action: ProposedAction | None
    findings: FoldedFindings[Violation]
    proof: str
    over: frozenset[str] = frozenset()

    def describe(self, finding: Violation) -> str:
        """A finding in one line, marked where it has ended."""
        ended = "over: " if finding.key in self.over else ""
        return f"{ended}{finding.target} {finding.invariant}: {finding.detail}"

    @property
    def recommendation(self) -> str:
        """What the diagnosis chose, where no change has been proposed yet."""
        if self.diagnosis is None or self.action is not None:
            return ""
        choice = self.diagnosis.choice
        # A sentence begins with a capital, a call such as `restart_node(node-1)` stays as it is.
        choice = choice.capitalize() if choice.isalpha() else choice
        return f"{choice}. {self.diagnosis.why}"

    def explain_state(self, reason: str) -> str:
        """The reason of the state of a ticket, without what the headline and the action say."""
        result = self.action.result.removeprefix("not run: ") if self.action else ""
        if result and result in reason:
            return ""
        if self.diagnosis is None:
            return reason
        rest = reason.removeprefix(self.diagnosis.summary).strip()
        return "" if self.recommendation.endswith(rest) else rest


def brief_ticket(ticket: Ticket, entries: Sequence[Entry]) -> TicketBrief:
    """The newest diagnosis, the newest proposed change with its approval, and the proof."""
    diagnosis: Diagnosis | None = None
    action: ProposedAction | None = None
    proof = ""
    proposal: object = None
    is_change = False  # whether the entries that follow are about a change, not about a SAFE check
    for entry in entries:
        payload = entry.payload
        if entry.kind is Kind.DIAGNOSIS:
            diagnosis = from_json(Diagnosis, payload)
        elif entry.kind is Kind.PROOF:
            proof = str(payload["detail"])
        elif entry.kind is Kind.VERDICT:
            is_change = payload["level"] != "safe"
            # An agent that resumes has its action judged again; the approval that it has, stays.
            is_same = action is not None and not action.result and payload["action"] == proposal
            if is_change and not is_same:
                proposal = payload["action"]
                action = ProposedAction(
                    command=describe_action(payload["action"]),
                    level=str(payload["level"]),
                    risk=str(payload["risk"]),
                    reversible=payload.get("reversible"),
                    expected=str(payload["action"].get("expected", "")),
                )
        elif entry.kind is Kind.REFUSED and payload.get("action", proposal) != proposal:
            pass  # refused before it was judged: it says nothing of the action before it
        elif is_change and action is not None:
            action = _follow_action(action, entry)
            if "Proposed only" in action.result:
                line = command_by_hand(from_json(Action, proposal), ticket.subject)
                action = replace(action, by_hand=line)
    return TicketBrief(
        headline_of(ticket, diagnosis),
        diagnosis,
        action,
        fold_findings(ticket.violations),
        proof,
        _find_over(ticket, entries),
    )


def _find_over(ticket: Ticket, entries: Sequence[Entry]) -> frozenset[str]:
    """The keys of the findings that no longer held true at the last check of the ticket."""
    keys = frozenset(violation.key for violation in ticket.violations)
    if ticket.state is TicketState.RESOLVED:
        return keys
    checked = next((each for each in reversed(entries) if each.kind is Kind.OBSERVED), None)
    if checked is None:
        return frozenset()
    check = from_json(CheckResult, checked.payload)
    return frozenset(key for key in keys if check.health_of([key]) is Health.HEALTHY)


def command_by_hand(action: Action, subject: str) -> str:
    """The command line with which a person runs an action of an agent, after approval."""
    words = ["operator", "exec" if action.tool == SHELL else "tools"]
    words += ["run", action.tool] if action.tool != SHELL else []
    words += ["--subject", subject, "--mode", "approve"]
    target = action.target or str(action.arguments.get("target", ""))
    words += ["--target", target] if target else []
    if action.tool == SHELL:
        return shlex.join([*words, "--", action.command])
    for name, value in sorted(action.arguments.items()):
        if name == "target":
            continue
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Mapping):
                words += [each for key in item for each in ("--arg", f"{name}={key}={item[key]}")]
            else:
                text = str(item).lower() if isinstance(item, bool) else str(item)
                words += ["--arg", f"{name}={text}"]
    return shlex.join(words)


def _follow_action(action: ProposedAction, entry: Entry) -> ProposedAction:
    """The action after one more entry about it."""
    payload = entry.payload
    match entry.kind:
        case Kind.APPROVAL_REQUESTED:
            pending = str(payload["approval"]["id"])
            return replace(action, approval="pending approval", approval_id=pending)
        case Kind.APPROVAL_DECIDED:
            reason = f": {payload['reason']}" if payload.get("reason") else ""
            if payload.get("answer", payload["state"]) != payload["state"]:
                text = f"pending a second approval; approved by {payload['decided_by']}{reason}"
                return replace(action, approval=text)
            by = f" by {payload['decided_by']}" if payload["decided_by"] else ""
            return replace(action, approval=f"{payload['state']}{by}{reason}", approval_id="")
        case Kind.PERMIT_MINTED if not action.approval:
            rule = payload.get("rule")
            by = f"standing rule {rule}" if rule else "the policy"
            return replace(action, approval=f"approved by {by}")
        case Kind.TOOL_RESULT:
            result = payload["result"]
            output = (result["stdout"] or result["stderr"]).strip().splitlines()
            last = f": {output[-1]}" if output else ""
            ran = result["outcome"] == "ran"
            end = f"exit {result['exit_code']}" if ran else str(result["outcome"])
            return replace(action, result=f"{end} after {result['duration_s']:.1f} s{last}")
        case Kind.REFUSED:
            return replace(action, result=f"not run: {payload['result']['stderr']}")
        case _:
            return action
