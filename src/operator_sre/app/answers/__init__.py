"""The seven questions that programs ask, each answered from what is really known."""

from __future__ import annotations

from operator_sre.app.answers.denials import explain_denial
from operator_sre.app.answers.patching import recommend_patch
from operator_sre.app.answers.projects import validate_project
from operator_sre.app.answers.runs import (
    explain_failure,
    next_action,
    run_timeline,
    summarize_run,
)

__all__ = [
    "explain_denial",
    "explain_failure",
    "next_action",
    "recommend_patch",
    "run_timeline",
    "summarize_run",
    "validate_project",
]
