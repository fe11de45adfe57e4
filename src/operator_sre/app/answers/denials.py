"""Why something was denied, and which change of the policy would allow it.

The answer is from the record of a denial, or from the policy that would judge it now. A change is
proposed here, never applied.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.verdict import Level, Mode
from operator_protocols.errors import NotFoundError, UsageError
from operator_sre.app.answers.runs import entries_of
from operator_sre.app.answers.texts import (
    blocking_rule,
    build_redactor,
    collapse_marks,
    without_secrets,
)
from operator_sre.app.story import command_of
from operator_sre.codec import to_json
from operator_sre.contract import evidence
from operator_sre.contract.accounts import Denial, denials_of
from operator_sre.contract.evidence import risk_level
from operator_sre.contract.messages import (
    EvidenceRef,
    ExplainPolicyDenialRequest,
    ExplainPolicyDenialResponse,
    RecommendPolicyPatchRequest,
    RecommendPolicyPatchResponse,
)

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Actor
    from operator_sre.app.wiring import App

__all__ = ["NotDeniedError", "explain_denial", "recommend_patch"]

ACTION_CHARACTERS_MAX = 10_000
SHOWN_MAX = 10
REQUEST_CHARACTERS_MAX = 2000


class NotDeniedError(UsageError):
    """The action was not denied, and would not be."""

    exit_code = 1
    next_action = NextAction.RERUN


def explain_denial(app: App, request: ExplainPolicyDenialRequest) -> ExplainPolicyDenialResponse:
    """The rule that denied an action, or would deny it now. NotDeniedError if none does."""
    wanted = " ".join(request.action.split())
    if not request.run_id and not wanted:
        raise UsageError(
            "Name a run, an action, or both.",
            next_step="Try: operator explain-denial --action 'rm -rf /'",
        )
    if len(request.action) > ACTION_CHARACTERS_MAX:
        raise UsageError(f"The action is longer than {ACTION_CHARACTERS_MAX} characters.")
    denials: list[Denial] = []
    if request.run_id:
        entries = entries_of(app, request.run_id)
        if not entries:
            raise NotFoundError(
                f"There is no run {request.run_id[:200]!r}.",
                next_step="See them with: operator audit list",
            )
        denials = denials_of(entries)
        if wanted:  # people call an action by its command line, or by the name of its tool
            names = [
                {
                    command_of(denial.action),
                    str(denial.action.get("tool", "")),
                    str((denial.action.get("arguments") or {}).get("command") or ""),
                }
                for denial in denials
            ]
            denials = [
                denial
                for denial, known in zip(denials, names, strict=True)
                if any(wanted == " ".join(name.split()) for name in known)
            ]
    if not denials:
        if wanted:
            return _ask_policy(app, request)
        raise NotDeniedError(
            f"Nothing was denied in run {request.run_id!r}.",
            next_step=f"See: operator summarize {request.run_id}",
        )
    denial = denials[-1]
    place, says = blocking_rule(app.rules(), denial.verdict)
    refs: list[EvidenceRef] = [evidence.of_entry(denial.entry, "denial")]
    refs += [evidence.of_entry(denial.judged, "verdict")] if denial.judged else []
    refs += [evidence.of_rule(place, says), evidence.of_run(request.run_id)]
    earlier = denials[-1 - SHOWN_MAX : -1]
    refs += [evidence.of_entry(denied.entry, "another denial") for denied in reversed(earlier)]
    answer = ExplainPolicyDenialResponse(
        run_id=request.run_id,
        denied_action=command_of(denial.action),
        blocking_rule_id=place,
        policy_digest=str(denial.verdict.get("policy_digest", "")),
        rationale=f"{denial.why} The rule: {says}",
        evidence_refs=tuple(refs),
        next_action=NextAction.REVIEW_POLICY_PATCH,
    )
    return without_secrets(answer, collapse_marks)


def _ask_policy(app: App, request: ExplainPolicyDenialRequest) -> ExplainPolicyDenialResponse:
    """Judge an action without a recorded denial by the policy in force."""
    from operator_sre.controls import MACHINE
    from operator_sre.gate import Policy, judge
    from operator_sre.gate.policy.rule import Decision

    action, redact = request.action.strip(), build_redactor(app.config)
    policy = Policy(book=app.rules(), mode=app.mode_of(MACHINE))
    # Without a run the requester is a person, and people may connect to more hosts than agents.
    verdict = judge(Action.shell(action), policy, person=not request.run_id)
    if verdict.level is Level.BLOCKED:
        why = "The command is blocked in every mode."
    elif verdict.level is not Level.SAFE and policy.mode is Mode.OBSERVE:
        why = "The mode is observe: Operator proposes the command and does not run it."
    elif verdict.level is not Level.SAFE and policy.decision(verdict.risk) is Decision.DENY:
        why = f"The policy denies commands of risk {verdict.risk}."
    else:
        runs = policy.runs_by_itself(verdict)
        how = "it runs without approval" if runs else "it requires approval"
        raise NotDeniedError(redact(f"{action!r} is not denied: {how}. {verdict.explanation}"))
    place, says = blocking_rule(policy.book, to_json(verdict))
    again = f"operator gate check {shlex.quote(action)}"
    answer = ExplainPolicyDenialResponse(
        run_id=request.run_id,
        denied_action=action,
        blocking_rule_id=place,
        policy_digest=verdict.policy_digest,
        rationale=f"{why} The rule: {says}",
        evidence_refs=(
            evidence.of_rule(place, says),
            evidence.of_command(redact(again), "judge it again"),
        ),
        next_action=NextAction.REVIEW_POLICY_PATCH,
    )
    return without_secrets(answer, redact)


async def recommend_patch(
    app: App, request: RecommendPolicyPatchRequest, *, by: Actor | None = None
) -> RecommendPolicyPatchResponse:
    """A patch of policy.yaml with its risk, and the confirmation that it takes to apply it."""
    from operator_sre.app.confirmations import requirement
    from operator_sre.app.patches import propose

    text = request.request.strip()
    if not text:
        raise UsageError(
            "The request is empty.", next_step="Try: operator recommend-patch 'allow host NAME'"
        )
    if len(text) > REQUEST_CHARACTERS_MAX:
        raise UsageError(f"The request is longer than {REQUEST_CHARACTERS_MAX} characters.")
    if build_redactor(app.config)(text) != text:
        # Many people read a policy and its patches.
        refusal = UsageError(
            "The request contains a secret, so nothing is proposed.",
            next_step="Store it with operator secrets set NAME, and use its name instead.",
        )
        refusal.category = ErrorCategory.SECRET_SCAN_FAILED
        raise refusal
    proposal = await propose(app, text, risk=request.risk_level or "", by=by)
    confirmation = requirement(proposal.confirmation)
    return RecommendPolicyPatchResponse(
        proposed_patch=proposal.patch,
        risk_level=risk_level(proposal.risk),
        rationale=proposal.rationale,
        affected_destinations=tuple(proposal.destinations),
        credential_ids=tuple(proposal.credentials),
        evidence_refs=confirmation.evidence_refs,
        confirmation=confirmation,
        next_action=NextAction.REVIEW_POLICY_PATCH,
    )
