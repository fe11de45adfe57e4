"""What a line means: values that are empty are refused, and what is wrong is said in a sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from operator_protocols.errors import UsageError

__all__ = ["Verb", "refuse_empty", "sentence_of"]

# What the parser says, and how people say it.
_SAID = (
    (re.compile(r"valid integer"), "has to be a whole number"),
    (re.compile(r"valid (number|float)"), "has to be a number"),
    (re.compile(r"greater than or equal to (\S+)|x>=(\S+)"), "has to be at least {}"),
    (re.compile(r"less than or equal to (\S+)|x<=(\S+)"), "has to be at most {}"),
    (
        re.compile(r"valid date|match the formats"),
        "has to be a time, as 2026-03-04 or 2026-03-04T12:00:00",
    ),
)


class Verb(TyperCommand):
    """A command without empty options: what was meant by `--subject "$UNSET"` nobody knows.

    What an argument means when it is empty is the command's own business, unless it is a path:
    an empty one would be the current directory.
    """

    # The context is of a private type of Typer's.
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words, and refuse those that are there and empty."""
        typed, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        rest: list[str] = super().parse_args(ctx, args)
        for one in self.params:
            name = one.name or ""
            if one.param_type_name == "option" or isinstance(ctx.params.get(name), Path):
                refuse_empty(_name_of(one), typed.get(name), help_of=ctx.command_path)
        return rest


def refuse_empty(name: str, value: object, *, help_of: str = "operator") -> None:
    """UsageError when a value was given and has nothing in it."""
    values = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(one, str) and not one.strip() for one in values):
        raise UsageError(
            f"{name} is empty.",
            next_step=f"Give it a value, or leave it away; see: {help_of} --help",
        )


def sentence_of(error: typer.TyperException) -> tuple[str, str]:
    """What the parser did not understand, and the next step."""
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
    given = _given(error)
    shown = f"{name} is {given!r}, and" if given is not None else f"{name}"
    for pattern, said in _SAID:
        if found := pattern.search(error.message):
            limit = next((one for one in found.groups() if one), "")
            return f"{shown} {said.format(limit)}"
    return f"{shown} is not accepted: {error.message}"


def _given(error: typer.TyperException) -> object:
    """The value as it was typed, where the parser tells."""
    errors = getattr(error.__cause__, "errors", None)
    told = errors() if callable(errors) else ()
    return told[0].get("input") if told else None


def _name_of(param: Any) -> str:
    """An option as it is typed, an argument as the help shows it."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name).upper()
    return str(max(param.opts, key=len))
