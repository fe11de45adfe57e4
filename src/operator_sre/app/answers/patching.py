"""Which change of the policy would allow something. It is proposed here, never applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import UsageError
from operator_sre.contract.categories import risk_level
from operator_sre.contract.messages import (
    RecommendPolicyPatchRequest,
    RecommendPolicyPatchResponse,
)

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Actor
    from operator_sre.app.wiring import App

__all__ = ["recommend_patch"]

REQUEST_CHARACTERS_MAX = 2000


async def recommend_patch(
    app: App, request: RecommendPolicyPatchRequest, *, by: Actor | None = None
) -> RecommendPolicyPatchResponse:
    """A patch of policy.yaml with its risk, and the confirmation that it takes to apply it."""
    from operator_sre.app.confirmations import requirement
    from operator_sre.app.patches import propose

    text = request.request.strip()
    if not text:
        raise UsageError(
            "There is no request.", next_step="Try: operator recommend-patch 'allow host NAME'"
        )
    if len(text) > REQUEST_CHARACTERS_MAX:
        raise UsageError(f"The request is longer than {REQUEST_CHARACTERS_MAX} characters.")
    _refuse_secret(app, text)
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


def _refuse_secret(app: App, text: str) -> None:
    """A policy is read by many, and so is what is proposed for it."""
    from operator_sre.app.answers.wording import redacting

    if redacting(app.config)(text) != text:
        refused = UsageError(
            "The request holds a secret, so that nothing is proposed.",
            next_step="Keep it with operator secrets set NAME, and name it instead.",
        )
        refused.category = ErrorCategory.SECRET_SCAN_FAILED
        raise refused
