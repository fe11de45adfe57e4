"""A mind's answer as it is written down, and back, so that a run can be resumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from operator_protocols.domain.action import Action
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.run import Answer, Call, Diagnose, Escalate, Finish, Misuse, Spent
from operator_sre.codec import from_json, to_json

__all__ = ["Stopped", "answer_from", "answer_payload", "stopped_from", "stopped_payload"]

_CALLS: dict[str, type[Call]] = {
    "act": Action,
    "diagnose": Diagnose,
    "finish": Finish,
    "escalate": Escalate,
    "misuse": Misuse,
}
_NAMES = {kind: name for name, kind in _CALLS.items()}


@dataclass(frozen=True, slots=True)
class Stopped:
    """Instead of an answer: the mind cannot go on, and why. `spent` when its budget is."""

    reason: str
    category: ErrorCategory | None = None
    spent: bool = False


def stopped_payload(stopped: Stopped) -> dict[str, Any]:
    """The same as JSON, in the place of the answer that never came."""
    told = answer_payload(Answer(stopped.reason, ()))
    return {**told, "stopped": stopped.category.value if stopped.category else ""}


def stopped_from(payload: Mapping[str, Any]) -> Stopped | None:
    """What stopped a mind, or None where it answered."""
    if "stopped" not in payload:
        return None
    told = payload["stopped"]
    return Stopped(payload["reasoning"], ErrorCategory(told) if told else None)


def answer_payload(answer: Answer) -> dict[str, Any]:
    """The answer as JSON; each call says what it is."""
    calls = [{"call": _NAMES[type(call)], "with": to_json(call)} for call in answer.calls]
    told = {"reasoning": answer.reasoning, "calls": calls, "spent": to_json(answer.spent)}
    return told if not answer.by else {**told, "by": answer.by, "note": answer.note}


def answer_from(payload: Mapping[str, Any]) -> Answer:
    """The answer that was written down."""
    calls = tuple(from_json(_CALLS[one["call"]], one["with"]) for one in payload["calls"])
    spent = from_json(Spent, payload.get("spent", {}))
    by, note = payload.get("by", ""), payload.get("note", "")
    return Answer(payload["reasoning"], calls, spent, by, note)
