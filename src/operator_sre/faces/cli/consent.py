"""Confirmation of dangerous commands by a person."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from operator_protocols.errors import UsageError
from operator_sre.faces.cli.output import clean, print_json, print_lines

if TYPE_CHECKING:
    from operator_protocols.domain.confirmation import Confirmation
    from operator_sre.app.confirmations import Asked
    from operator_sre.app.wiring import App

__all__ = [
    "NEEDS_A_PERSON",
    "ConfirmationOption",
    "ProposeOption",
    "YesOption",
    "confirm",
    "cross_boundary",
    "read_hidden",
    "say_pending",
]

NEEDS_A_PERSON = 4
HIDDEN_BYTES_MAX = (1 << 16) + 2
YesOption = Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")]
ConfirmationOption = Annotated[
    str, typer.Option("--confirmation", help="The id of an approved confirmation.")
]
ProposeOption = Annotated[
    bool, typer.Option("--propose", help="Request confirmation from someone else; exit 4.")
]


def confirm(question: str, *, yes: bool, word: str = "") -> None:
    """Return when a person confirms: by --yes, by y, or by typing the word. UsageError if not."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(question, next_step="Confirm it with --yes.")
    wanted = f"type {word!r}" if word else "y/N"
    sys.stderr.write(f"{question} [{wanted}] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if answer != word if word else answer.lower() not in {"y", "yes"}:
        raise typer.Abort


def read_hidden(question: str) -> str:
    """What was typed twice without being shown, or piped, without its line end."""
    if sys.stdin.isatty():
        import getpass

        value = getpass.getpass(f"{question} (it is not shown): ", stream=sys.stderr)
        if getpass.getpass("Again: ", stream=sys.stderr) != value:
            raise UsageError("The two values differ.", next_step="Nothing was stored; try again.")
        return value
    data = sys.stdin.buffer.read(HIDDEN_BYTES_MAX)
    try:
        return data.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError(
            "The value is not text.", next_step="Encode it first, for example with base64."
        ) from None


def cross_boundary(
    app: App,
    change: Asked | None,
    *,
    yes: bool,
    propose: bool,
    as_json: bool,
    word: str = "",
    given: str = "",
) -> Confirmation | None:
    """Return once a person has confirmed and that is recorded; exit 4 while it is pending.

    None stands for a change that needs no confirmation.
    """
    if change is None:
        return None
    from operator_sre.app.confirmations import cross, decline_own
    from operator_sre.faces.cli.signals import run_until_stopped

    sure = yes and not propose
    if not sure and not propose and not given and sys.stdin.isatty() and not as_json:
        try:
            confirm(clean(change.rationale), yes=False, word=word)
        except typer.Abort:
            run_until_stopped(decline_own(app, change))
            raise
        sure = True
    found = run_until_stopped(cross(app, change, sure=sure, given=given))
    if found.state == "pending":
        say_pending(found, as_json=as_json)
        raise typer.Exit(NEEDS_A_PERSON)
    return found


def say_pending(confirmation: Confirmation, *, as_json: bool, **more: object) -> None:
    """Say that nothing was changed, and how to confirm it."""
    from operator_sre.app.confirmations import requirement
    from operator_sre.contract.documents import as_document

    if as_json:
        print_json({**as_document(requirement(confirmation)), **more})
        return
    minutes = (confirmation.expires_at - confirmation.requested_at).total_seconds() / 60
    print_lines(
        [
            clean(f"Nothing was changed: {confirmation.rationale}"),
            f"Confirmation required within {minutes:.0f} minutes, risk {confirmation.risk}:",
            f"  operator confirmations show {confirmation.id}",
            f"  operator confirmations approve {confirmation.id}",
        ]
    )
