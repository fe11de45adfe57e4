"""Errors as people meet them: one sentence, the next step, the right exit code."""

from __future__ import annotations

import sys

import typer

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import OperatorError
from operator_sre.faces.cli.output import clean, print_json

__all__ = ["report", "reported"]


def reported() -> tuple[type[BaseException], ...]:
    """What `report` knows how to say. Everything: this is the boundary."""
    return (Exception, KeyboardInterrupt)


def report(error: BaseException, *, as_json: bool) -> int:
    """Say what went wrong, and return the exit code."""
    if isinstance(error, BrokenPipeError):
        return 1  # nobody read the answer, and 0 would be one: `gate check` says SAFE by it
    if isinstance(error, BaseExceptionGroup):
        return report(error.exceptions[0], as_json=as_json)
    code, category, message, next_step, action = _told(error)
    if message.startswith("Usage:") and not as_json:
        sys.stderr.write(f"{message}\n")  # a noun without a verb: its help is the answer
    elif as_json:
        told = {"category": category, "message": f"{message} {next_step}".strip()}
        print_json({"error": {**told, "next_action": action}})
    else:
        sys.stderr.write(clean(f"operator: {message} {next_step}".rstrip()) + "\n")
    return code


def _told(error: BaseException) -> tuple[int, str, str, str, str]:
    if isinstance(error, OperatorError):
        told = (error.category, error.message, error.next_step, error.next_action)
        return error.exit_code, *told
    if isinstance(error, typer.TyperException):
        from operator_sre.faces.cli.parsing import sentence_of

        sentence, next_step = sentence_of(error)
        usage = (ErrorCategory.POLICY_VALIDATION_FAILED, sentence)
        return 2, *usage, next_step, NextAction.FIX_CODE
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        stopped = (ErrorCategory.AGENT_RUNTIME_EXCEPTION, "Stopped.")
        return 130, *stopped, "", NextAction.RERUN
    message = f"Something unexpected happened: {type(error).__name__}: {error}."
    return (
        1,
        ErrorCategory.AGENT_RUNTIME_EXCEPTION,
        message,
        "Run it again with --debug to see where.",
        NextAction.ASK_USER,
    )
