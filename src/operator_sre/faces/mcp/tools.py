"""The MCP tools. They read and propose; none of them approves or decides."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, is_dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from operator_protocols.domain.action import Action
from operator_protocols.domain.token import Role
from operator_protocols.errors import NotFoundError
from operator_sre.app import answers
from operator_sre.app.health import show_health
from operator_sre.codec import to_json
from operator_sre.contract import messages
from operator_sre.contract.documents import as_document
from operator_sre.contract.schemas import Shape
from operator_sre.faces.mcp import schemas
from operator_sre.faces.mcp.schemas import (
    result_document,
    story_document,
    ticket_document,
)
from operator_sre.operations import all_operations
from operator_sre.operations.operation import Effect

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Actor
    from operator_sre.app.wiring import App
    from operator_sre.operations.operation import Operation
    from operator_sre.operations.operation import Tool as Served

__all__ = ["TOOLS", "Asking", "Document", "Tool", "read_resource", "tool_of"]

T = TypeVar("T")
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asking:
    """The client of a request, and the home it is about."""

    home: App
    by: Actor

    async def __call__(self, call: Callable[..., T], *given: Any, **options: Any) -> T:
        """Call the app in a thread, so that it blocks no other request."""
        return await asyncio.to_thread(call, self.home, *given, **options)


Call = Callable[[Asking, Any], Awaitable[Document]]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its description, its input and output, the role it needs, and its hints."""

    name: str
    title: str
    says: str
    takes: type[Any]
    tells: Shape
    call: Call
    role: Role = Role.VIEWER
    reads: bool = True
    destroys: bool = False
    outside: bool = False


def _question(name: str, message: type[messages.Message]) -> Call:
    """A method of the contract; the fields of its request are the arguments."""

    async def ask(asking: Asking, params: msgspec.Struct) -> Document:
        request = message(**msgspec.structs.asdict(params))
        return as_document(await asking(getattr(answers, name), request))

    return ask


_summarize_run = _question("summarize_run", messages.SummarizeRunRequest)


async def _recommend_patch(asking: Asking, params: schemas.RecommendPatch) -> Document:
    risk = messages.RiskLevel(params.risk_level) if params.risk_level else None
    request = messages.RecommendPolicyPatchRequest(request=params.request, risk_level=risk)
    return as_document(await answers.recommend_patch(asking.home, request, by=asking.by))


async def _run_timeline(asking: Asking, params: schemas.RunTimeline) -> Document:
    request = messages.GetRunTimelineRequest(run_id=params.run_id)
    found = as_document(await asking(answers.run_timeline, request))
    later = [event for event in found["events"] if event.get("audit_seq", 0) > params.after_seq]
    return {**found, "events": later}


async def _show_ticket(asking: Asking, params: schemas.ShowTicket) -> Document:
    from operator_sre.app.tickets import show_ticket

    view = await asking(show_ticket, params.number)
    story = [entry for entry in view.entries if entry.seq > params.after_seq][: params.limit]
    return {"ticket": ticket_document(view.ticket), "story": story_document(story)}


async def _show_health(asking: Asking, params: schemas.ShowHealth) -> Document:
    view = await asking(show_health)
    subjects = [subject for subject in view.subjects if params.subject in ("", subject.subject)]
    if params.subject and not subjects:
        there = ", ".join(subject.subject for subject in view.subjects) or "none"
        raise NotFoundError(
            f"There is no subject {params.subject[:60]!r}.", next_step=f"Known subjects: {there}."
        )
    documents: list[Document] = []
    for subject in subjects:
        document: Document = to_json(subject)
        document["tickets"] = [ticket.id for ticket in subject.tickets]
        documents.append(document)
    health = {"at": to_json(view.at), "health": view.health.value, "fine": view.fine}
    return {**health, "subjects": documents}


async def _propose_action(asking: Asking, params: schemas.ProposeAction) -> Document:
    from operator_sre.app.hub import propose_action, proposed_action

    shell = Action.shell(params.command, target=params.target, reasoning=params.reasoning)
    action = replace(
        shell,
        expected=params.expected,
        cwd=params.cwd,
        timeout_s=params.timeout_s,
        urgency=params.urgency,
    )
    made = await propose_action(asking.home, asking.by, action, subject=params.subject)
    return result_document(await proposed_action(asking.home, asking.by, made))


async def _action_result(asking: Asking, params: schemas.ActionResult) -> Document:
    from operator_sre.app.hub import proposed_action

    found = await proposed_action(asking.home, asking.by, params.action_id, wait_s=params.wait_s)
    return result_document(found)


