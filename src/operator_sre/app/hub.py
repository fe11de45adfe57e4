"""The hub: agents of any type ask for actions here, and each hears what became of its own.

Nothing is passed between processes: a request is a workflow of one step, and every message follows
from an entry of the ledger, so that every reader gets the same. Only the output of a command while
it runs is heard live, and only in the process that runs it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_protocols.domain.workflow import (
    Origin,
    WorkflowRecord,
    WorkflowState,
    run_of,
    workflow_of,
)
from operator_protocols.errors import AuthorityError, NotFoundError, UsageError
from operator_sre.app.persons import must_be_a_person, signed_in
from operator_sre.app.wiring import App
from operator_sre.app.workflows import add_workflow, command_workflow, follow_workflows
from operator_sre.codec import from_json
from operator_sre.gate import PERSON

__all__ = [
    "ActionResult",
    "Agent",
    "Hub",
    "Message",
    "MessageKind",
    "PendingAction",
    "Proposed",
    "foreign_agent",
    "propose_action",
    "proposed_action",
]

POLL_S = 0.1
PAGE = 500
ENTRIES_MAX = 1000
LIVE_MAX = 1000
END_CHARS_MAX = 4096
STEP = "command"
FOREIGN_NAME_MAX = 40
# In front of every name that a client gives itself, so that none can take the name of another kind.
FOREIGN_PREFIX = "mcp-"
FOREIGN_POLL_S = 0.2
FOREIGN_WAIT_S_MAX = 30.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class MessageKind(StrEnum):
    """The kinds of messages about an action."""

    REQUEST = "SYSTEM_ACTION_REQUEST"
    APPROVAL_NEEDED = "SYSTEM_ACTION_APPROVAL_NEEDED"
    DENIED = "SYSTEM_ACTION_DENIED"
    START = "SYSTEM_ACTION_START"
    OUTPUT = "SYSTEM_ACTION_OUTPUT"
    COMPLETE = "SYSTEM_ACTION_COMPLETE"
    RESULT = "SYSTEM_ACTION_RESULT"


@dataclass(frozen=True, slots=True)
class Agent:
    """Who asks: its name, which tells it from all others, and what kind of agent it is."""

    name: str
    type: str = "agent"


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that happened to an action. `seq` is its entry, and 0 for what is heard live.

    `text` is what there is to say of it: the command, the reason, or a piece of output.
    """

    kind: MessageKind
    action: str
    agent: str
    seq: int
    at: datetime
    text: str = ""
    approval: str = ""
    stream: int = 0
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What became of an action: where it stands, and its result once there is one."""

    action: str
    agent: str
    state: WorkflowState
    result: Result | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PendingAction:
    """An action that has not ended, with its pending approval if it has one."""

    action: str
    agent: Agent
    what: Action
    state: WorkflowState
    requested_at: datetime
    approval: Approval | None = None


@dataclass(slots=True)
class Hub:
    """One home's hub, as one process sees it."""

    app: App
    _owners: dict[str, WorkflowRecord | None] = field(default_factory=dict, init=False)
    _listeners: list[Callable[[Message], None]] = field(default_factory=list, init=False)

    async def request_system_action(
        self, agent: Agent, action: Action, *, subject: str = ""
    ) -> str:
        """Request an action and return its id. Any serving process of this home runs it."""
        if not _NAME.fullmatch(agent.name) or not _NAME.fullmatch(agent.type):
            raise UsageError(
                f"{agent.name[:60]!r} of type {agent.type[:60]!r} is not a valid agent.",
                next_step="Use up to 64 letters, digits, '.', '_', '@' or '-'.",
            )
        if agent.type == PERSON:
            raise UsageError(
                f"The agent {agent.name!r} cannot have the type {PERSON!r}, which is for people.",
                next_step="People run commands with: operator exec",
            )
        refuse_who_may_not(self.app, signed_in(), action)
        record = await add_workflow(
            self.app,
            command_workflow(action, subject=subject),
            origin=Origin.HUB,
            # In the name of the person who lets it ask: they are one where two have to agree.
            requester=Actor(signed_in(), agent.type, agent.name),
        )
        return record.id

    async def serve(self) -> None:
        """Run what agents ask for, until cancelled; subscribers here hear it live."""
        await follow_workflows(self.app, watch=self._hear)

    def get_action_result(self, action: str, agent: str) -> ActionResult:
        """What became of an action of this agent. NotFoundError when it has none of that id."""
        record = self._find_action(action)
        if record is None or record.requester.agent != agent:
            raise NotFoundError(
                f"There is no action {action[:60]!r} of this agent.",
                next_step="List actions with: operator workflows list",
            )
        fresh = self.app.store.workflows.get(action) or record
        run, result = run_of(fresh.id, STEP, fresh.step(STEP).attempts), None
        for entry in reversed(self.app.store.entries.after(0, limit=ENTRIES_MAX, run=run)):
            if entry.kind in (Kind.TOOL_RESULT, Kind.REFUSED):
                result = from_json(Result, entry.payload["result"])
                break
        return ActionResult(action, agent, fresh.state, result, fresh.reason)

    async def approve_action(
        self, action: str, *, by: str, reason: str = "", approved: bool = True
    ) -> Approval:
        """A person's answer to what an action waits for. AuthorityError when they may not."""
        must_be_a_person(self.app)
        approval = self._pending_approval(action)
        if approval is None:
            raise NotFoundError(
                f"Action {action[:60]!r} does not require approval.",
                next_step="List pending approvals with: operator approvals list",
            )
        state = ApprovalState.APPROVED if approved else ApprovalState.REJECTED
        return await self.app.answering.answer(approval, state, by=by, reason=reason)

    def get_pending_actions(self, agent: str = "") -> Sequence[PendingAction]:
        """Actions that are not over, of this agent or of all, oldest first."""
        living = (WorkflowState.PENDING, WorkflowState.IN_PROGRESS)
        found = self.app.store.workflows.find(states=living)
        return [
            PendingAction(
                record.id,
                Agent(record.requester.agent, record.requester.type),
                record.workflow.step(STEP).action,
                record.state,
                record.requested_at,
                self._pending_approval(record.id),
            )
            for record in reversed(found)
            if record.origin is Origin.HUB and agent in ("", record.requester.agent)
        ]

    async def subscribe(self, agent: str = "", *, after: int = 0) -> AsyncGenerator[Message, None]:
        """Every message to this agent, or to all, behind an entry; goes on until it is closed."""
        live: asyncio.Queue[Message] = asyncio.Queue(LIVE_MAX)

        def listen(message: Message) -> None:
            # A slow subscriber misses live output; the result has all of it.
            if agent in ("", message.agent) and not live.full():
                live.put_nowait(message)

        self._listeners.append(listen)
        try:
            while True:
                entries = self.app.store.entries.after(after, limit=PAGE)
                for entry in entries:
                    after = entry.seq
                    if entry.kind is Kind.TOOL_RESULT:
                        for message in _drain(live):
                            yield message
                    record = self._find_action(workflow_of(entry.run))
                    if record is not None and agent in ("", record.requester.agent):
                        for message in _read_messages(record, entry):
                            yield message
                for message in _drain(live):
                    yield message
                if not entries:
                    await self.app.clock.sleep(POLL_S)
        finally:
            self._listeners.remove(listen)

    def _hear(self, run: str, stream: int, data: bytes) -> None:
        record = self._find_action(workflow_of(run))
        if record is None:
            return
        text = data.decode("utf-8", "replace")
        message = Message(
            MessageKind.OUTPUT,
            record.id,
            record.requester.agent,
            0,
            self.app.clock.now(),
            text,
            stream=stream,
        )
        for listen in self._listeners:
            listen(message)

    def _find_action(self, action: str) -> WorkflowRecord | None:
        """An action of the hub by its id; None for everything else."""
        if not action:
            return None
        if action not in self._owners:
            found = self.app.store.workflows.get(action)
            self._owners[action] = found if found and found.origin is Origin.HUB else None
        return self._owners[action]

    def _pending_approval(self, action: str) -> Approval | None:
        pending = self.app.store.approvals.find(states=[ApprovalState.PENDING])
        now = self.app.clock.now()
        mine = [
            approval
            for approval in pending
            if workflow_of(approval.run) == action and approval.expires_at > now
        ]
        return mine[-1] if mine and self._find_action(action) else None


