"""Asking a person before something that has to be meant."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from operator_protocols.errors import UsageError

__all__ = ["YesOption", "confirmed"]

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def confirmed(question: str, *, yes: bool, word: str = "") -> None:
    """Return when a person means it: by --yes, by y, or by typing the word. UsageError if not."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(question, next_step="Confirm it with --yes.")
    wanted = f"type {word!r}" if word else "y"
    sys.stderr.write(f"{question} [{wanted}] ")
    sys.stderr.flush()
    said = sys.stdin.readline().strip()
    if said != word if word else said.lower() not in {"y", "yes"}:
        raise typer.Abort