async def read_resource(asking: Asking, kind: str, name: str) -> Document:
    """A ticket by its number, or a run by its id. NotFoundError when there is none."""
    if kind == "ticket" and name.isascii() and name.isdigit() and 0 < len(name) < 19:
        return await _show_ticket(asking, schemas.read(schemas.ShowTicket, {"number": int(name)}))
    if kind == "run":
        run = schemas.read(schemas.RunId, {"run_id": name})
        timeline = schemas.read(schemas.RunTimeline, {"run_id": name})
        events = (await _run_timeline(asking, timeline))["events"]
        return {**await _summarize_run(asking, run), "events": events}
    raise NotFoundError(
        f"There is no resource {f'{kind}://{name}'[:100]!r}.",
        next_step="Use ticket://NUMBER or run://ID.",
    )


def tool_of(operation: Operation) -> Tool:
    """An operation as a tool."""
    served = operation.tool
    assert served is not None
    takes = schemas.arguments_of(operation)

    async def call(asking: Asking, params: Any) -> Document:
        request = operation.request(**msgspec.structs.asdict(params))
        found = await asking(lambda home: operation.perform(home, request))
        if inspect.isawaitable(found):
            found = await found
        document = operation.document(found)
        return {name: _tell(getattr(document, name), served) for name in operation.fields}

    return Tool(
        served.name,
        served.title,
        served.description,
        takes,
        schemas.shape_of(operation),
        call,
        role=operation.role,
        reads=operation.effect is Effect.READ,
    )


def _tell(part: Any, tool: Served) -> Any:
    """A row or a list of rows, reduced to the fields that are useful to a model."""
    if isinstance(part, list | tuple):
        return [_tell(row, tool) for row in part[: tool.rows_max]]
    if tool.picks and is_dataclass(part):
        picked = {path.rpartition(".")[2]: to_json(attrgetter(path)(part)) for path in tool.picks}
        more = {"next_step": tool.next_step.format(**picked)} if tool.next_step else {}
        return {**picked, **more}
    found = to_json(part)
    if tool.hides and isinstance(found, dict):
        return {name: value for name, value in found.items() if name not in tool.hides}
    return found


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        *(tool_of(operation) for operation in all_operations() if operation.tool),
        Tool(
            "validate_project",
            "Validate a project",
            "Checks a project folder and lists everything that is missing or invalid.",
            schemas.ValidateProject,
            messages.ValidateAgentProjectResponse,
            _question("validate_project", messages.ValidateAgentProjectRequest),
            # A project may lie in any folder of the machine.
            role=Role.ADMIN,
            outside=True,
        ),
        Tool(
            "summarize_run",
            "Summarize a run",
            "Summarizes a run: outcome, figures and one sentence.",
            schemas.RunId,
            messages.SummarizeRunResponse,
            _summarize_run,
        ),
        Tool(
            "explain_failure",
            "Explain a failure",
            "Explains why a run failed, with the evidence and the next action.",
            schemas.RunId,
            messages.ExplainFailureResponse,
            _question("explain_failure", messages.ExplainFailureRequest),
        ),
        Tool(
            "explain_denial",
            "Explain a denial",
            "Names the policy rule that denied an action of a run, or would deny one.",
            schemas.ExplainDenial,
            messages.ExplainPolicyDenialResponse,
            _question("explain_denial", messages.ExplainPolicyDenialRequest),
        ),
        Tool(
            "recommend_patch",
            "Propose a policy change",
            "Proposes a policy change that would allow an action. Nothing is applied until a person"
            " confirms it with: operator confirmations.",
            schemas.RecommendPatch,
            messages.RecommendPolicyPatchResponse,
            _recommend_patch,
            role=Role.APPROVER,
            reads=False,
        ),
        Tool(
            "run_timeline",
            "Timeline of a run",
            "Lists the events of a run, oldest first.",
            schemas.RunTimeline,
            messages.GetRunTimelineResponse,
            _run_timeline,
        ),
        Tool(
            "next_action",
            "Next action",
            "Recommends the next action, for one run or for the whole home.",
            schemas.NextAction,
            messages.NextActionResponse,
            _question("next_action", messages.NextActionRequest),
        ),
        Tool(
            "show_ticket",
            "Show a ticket",
            "Shows a ticket and its ledger entries.",
            schemas.ShowTicket,
            schemas.TICKET,
            _show_ticket,
        ),
        Tool(
            "show_health",
            "Show health",
            "Shows the health of every subject from the last checks, the worst first.",
            schemas.ShowHealth,
            schemas.HEALTH,
            _show_health,
        ),
        Tool(
            "propose_action",
            "Propose an action",
            "Proposes one command. The gate judges it, people approve it if it is risky, and an"
            " agent of this home runs it. Use action_result to get the result.",
            schemas.ProposeAction,
            schemas.ACTION,
            _propose_action,
            role=Role.APPROVER,
            reads=False,
            destroys=True,
            outside=True,
        ),
        Tool(
            "action_result",
            "Result of an action",
            "Shows the state and result of an action that you proposed; can wait for it.",
            schemas.ActionResult,
            schemas.ACTION,
            _action_result,
        ),
    )
}
