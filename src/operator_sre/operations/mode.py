"""The mode of each subject: how much runs without a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from operator_protocols.domain.token import Role
from operator_protocols.domain.verdict import Mode
from operator_sre.app.restraints import ModeView, show_modes
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import Effect, Operation, Reason, Request, Route, Table, View

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["DEFAULT", "OPERATIONS", "SUMMARY", "ModePage", "confirmed_modes"]

SUMMARY = "Set how much runs without approval."
DEFAULT = "show"
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Subjects = Annotated[
    tuple[Name, ...],
    Meta(
        max_length=100,
        description="A subject; may be repeated.",
        extra={"option": "--subject", "api": Meta(max_length=100)},
    ),
]


class ShowMode(Request, frozen=True):
    """No parameters."""


class SetMode(Request, frozen=True):
    """A mode for these subjects, or for the only one there is."""

    mode: Annotated[
        Mode, Meta(description="The mode: observe, approve or execute.", extra={"api": Meta()})
    ]
    subjects: Subjects = ()
    reason: Reason = ""


class ResetMode(Request, frozen=True):
    """Of which subjects, and why."""

    subjects: Subjects = ()
    reason: Reason = ""


@dataclass(frozen=True, slots=True)
class ModePage:
    """The mode that counts for every subject, and whose word it is."""

    modes: tuple[ModeView, ...]
    schema_version: str = SCHEMA_VERSION


def confirmed_modes(app: App, *, subjects: Sequence[str]) -> list[ModeView]:
    """The modes of these, or of the only subject there is, once a person has confirmed them."""
    chosen = app.choose(subjects)
    return [mode for mode in show_modes(app) if mode.subject in chosen]


def _table(found: ModePage, now: datetime) -> View:
    rows = [
        (mode.subject, mode.mode, mode.source, mode.by or "-", mode.reason) for mode in found.modes
    ]
    return [Table(("subject", "mode", "source", "by", "why"), rows)]


_mode_operation = partial(Operation, result=ModePage, view=_table)
OPERATIONS = (
    _mode_operation(
        name="mode show",
        help="Show the mode of every subject and where it is set.",
        request=ShowMode,
        call="operator_sre.app.restraints.show_modes",
        route=Route("GET", "/v1/mode", "show_mode"),
    ),
    _mode_operation(
        name="mode set",
        help="Set the mode of a subject, overriding the configuration. execute needs confirmation.",
        request=SetMode,
        call="operator_sre.app.restraints.set_modes",
        confirmation="operator_sre.app.restraints.execute_asked",
        confirmed="operator_sre.operations.mode.confirmed_modes",
        is_typed=True,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("mode",),
        route=Route(
            "POST",
            "/v1/mode",
            "set_mode",
            "ModeRequest",
            (404,),
            summary="Set it for these subjects, instead of the configured one;"
            " what executes is asked first.",
        ),
    ),
    _mode_operation(
        name="mode reset",
        help="Reset one subject or all to the configured mode.",
        request=ResetMode,
        call="operator_sre.app.restraints.reset_modes",
        confirmation="operator_sre.app.restraints.reset_asked",
        confirmed="operator_sre.app.restraints.show_modes",
        effect=Effect.CHANGE,
        role=Role.ADMIN,
    ),
)
