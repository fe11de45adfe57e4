"""What holds for every message, checked before it leaves the house."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from operator_protocols.domain.category import NextAction
from operator_protocols.errors import OperatorError
from operator_sre.contract.documents import as_document, inner_of
from operator_sre.contract.messages import (
    SCHEMA_VERSION,
    ConfirmationRequirement,
    ExplainPolicyDenialResponse,
    Message,
    RecommendPolicyPatchResponse,
    RunStatus,
    SummarizeRunResponse,
    ValidateAgentProjectResponse,
)

__all__ = ["broken", "check_document"]

# Messages inside other messages; the whole answers are checked anyway.
_PROMISING = frozenset({ConfirmationRequirement})
_WATCHED: dict[type[Message], tuple[str, ...]] = {}


def check_document(message: Message) -> dict[str, Any]:
    """Its document, once it was seen to be what the contract says."""
    document = as_document(message)
    if wrong := list(broken(message)):
        raise OperatorError(
            f"The answer does not keep the contract: {'; '.join(wrong)}.",
            next_step="This is a fault of Operator; please report it.",
        )
    return document


def broken(message: Message) -> Iterator[str]:
    """Every promise that a message, or one inside of it, does not keep."""
    if getattr(message, "schema_version", SCHEMA_VERSION) != SCHEMA_VERSION:
        yield f"schema_version is not {SCHEMA_VERSION}"
    match message:
        case ConfirmationRequirement() if bool(message.confirmation_id) != (
            message.requires_confirmation
        ):
            yield "confirmation_id is there exactly when a confirmation is required"
        case ValidateAgentProjectResponse() if message.ready == bool(message.issues):
            yield "a project is ready exactly when it has no issue"
        case SummarizeRunResponse() if (message.status is RunStatus.FAILED) != (
            message.error_category is not None
        ):
            yield "error_category is there exactly when the run failed"
        case ExplainPolicyDenialResponse() if not _reviews(message.next_action):
            yield "after a denial the policy is reviewed"
        case RecommendPolicyPatchResponse():
            if not message.confirmation.requires_confirmation:
                yield "a patch always requires confirmation"
            if not _reviews(message.next_action):
                yield "after a proposal the patch is reviewed"
        case _:
            pass
    for name in _promising_fields(type(message)):
        value = getattr(message, name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Message):
                yield from broken(part)


def _promising_fields(kind: type[Message]) -> tuple[str, ...]:
    """The fields in which a message may be that has promises to keep."""
    if kind not in _WATCHED:
        inner = inner_of(kind)
        _WATCHED[kind] = tuple(
            name for name, held in inner if held in _PROMISING or _promising_fields(held)
        )
    return _WATCHED[kind]


def _reviews(action: NextAction) -> bool:
    return action is NextAction.REVIEW_POLICY_PATCH
