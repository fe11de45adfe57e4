"""Parsing of the command line, and errors as one sentence, the next step and an exit code."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from typing import Any

import typer
from typer.core import TyperCommand

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.faces.cli.output import clean, print_json

__all__ = ["Verb", "errors_to_report", "moment", "refuse_empty", "report", "sentence_of"]

# Messages of the parser about a value, and ours.
_SAID = (
    (re.compile(r"(?P<given>.*) is not a valid int(?: range)?\."), "must be a whole number"),
    (re.compile(r"(?P<given>.*) is not a valid float(?: range)?\."), "must be a number"),
    (
        re.compile(r"(?P<given>.*) is not a time\."),
        "must be a time such as 2026-03-04 or 2026-03-04T12:00:00",
    ),
)
_RANGE = re.compile(
    r"(?P<given>\S+) is not in the range (?:(?P<least>[^<>\s]+)<=)?x"
    r"(?:>=(?P<above>\S+)|<=(?P<most>\S+))?\."
)


class Verb(TyperCommand):
    """A command that refuses empty options, such as `--subject "$UNSET"`.

    What an argument means when it is empty is the command's own business, unless it is a path:
    an empty one would be the current directory.
    """

    def get_short_help_str(self, limit: int = 0) -> str:
        """The whole first sentence: the list of commands wraps it, and never cuts it."""
        paragraph = " ".join((self.help or "").split("\n\n")[0].split())
        return f"{paragraph.partition('. ')[0].rstrip('.')}." if paragraph else ""

    # The context is of a private type of Typer's.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words, and refuse empty values."""
        typed, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        rest: list[str] = super().parse_args(ctx, args)
        for parameter in self.params:
            name = parameter.name or ""
            value = ctx.params.get(name)
            if parameter.param_type_name == "option" or parameter.type.name == "path":
                refuse_empty(_name_of(parameter), typed.get(name), help_of=ctx.command_path)
            if isinstance(value, float) and value != value:
                # It is neither below a limit nor above one, so that the parser lets it pass.
                raise typer.BadParameter("'nan' is not a valid float.", ctx=ctx, param=parameter)
        return rest


def moment(text: str) -> datetime:
    """A time as it is typed; one without a zone is for the caller to place."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time.") from None


def refuse_empty(name: str, value: object, *, help_of: str = "operator") -> None:
    """UsageError when a value was given and has nothing in it."""
    values = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(word, str) and not word.strip() for word in values):
        raise UsageError(
            f"{name} is empty.",
            next_step=f"Give it a value, or leave it out; see: {help_of} --help",
        )


def sentence_of(error: typer.TyperException) -> tuple[str, str]:
    """The mistake that the parser found, and the next step."""
    context, param = getattr(error, "ctx", None), getattr(error, "param", None)
    path = context.command_path if context is not None else "operator"
    message = error.format_message()
    if message.startswith("Usage:"):
        return message, ""
    if param is not None and message.startswith("Invalid value"):
        message = _invalid(_name_of(param), error)
    elif param is not None and message.startswith("Missing"):
        message = f"{_name_of(param)} is missing."
    end = "" if message.endswith("?") else "."
    return f"{message.rstrip('.')}{end}", f"See: {path} --help"


def _invalid(name: str, error: typer.TyperException) -> str:
    for pattern, sentence in _SAID:
        if found := pattern.fullmatch(error.message):
            return f"{name} {sentence}, not {found['given']}"
    if found := _RANGE.fullmatch(error.message):
        given = found["given"].removesuffix(".0")  # the parser has made a number of it already
        least, most = found["least"] or found["above"], found["most"]
        is_low = least and float(found["given"]) < float(least)
        limit = f"at least {least}" if is_low else f"at most {most}"
        return f"{name} must be {limit}, not {given!r}"
    return f"{name} is not accepted: {error.message}"


def _name_of(param: Any) -> str:
    """An option as it is typed, an argument as the help shows it."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name).upper()
    return str(max(param.opts, key=len))


def errors_to_report() -> tuple[type[BaseException], ...]:
    """The errors that `report` can print. All of them: this is the boundary."""
    return (Exception, KeyboardInterrupt)


def report(error: BaseException, *, as_json: bool, contract: str = "") -> int:
    """Say what went wrong, and return the exit code. `contract` is the version of the JSON."""
    if isinstance(error, BrokenPipeError):
        return 1  # the answer was not read, and exit 0 would mean SAFE for `gate check`
    if isinstance(error, BaseExceptionGroup):
        return report(error.exceptions[0], as_json=as_json, contract=contract)
    code, category, message, next_step, action = _explain(error)
    if message.startswith("Usage:") and not as_json:
        sys.stderr.write(f"{message}\n")  # a noun without a verb: its help is the answer
    elif as_json and contract.startswith("1.") and contract > SCHEMA_VERSION:
        from operator_sre.contract.editions import error_document

        words = f"{message} {next_step}".strip()
        control = error.control if isinstance(error, OperatorError) else None
        known = ErrorCategory(category), words, NextAction(action)
        print_json(error_document(*known, control=control))
    elif as_json:
        fields = {"category": category, "message": f"{message} {next_step}".strip()}
        print_json({"error": {**fields, "next_action": action}})
    else:
        sys.stderr.write(clean(f"operator: {message} {next_step}".rstrip()) + "\n")
    return code


def _explain(error: BaseException) -> tuple[int, str, str, str, str]:
    if isinstance(error, OperatorError):
        fields = (error.category, error.message, error.next_step, error.next_action)
        return error.exit_code, *fields
    if isinstance(error, typer.TyperException):
        sentence, next_step = sentence_of(error)
        usage = (ErrorCategory.POLICY_VALIDATION_FAILED, sentence)
        return 2, *usage, next_step, NextAction.FIX_CODE
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        stopped = (ErrorCategory.AGENT_RUNTIME_EXCEPTION, "Stopped.")
        return 130, *stopped, "", NextAction.RERUN
    message = f"Unexpected error: {type(error).__name__}: {error}."
    return (
        1,
        ErrorCategory.AGENT_RUNTIME_EXCEPTION,
        message,
        "Run it again with --debug to see the traceback.",
        NextAction.ASK_USER,
    )
