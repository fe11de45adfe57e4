"""Sessions: how much risk each agent has piled up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from operator_protocols.domain.token import Role
from operator_sre.app.sessions import SessionView
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import Effect, Operation, Request, Table, View

__all__ = ["OPERATIONS", "SUMMARY", "SessionDocument", "SessionList"]

SUMMARY = "Show the accumulated risk of each agent."
Agent = Annotated[str, Meta(max_length=200, description="The agent name.")]


class ListSessions(Request, frozen=True):
    """No parameters."""


class ShowSession(Request, frozen=True):
    """Of which agent."""

    agent: Agent


class ResetSession(Request, frozen=True):
    """Of which agent, and why."""

    agent: Agent
    reason: Annotated[str, Meta(max_length=4000, description="Recorded in the audit log.")]


@dataclass(frozen=True, slots=True)
class SessionList:
    """The sessions of agents."""

    sessions: tuple[SessionView, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class SessionDocument:
    """The session of one agent."""

    session: SessionView
    schema_version: str = SCHEMA_VERSION


def _table(found: SessionList, now: datetime) -> View:
    rows = [
        (
            session.agent,
            session.level,
            session.score,
            "held" if session.held else "free",
            len(session.deeds),
        )
        for session in found.sessions
    ]
    head = ("agent", "level", "score", "state", "actions")
    return [Table(head, rows, "No agent has acted recently.")]


def _details(found: SessionDocument, now: datetime) -> View:
    view = found.session
    held = "held in observe" if view.held else "free"
    lines = [f"{view.agent}: {view.level.upper()}, {view.score}, {held}", *view.reasons]
    if view.record is not None:
        record = view.record
        state = "held" if record.held else f"reset by {record.by}"
        lines.append(f"{state} at {record.at:%Y-%m-%d %H:%M:%S} UTC: {record.reason or '-'}")
    return [*lines, *(f"{deed.at:%H:%M:%S}  {deed.level:7}{deed.command}" for deed in view.deeds)]


OPERATIONS = (
    Operation(
        name="session list",
        help="List agents that acted in the last five minutes or were held in observe.",
        request=ListSessions,
        result=SessionList,
        call="operator_sre.app.sessions.list_sessions",
        view=_table,
    ),
    Operation(
        name="session show",
        help="Show an agent's actions and accumulated risk.",
        request=ShowSession,
        result=SessionDocument,
        call="operator_sre.app.sessions.show_session",
        view=_details,
        arguments=("agent",),
    ),
    Operation(
        name="session reset",
        help="Release an agent held in observe, and start a new session for it.",
        request=ResetSession,
        result=SessionDocument,
        call="operator_sre.app.sessions.reset_session",
        confirmation="operator_sre.app.sessions.session_asked",
        confirmed="operator_sre.app.sessions.show_session",
        view=_details,
        effect=Effect.CHANGE,
        role=Role.ADMIN,
        arguments=("agent",),
    ),
)
