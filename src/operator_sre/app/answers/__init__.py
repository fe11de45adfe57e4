"""The seven questions that programs ask, each answered from what is really known."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from operator_sre.app.answers.denials import explain_denial, recommend_patch
    from operator_sre.app.answers.projects import validate_project
    from operator_sre.app.answers.runs import (
        document_in,
        explain_failure,
        next_action,
        run_timeline,
        summarize_run,
    )

__all__ = [
    "document_in",
    "explain_denial",
    "explain_failure",
    "next_action",
    "recommend_patch",
    "run_timeline",
    "summarize_run",
    "validate_project",
]

# Loaded lazily: one question does not wait for the imports of the others.
_ANSWERED_IN = {
    "document_in": "runs",
    "explain_denial": "denials",
    "explain_failure": "runs",
    "next_action": "runs",
    "recommend_patch": "denials",
    "run_timeline": "runs",
    "summarize_run": "runs",
    "validate_project": "projects",
}

if not TYPE_CHECKING:  # so that a name that there is not is found before anything runs

    def __getattr__(name: str) -> Any:
        """The function that answers a question, loaded when it is first asked for."""
        if name not in _ANSWERED_IN:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_ANSWERED_IN[name]}"), name)