def _read_messages(record: WorkflowRecord, entry: Entry) -> Iterable[Message]:
    """What an entry says to the agent that asked. Pure."""
    payload = entry.payload

    def message(kind: MessageKind, text: str, **fields: Any) -> Message:
        agent = record.requester.agent
        return Message(kind, record.id, agent, entry.seq, entry.at, text, **fields)

    match entry.kind:
        case Kind.WORKFLOW_REQUESTED:
            action = from_json(WorkflowRecord, payload["record"]).workflow.step(STEP).action
            yield message(MessageKind.REQUEST, action.command)
        case Kind.APPROVAL_REQUESTED:
            text, approval = payload["approval"]["explanation"], payload["approval"]["id"]
            yield message(MessageKind.APPROVAL_NEEDED, text, approval=approval)
        case Kind.REFUSED:
            yield message(MessageKind.DENIED, payload["result"]["stderr"])
        case Kind.TOOL_CALL:
            command = from_json(Action, payload["action"]).command
            yield message(MessageKind.START, command)
        case Kind.TOOL_RESULT:
            result = from_json(Result, payload["result"])
            for stream, text in ((1, result.stdout), (2, result.stderr)):
                if len(text) > 2 * END_CHARS_MAX:
                    cut = len(text) - 2 * END_CHARS_MAX
                    head, tail = text[:END_CHARS_MAX], text[-END_CHARS_MAX:]
                    text = f"{head}\n[{cut} characters]\n{tail}"
                if text:
                    yield message(MessageKind.OUTPUT, text, stream=stream)
            outcome, code = str(result.outcome), result.exit_code
            yield message(MessageKind.COMPLETE, outcome, exit_code=code)
        case Kind.WORKFLOW_ENDED:
            text = f"{payload['state']}: {payload['reason']}".rstrip(": ")
            yield message(MessageKind.RESULT, text)


