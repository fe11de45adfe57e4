"""Why something was denied: from the record of it, or from the policy that would judge it now."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import NextAction
from operator_protocols.domain.verdict import Level, Mode, Verdict
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.answers.rules import blocking_rule
from operator_sre.app.answers.runs import entries_of
from operator_sre.app.answers.wording import collapsed, redacting, without_secrets
from operator_sre.app.story import command_of
from operator_sre.codec import to_json
from operator_sre.contract import evidence
from operator_sre.contract.facts import Denial, denials_of
from operator_sre.contract.messages import (
    EvidenceRef,
    ExplainPolicyDenialRequest,
    ExplainPolicyDenialResponse,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App
    from operator_sre.gate import Policy

__all__ = ["NotDeniedError", "explain_denial"]

ACTION_CHARACTERS_MAX = 10_000
SHOWN_MAX = 10


class NotDeniedError(UsageError):
    """What is asked about was not denied, and would not be."""

    exit_code = 1
    next_action = NextAction.RERUN


def explain_denial(app: App, request: ExplainPolicyDenialRequest) -> ExplainPolicyDenialResponse:
    """The rule that stood in the way of an action, or would now; NotDeniedError if none does."""
    if not request.run_id and not request.action.strip():
        raise UsageError(
            "Name a run, an action, or both.",
            next_step="Try: operator explain-denial --action 'rm -rf /'",
        )
    if len(request.action) > ACTION_CHARACTERS_MAX:
        raise UsageError(f"The action is longer than {ACTION_CHARACTERS_MAX} characters.")
    recorded = _recorded(app, request) if request.run_id else []
    if recorded:
        return without_secrets(_from_record(app, request.run_id, recorded), collapsed)
    if not request.action.strip():
        raise NotDeniedError(
            f"Nothing was denied in run {request.run_id!r}.",
            next_step=f"See: operator summarize {request.run_id}",
        )
    return _from_policy(app, request)


def _recorded(app: App, request: ExplainPolicyDenialRequest) -> list[Denial]:
    """The denials of a run that are about this action, or all of them."""
    entries = entries_of(app, request.run_id)
    if not entries:
        raise NotFoundError(
            f"There is no run {request.run_id[:200]!r}.",
            next_step="See them with: operator audit list",
        )
    denials = denials_of(entries)
    wanted = " ".join(request.action.split())
    if not wanted:
        return denials
    return [one for one in denials if wanted in _names_of(one)]


def _names_of(denial: Denial) -> set[str]:
    """What a person may call the action: its command line, or the name of its tool."""
    action = denial.action
    told = {command_of(action), str(action.get("tool", ""))}
    command = (action.get("arguments") or {}).get("command")
    return {" ".join(one.split()) for one in told | ({command} if command else set())}


def _from_record(app: App, run: str, denials: list[Denial]) -> ExplainPolicyDenialResponse:
    denial = denials[-1]
    place, says = blocking_rule(app.rules(), denial.verdict)
    refs: list[EvidenceRef] = [evidence.of_entry(denial.entry, "the denial")]
    refs += [evidence.of_entry(denial.judged, "the verdict")] if denial.judged else []
    refs += [evidence.of_rule(place, says), evidence.of_run(run)]
    earlier = denials[-1 - SHOWN_MAX : -1]
    refs += [evidence.of_entry(one.entry, "another denial") for one in reversed(earlier)]
    return ExplainPolicyDenialResponse(
        run_id=run,
        denied_action=command_of(denial.action),
        blocking_rule_id=place,
        policy_digest=str(denial.verdict.get("policy_digest", "")),
        rationale=f"{denial.why} The rule: {says}",
        evidence_refs=tuple(refs),
        next_action=NextAction.REVIEW_POLICY_PATCH,
    )


def _from_policy(app: App, request: ExplainPolicyDenialRequest) -> ExplainPolicyDenialResponse:
    """Nothing is recorded of it, so the policy in force is asked."""
    from operator_sre.app.hands import MACHINE
    from operator_sre.gate import judge

    action = request.action.strip()
    policy = replace(_policy(app), mode=app.mode_of(MACHINE))
    # Without a run it is whoever asks that would do it, and people reach more hosts than agents.
    verdict = judge(Action.shell(action), policy, person=not request.run_id)
    why = _why_denied(verdict, policy)
    redact = redacting(app.config)
    if not why:
        raise NotDeniedError(redact(_allowed(action, verdict, policy)))
    recorded: dict[str, Any] = to_json(verdict)
    place, says = blocking_rule(policy.book, recorded)
    again = f"operator gate check {shlex.quote(action)}"
    found = ExplainPolicyDenialResponse(
        run_id=request.run_id,
        denied_action=action,
        blocking_rule_id=place,
        policy_digest=verdict.policy_digest,
        rationale=f"{why} The rule: {says}",
        evidence_refs=(
            evidence.of_rule(place, says),
            evidence.of_command(redact(again), "the policy is asked again"),
        ),
        next_action=NextAction.REVIEW_POLICY_PATCH,
    )
    return without_secrets(found, redact)


def _policy(app: App) -> Policy:
    from operator_sre.gate import Policy

    return Policy(book=app.rules())


def _why_denied(verdict: Verdict, policy: Policy) -> str:
    """Why it would not run; empty when it runs, or when a person is asked."""
    from operator_sre.gate.policy.rule import Decision

    if verdict.level is Level.BLOCKED:
        return "It never runs."
    if verdict.level is Level.SAFE:
        return ""
    if policy.mode is Mode.OBSERVE:
        return "It is only proposed: the mode is observe."
    if policy.decision(verdict.risk) is Decision.DENY:
        return f"Nothing runs here whose risk is {verdict.risk}."
    return ""


def _allowed(action: str, verdict: Verdict, policy: Policy) -> str:
    runs = policy.runs_by_itself(verdict)
    how = "it runs by itself" if runs else "a person is asked before it runs"
    return f"{action!r} is not denied: {how}. {verdict.explanation}"
