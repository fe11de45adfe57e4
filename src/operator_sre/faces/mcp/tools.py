"""The tools: each asks the app, none of them decides anything for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from operator_protocols.domain.action import Action
from operator_protocols.domain.token import Role
from operator_protocols.errors import NotFoundError
from operator_sre.app import answers
from operator_sre.codec import to_json
from operator_sre.contract import messages
from operator_sre.contract.documents import as_document
from operator_sre.contract.schemas import Shape
from operator_sre.faces.mcp import arguments, outputs
from operator_sre.faces.mcp.documents import (
    approval_document,
    command_document,
    confirmation_document,
    result_document,
    story_document,
    ticket_document,
)

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Actor
    from operator_sre.app.wiring import App

__all__ = ["TOOLS", "Asking", "Document", "Tool", "read_resource"]

T = TypeVar("T")
Document = dict[str, Any]
PENDING_MAX = 100


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, and of which home."""

    home: App
    by: Actor

    async def __call__(self, call: Callable[..., T], *given: Any, **options: Any) -> T:
        """An answer of the app, without anybody else waiting for it."""
        return await asyncio.to_thread(call, self.home, *given, **options)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: what it is for, what it takes and tells, who may use it, what it could do."""

    name: str
    title: str
    says: str
    takes: type[Any]
    tells: Shape
    call: Callable[[Asking, Any], Awaitable[Document]]
    role: Role = Role.VIEWER
    reads: bool = True
    destroys: bool = False
    outside: bool = False


async def _validate_project(asking: Asking, asked: arguments.ValidateProject) -> Document:
    request = messages.ValidateAgentProjectRequest(project_dir=asked.project_dir)
    return as_document(await asking(answers.validate_project, request))


async def _summarize_run(asking: Asking, asked: arguments.RunId) -> Document:
    request = messages.SummarizeRunRequest(run_id=asked.run_id)
    return as_document(await asking(answers.summarize_run, request))


async def _explain_failure(asking: Asking, asked: arguments.RunId) -> Document:
    request = messages.ExplainFailureRequest(run_id=asked.run_id)
    return as_document(await asking(answers.explain_failure, request))


async def _explain_denial(asking: Asking, asked: arguments.ExplainDenial) -> Document:
    request = messages.ExplainPolicyDenialRequest(run_id=asked.run_id, action=asked.action)
    return as_document(await asking(answers.explain_denial, request))


async def _recommend_patch(asking: Asking, asked: arguments.RecommendPatch) -> Document:
    risk = messages.RiskLevel(asked.risk_level) if asked.risk_level else None
    request = messages.RecommendPolicyPatchRequest(request=asked.request, risk_level=risk)
    return as_document(await answers.recommend_patch(asking.home, request, by=asking.by))


async def _run_timeline(asking: Asking, asked: arguments.RunTimeline) -> Document:
    request = messages.GetRunTimelineRequest(run_id=asked.run_id)
    found = as_document(await asking(answers.run_timeline, request))
    later = [one for one in found["events"] if one.get("audit_seq", 0) > asked.after_seq]
    return {**found, "events": later}


async def _next_action(asking: Asking, asked: arguments.NextAction) -> Document:
    request = messages.NextActionRequest(run_id=asked.run_id)
    return as_document(await asking(answers.next_action, request))


async def _list_tickets(asking: Asking, asked: arguments.ListTickets) -> Document:
    from operator_sre.app.tickets import list_tickets

    found = await asking(
        list_tickets,
        states=asked.states,
        subject=asked.subject,
        severity=asked.severity or "",
        text=asked.text,
        limit=asked.limit,
        after=asked.after,
    )
    return {"tickets": [ticket_document(one) for one in found]}


async def _show_ticket(asking: Asking, asked: arguments.ShowTicket) -> Document:
    from operator_sre.app.tickets import show_ticket

    view = await asking(show_ticket, asked.number)
    story = [one for one in view.entries if one.seq > asked.after_seq][: asked.limit]
    return {"ticket": ticket_document(view.ticket), "story": story_document(story)}


async def _list_runs(asking: Asking, asked: arguments.ListRuns) -> Document:
    from operator_sre.app.pages import page_of_runs

    found = await asking(page_of_runs, limit=asked.limit, before=asked.before)
    return {"runs": [to_json(one) for one in found]}


async def _show_health(asking: Asking, asked: arguments.ShowHealth) -> Document:
    from operator_sre.app.health import show_health

    view = await asking(show_health)
    subjects = [one for one in view.subjects if asked.subject in ("", one.subject)]
    if asked.subject and not subjects:
        there = ", ".join(one.subject for one in view.subjects) or "none"
        raise NotFoundError(
            f"There is no subject {asked.subject[:60]!r}.", next_step=f"Subjects: {there}."
        )
    told: list[Document] = []
    for one in subjects:
        document: Document = to_json(one)
        document["tickets"] = [ticket.id for ticket in one.tickets]
        told.append(document)
    health = {"at": to_json(view.at), "health": view.health.value, "fine": view.fine}
    return {**health, "subjects": told}


async def _search_history(asking: Asking, asked: arguments.SearchHistory) -> Document:
    from operator_sre.app.history import search_commands, wanted

    where = wanted(asking.home, ticket=asked.ticket, run=asked.run_id, since=asked.since)
    found = await search_commands(
        asking.home, asked.text, where, limit=asked.limit, before=asked.before or None
    )
    return {"commands": [command_document(one) for one in found.commands], "behind": found.behind}


async def _propose_action(asking: Asking, asked: arguments.ProposeAction) -> Document:
    from operator_sre.app.proposals import propose_action, proposed_action

    shell = Action.shell(asked.command, target=asked.target, reasoning=asked.reasoning)
    action = replace(shell, expected=asked.expected, cwd=asked.cwd, timeout_s=asked.timeout_s)
    made = await propose_action(asking.home, asking.by, action, subject=asked.subject)
    return result_document(await proposed_action(asking.home, asking.by, made))


async def _action_result(asking: Asking, asked: arguments.ActionResult) -> Document:
    from operator_sre.app.proposals import proposed_action

    found = await proposed_action(asking.home, asking.by, asked.action_id, wait_s=asked.wait_s)
    return result_document(found)


async def _pending_approvals(asking: Asking, asked: arguments.Nothing) -> Document:
    from operator_sre.app.approvals import list_approvals

    found = await asking(list_approvals, pending_only=True)
    return {"approvals": [approval_document(one) for one in found[:PENDING_MAX]]}


async def _pending_confirmations(asking: Asking, asked: arguments.Nothing) -> Document:
    from operator_sre.app.confirmations import find

    found = await asking(find, pending_only=True)
    return {"confirmations": [confirmation_document(one) for one in found[:PENDING_MAX]]}


async def read_resource(asking: Asking, kind: str, name: str) -> Document:
    """A ticket by its number, or a run by its id. NotFoundError when there is none."""
    if kind == "ticket" and name.isascii() and name.isdigit() and 0 < len(name) < 19:
        return await _show_ticket(
            asking, arguments.read(arguments.ShowTicket, {"number": int(name)})
        )
    if kind == "run":
        run = arguments.read(arguments.RunId, {"run_id": name})
        timeline = arguments.read(arguments.RunTimeline, {"run_id": name})
        events = (await _run_timeline(asking, timeline))["events"]
        return {**await _summarize_run(asking, run), "events": events}
    raise NotFoundError(
        f"There is no resource {f'{kind}://{name}'[:100]!r}.",
        next_step="There are ticket://NUMBER and run://ID.",
    )


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "validate_project",
            "Validate a project",
            "Whether a project folder is ready, and every reason why it is not.",
            arguments.ValidateProject,
            messages.ValidateAgentProjectResponse,
            _validate_project,
            # A project may lie in any folder of the machine.
            role=Role.ADMIN,
            outside=True,
        ),
        Tool(
            "summarize_run",
            "Summarize a run",
            "How a run went, in figures and a sentence.",
            arguments.RunId,
            messages.SummarizeRunResponse,
            _summarize_run,
        ),
        Tool(
            "explain_failure",
            "Explain a failure",
            "Why a run failed, what shows it, and the one thing to do next.",
            arguments.RunId,
            messages.ExplainFailureResponse,
            _explain_failure,
        ),
        Tool(
            "explain_denial",
            "Explain a denial",
            "Which rule of the policy denied an action of a run, or would deny one.",
            arguments.ExplainDenial,
            messages.ExplainPolicyDenialResponse,
            _explain_denial,
        ),
        Tool(
            "recommend_patch",
            "Propose a change of the policy",
            "Which change of the policy would allow something. It is proposed to people; nothing"
            " is applied before one of them confirms it with: operator confirmations.",
            arguments.RecommendPatch,
            messages.RecommendPolicyPatchResponse,
            _recommend_patch,
            role=Role.APPROVER,
            reads=False,
        ),
        Tool(
            "run_timeline",
            "Timeline of a run",
            "All that happened in a run, oldest first.",
            arguments.RunTimeline,
            messages.GetRunTimelineResponse,
            _run_timeline,
        ),
        Tool(
            "next_action",
            "Next action",
            "The one thing to do next: about a run, or about all there is.",
            arguments.NextAction,
            messages.NextActionResponse,
            _next_action,
        ),
        Tool(
            "list_tickets",
            "List tickets",
            "What is or was broken, the most urgent and oldest first.",
            arguments.ListTickets,
            outputs.TICKETS,
            _list_tickets,
        ),
        Tool(
            "show_ticket",
            "Show a ticket",
            "One ticket, and its story as the ledger has it.",
            arguments.ShowTicket,
            outputs.TICKET,
            _show_ticket,
        ),
        Tool(
            "list_runs",
            "List runs",
            "Runs of minds on tickets, the newest first.",
            arguments.ListRuns,
            outputs.RUNS,
            _list_runs,
        ),
        Tool(
            "show_health",
            "Show health",
            "How every subject is, the worst first, by what was seen last.",
            arguments.ShowHealth,
            outputs.HEALTH,
            _show_health,
        ),
        Tool(
            "search_history",
            "Search the history of commands",
            "Commands, run or refused, whose command, context or output has all these words.",
            arguments.SearchHistory,
            outputs.COMMANDS,
            _search_history,
        ),
        Tool(
            "propose_action",
            "Propose an action",
            "Ask for one command. It does not run by asking: the gate judges it, people approve"
            " what is risky, and an agent of this home runs what may run. See action_result.",
            arguments.ProposeAction,
            outputs.ACTION,
            _propose_action,
            role=Role.APPROVER,
            reads=False,
            destroys=True,
            outside=True,
        ),
        Tool(
            "action_result",
            "Result of an action",
            "What became of an action that you proposed; can wait for it.",
            arguments.ActionResult,
            outputs.ACTION,
            _action_result,
        ),
        Tool(
            "pending_approvals",
            "Pending approvals",
            "Requests that wait for a person. Only people answer them, with: operator approvals.",
            arguments.Nothing,
            outputs.APPROVALS,
            _pending_approvals,
        ),
        Tool(
            "pending_confirmations",
            "Pending confirmations",
            "Changes that wait for a person's yes, with: operator confirmations.",
            arguments.Nothing,
            outputs.CONFIRMATIONS,
            _pending_confirmations,
        ),
    )
}