def _drain(queue: asyncio.Queue[Message]) -> Iterable[Message]:
    while not queue.empty():
        yield queue.get_nowait()


@dataclass(frozen=True, slots=True)
class Proposed:
    """Where a proposed action stands, and the request that people have to answer first."""

    action: ActionResult
    approval: str = ""


def foreign_agent(name: str) -> Actor:
    """The requester: an agent by its own name, for the person who started or admitted it."""
    known = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:FOREIGN_NAME_MAX] or "client"
    return Actor(signed_in(), "agent", f"{FOREIGN_PREFIX}{known.lower()}")


def refuse_who_may_not(app: App, person: str, action: Action) -> None:
    """AuthorityError for who may have nothing changed: no agent of theirs asks for it either."""
    change = Verdict(action, Level.REVIEW, Risk.LOW, (), "it may change something", "")
    if why := app.permissions.may_request(Actor(person, "user"), change):
        raise AuthorityError(why, next_step="Ask an admin for a higher role.")


async def propose_action(app: App, by: Actor, action: Action, *, subject: str = "") -> str:
    """Request an action and return its id. Any serving process of this home runs it."""
    refuse_who_may_not(app, by.id, action)
    workflow = command_workflow(action, subject=subject)
    record = await add_workflow(app, workflow, origin=Origin.HUB, requester=by)
    return record.id


async def proposed_action(app: App, by: Actor, action: str, *, wait_s: float = 0.0) -> Proposed:
    """What became of an action of this agent; waits so long for its end, or for people's turn."""
    record = app.store.workflows.get(action)
    if record is None or record.origin is not Origin.HUB or record.requester != by:
        raise NotFoundError(
            f"There is no action {action[:60]!r} of this agent.",
            next_step="Use the id that propose_action returned.",
        )
    hub, until = Hub(app), app.clock.monotonic() + min(wait_s, FOREIGN_WAIT_S_MAX)
    while True:
        result = hub.get_action_result(action, by.agent)
        waits = [
            get_pending_action
            for get_pending_action in hub.get_pending_actions(by.agent)
            if get_pending_action.action == action
        ]
        approval = waits[0].approval.id if waits and waits[0].approval else ""
        if result.state.over or approval or app.clock.monotonic() >= until:
            return Proposed(result, approval)
        await app.clock.sleep(FOREIGN_POLL_S)
