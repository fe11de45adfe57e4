"""Changes: what Operator itself changed, and whether it can be undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from operator_protocols.domain.action import Action, Result, digest_of
from operator_protocols.domain.verdict import Risk
from operator_sre.codec import from_json
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import (
    NUMBER_MAX,
    Operation,
    Page,
    Place,
    Request,
    Route,
    Table,
    Tool,
    View,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "OPERATIONS",
    "SUMMARY",
    "Change",
    "ChangePage",
    "ListChanges",
    "UndoState",
    "list_changes",
]

SUMMARY = "List changes that Operator made."
COMMAND_CHARACTERS_MAX = 80


class UndoState(StrEnum):
    """Whether a change can be undone: `none` where Operator knows no command that does it."""

    AVAILABLE = "available"
    UNDONE = "undone"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Change:
    """One change that Operator made or tried to make.

    `seq` is the ledger entry that it began with; `outcome` is empty while it runs. `undo_command`
    undoes it, and `undone_by` is the entry of the command that did.
    """

    seq: int
    at: datetime
    subject: str
    target: str
    command: str
    tool: str
    risk: Risk
    agent: str
    approver: str
    ticket: int | None
    run: str
    outcome: str
    exit_code: int | None
    undo: UndoState
    undo_command: str
    undone_by: int | None


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Changes, the newest first."""

    changes: tuple[Change, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


class ListChanges(Request, frozen=True):
    """Which changes, and how many."""

    subject: Annotated[str, Meta(max_length=200, description="Only changes of this subject.")] = ""
    before: Annotated[
        int,
        Meta(
            ge=0,
            le=NUMBER_MAX,
            description="Only changes before this entry.",
            extra={"cli": False},
        ),
    ] = 0
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of rows.")] = 20


def list_changes(app: App, *, subject: str, before: int, limit: int) -> Sequence[Change]:
    """What was permitted and not SAFE, the newest first, with the state of its undo."""
    commands = app.store.commands
    found: list[Change] = []
    for command, about, ended in commands.changes(
        subject=subject, limit=limit, before=before or None
    ):
        entry = app.store.entries.get(ended) if ended is not None else None
        result = from_json(Result, entry.payload["result"]) if entry and entry.payload else None
        undo: Action | None = result.undo if result and result.ok else None
        undone_by = None
        if undo is not None:
            undone_by = commands.succeeded_after(command.seq, digest_of(undo.command), undo.target)
        state = UndoState.NONE
        if undo is not None:
            state = UndoState.AVAILABLE if undone_by is None else UndoState.UNDONE
        found.append(
            Change(
                seq=command.seq,
                at=command.at,
                subject=about,
                target=command.target,
                command=command.command,
                tool=command.tool,
                risk=Risk(command.risk),
                agent=command.agent,
                approver=command.approver,
                ticket=command.ticket,
                run=command.run,
                outcome=command.outcome,
                exit_code=command.exit_code,
                undo=state,
                undo_command=undo.command if undo else "",
                undone_by=undone_by,
            )
        )
    return found


def _table(page: ChangePage, now: datetime) -> View:
    rows = []
    for change in page.changes:
        result = "running" if not change.outcome else change.outcome
        if change.outcome == "ran":
            result = "succeeded" if change.exit_code == 0 else f"failed ({change.exit_code})"
        undo = {
            UndoState.AVAILABLE: change.undo_command,
            UndoState.UNDONE: f"undone (entry {change.undone_by})",
            UndoState.NONE: "-",
        }[change.undo]
        command = change.command
        if len(command) > COMMAND_CHARACTERS_MAX:
            command = f"{command[: COMMAND_CHARACTERS_MAX - 3]}..."
        at = f"{change.at:%Y-%m-%d %H:%M:%S}"
        rows.append(
            (change.seq, at, change.subject or "-", change.target or "-", result, command, undo)
        )
    head = ("entry", "time (utc)", "subject", "target", "result", "command", "undo")
    return [Table(head, rows, "Operator has changed nothing.")]


OPERATIONS = (
    Operation(
        name="changes list",
        help="List changes that Operator made, newest first, and whether they are reversible.\n\n"
        "A change is a permitted command that was not judged SAFE, whether an agent or a person"
        " requested it.",
        request=ListChanges,
        result=ChangePage,
        call="operator_sre.operations.changes.list_changes",
        view=_table,
        page=Page(key="seq", place="before"),
        route=Route("GET", "/v1/changes", "list_changes"),
        tool=Tool(
            "list_changes", "List changes", "What Operator itself changed, the newest first."
        ),
        place=Place("Changes", "/changes", "c"),
        examples=("operator changes list --subject shop --limit 50",),
    ),
)
