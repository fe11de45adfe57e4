"""Actions that API clients propose; the gate judges them, and the hub or an agent runs them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request, Response

from operator_protocols.domain.action import TIMEOUT_S_MAX, Action, Urgency
from operator_protocols.domain.token import Role, Token
from operator_sre.app.hub import ActionResult, Agent, Hub
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.response import answer
from operator_sre.faces.api.routes import Door, home_of, opens, read_body

__all__ = ["ActionDocument", "ActionRequest", "router"]

router = APIRouter(route_class=Door, prefix="/v1/actions")
Id = Annotated[str, Path(min_length=1, max_length=100, description="Action ID.")]
TEXT_MAX = 4000
COMMAND_MAX = 100_000
PATH_MAX = 4096
Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]


@dataclass(frozen=True, slots=True)
class ActionDocument:
    """The state of an action, and its result when it has one."""

    action: ActionResult
    schema_version: str = SCHEMA_VERSION


class ActionRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command and the reason for it. The gate judges it like every other action."""

    command: Annotated[str, msgspec.Meta(min_length=1, max_length=COMMAND_MAX)]
    reasoning: Text
    expected: Text = ""
    subject: Annotated[str, msgspec.Meta(max_length=200)] = ""
    target: Annotated[str, msgspec.Meta(max_length=200)] = ""
    cwd: Annotated[str, msgspec.Meta(min_length=1, max_length=PATH_MAX)] = "/"
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=TIMEOUT_S_MAX)] = 120.0
    urgency: Urgency = Urgency.SOON


@opens(
    router,
    "POST",
    "",
    role=Role.APPROVER,
    asks=ActionRequest,
    answers=ActionDocument,
    status=202,
    errors=[404],
)
async def propose_action(request: Request) -> Response:
    """Propose an action; the hub or an agent of this home runs it when it is permitted."""
    proposal = await read_body(request, ActionRequest)
    shell = Action.shell(proposal.command, target=proposal.target, reasoning=proposal.reasoning)
    action = replace(
        shell,
        expected=proposal.expected,
        cwd=proposal.cwd,
        timeout_s=proposal.timeout_s,
        urgency=proposal.urgency,
    )
    hub, agent = Hub(home_of(request)), _agent(request)
    made = await hub.request_system_action(agent, action, subject=proposal.subject)
    return answer(ActionDocument(hub.get_action_result(made, agent.name)), status=202)


@opens(router, "GET", "/{action}", role=Role.VIEWER, answers=ActionDocument, errors=[404])
async def show_action(request: Request, action: Id) -> Response:
    """The state of an action that the same person proposed."""
    hub, agent = Hub(home_of(request)), _agent(request)
    return answer(ActionDocument(hub.get_action_result(action, agent.name)))


def _agent(request: Request) -> Agent:
    token: Token = request.scope["token"]
    # Named after the person, so that no one approves an action they requested themselves.
    return Agent(token.created_by, "api")
