"""The hub: other agents of this machine request actions here and read their results."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from operator_protocols.domain.action import Action
from operator_protocols.domain.permit import Approval
from operator_protocols.domain.token import Role
from operator_protocols.domain.workflow import workflow_of
from operator_sre.app.hub import ActionResult, Agent, Hub, Message, PendingAction
from operator_sre.app.persons import signed_in
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import (
    NUMBER_MAX,
    TEXT_MAX,
    Effect,
    Local,
    Operation,
    Reason,
    Request,
    Table,
    View,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = [
    "OPERATIONS",
    "SUMMARY",
    "decide_action",
    "hear_messages",
    "list_pending",
    "read_result",
    "request_action",
]

SUMMARY = "Exchange actions and results with other agents."
ActionId = Annotated[str, Meta(max_length=TEXT_MAX, description="The action id.")]
AgentName = Annotated[str, Meta(max_length=TEXT_MAX, description="The agent name.")]


class RequestAction(Request, frozen=True):
    """What an agent asks for."""

    command: Annotated[str, Meta(max_length=TEXT_MAX, description="One quoted command line.")]
    agent: AgentName
    kind: Annotated[
        str,
        Meta(max_length=TEXT_MAX, description="The kind of agent.", extra={"option": "--type"}),
    ] = "agent"
    subject: Annotated[
        str,
        Meta(max_length=TEXT_MAX, description="The subject it acts on; this machine by default."),
    ] = ""
    cwd: Annotated[
        str,
        Meta(max_length=TEXT_MAX, description="The working directory; the current one by default."),
    ] = ""
    reason: Reason = ""


class ReadResult(Request, frozen=True):
    """Which action of which agent."""

    action: ActionId
    agent: AgentName


class ListPending(Request, frozen=True):
    """The actions of which agent."""

    agent: AgentName = ""


class DecideAction(Request, frozen=True):
    """Which action, and the answer."""

    action: ActionId
    reject: Annotated[bool, Meta(description="Reject instead of approving.")] = False
    reason: Reason = ""


class HearMessages(Request, frozen=True):
    """Whose messages, and from which entry on."""

    agent: AgentName = ""
    after: Annotated[
        int, Meta(ge=0, le=NUMBER_MAX, description="Only messages after this entry.")
    ] = 0


@dataclass(frozen=True, slots=True)
class HeardMessage:
    """One message of the hub."""

    message: Message


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """The id of a requested action."""

    action: str
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class ResultDocument:
    """The state and result of an action."""

    result: ActionResult
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class PendingActions:
    """Unfinished actions, oldest first."""

    actions: tuple[PendingAction, ...]
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class DecidedAction:
    """A person's answer."""

    approval: Approval
    schema_version: str = SCHEMA_VERSION


def request_action(
    app: App, *, command: str, agent: str, kind: str, subject: str, cwd: str, reason: str
) -> Awaitable[str]:
    """Request an action and return its id."""
    shell = Action.shell(command, reasoning=reason)
    action = replace(shell, cwd=str(Path(cwd).absolute()))
    return Hub(app).request_system_action(Agent(agent, kind), action, subject=subject)


def read_result(app: App, *, action: str, agent: str) -> ActionResult:
    """What became of an action of this agent."""
    return Hub(app).get_action_result(action, agent)


def list_pending(app: App, *, agent: str) -> Sequence[PendingAction]:
    """Unfinished actions of one agent or of all."""
    return Hub(app).get_pending_actions(agent)


async def decide_action(app: App, *, action: str, reject: bool, reason: str) -> Approval:
    """Approve or reject what an action waits for, in the name of the caller."""
    return await Hub(app).approve_action(action, by=signed_in(), reason=reason, approved=not reject)


def hear_messages(app: App, *, agent: str, after: int) -> AsyncIterator[Message]:
    """Every message to an agent, or to all, until it is closed."""
    return Hub(app).subscribe(agent, after=after)


def _message_view(found: HeardMessage, now: datetime) -> View:
    message = found.message
    place = f"{message.seq:6}  {message.at:%H:%M:%S}  {message.agent}  {message.action}"
    return [f"{place}  {message.kind}  {message.text.strip()}".rstrip()]


def _result_view(found: ResultDocument, now: datetime) -> View:
    result = found.result
    output = f"{result.result.stdout}{result.result.stderr}" if result.result else ""
    sentence = f"{result.action} is {result.state}. {result.reason}".rstrip()
    return [sentence, *output.splitlines()]


def _table(found: PendingActions, now: datetime) -> View:
    rows = [
        (
            action.action,
            action.agent.name,
            action.state,
            "pending" if action.approval else "-",
            action.what.command,
        )
        for action in found.actions
    ]
    head = ("id", "agent", "state", "approval", "what")
    return [Table(head, rows, "No unfinished actions.")]


_local_operation = partial(Operation, local=Local.AGENTS)
OPERATIONS = (
    _local_operation(
        name="hub request",
        help="Request an action. A running agent of this home executes it.",
        request=RequestAction,
        result=RequestedAction,
        call="operator_sre.operations.hub.request_action",
        view=lambda found, now: [found.action],
        effect=Effect.PROPOSE,
        role=Role.APPROVER,
        arguments=("command",),
    ),
    _local_operation(
        name="hub result",
        help="Show the result of an agent's action. Exit 0 when it completed, else 1.",
        request=ReadResult,
        result=ResultDocument,
        call="operator_sre.operations.hub.read_result",
        view=_result_view,
        arguments=("action",),
        exit_code=lambda found: 0 if found.result.state == "completed" else 1,
    ),
    _local_operation(
        name="hub pending",
        help="List unfinished actions of one agent or of all, oldest first.",
        request=ListPending,
        result=PendingActions,
        call="operator_sre.operations.hub.list_pending",
        view=_table,
    ),
    _local_operation(
        name="hub approve",
        help="Approve or reject a pending action in your name.",
        request=DecideAction,
        result=DecidedAction,
        call="operator_sre.operations.hub.decide_action",
        view=lambda found, now: [
            f"{workflow_of(found.approval.run)}: {found.approval.state}"
            f" by {found.approval.decided_by}."
        ],
        effect=Effect.DECIDE,
        role=Role.APPROVER,
        arguments=("action",),
    ),
    _local_operation(
        name="hub listen",
        help="Print messages to one agent or to all until stopped.\n\nWith --json each message is a"
        " document on its own line.",
        request=HearMessages,
        result=HeardMessage,
        call="operator_sre.operations.hub.hear_messages",
        view=_message_view,
        each=True,
    ),
)
