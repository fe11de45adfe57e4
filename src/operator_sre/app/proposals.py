"""What agents from elsewhere ask for: it is judged as any other, and only people say yes to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.verdict import Level, Risk, Verdict
from operator_protocols.domain.workflow import Origin
from operator_protocols.errors import AuthorityError, NotFoundError
from operator_sre.app.approvals import signed_in

if TYPE_CHECKING:
    from operator_sre.app.hub import ActionResult
    from operator_sre.app.wiring import App

__all__ = [
    "Proposed",
    "foreign_agent",
    "propose_action",
    "proposed_action",
    "refuse_who_may_not",
]

NAME_MAX = 40
# In front of every name that a client gives itself, so that none can take the name of another kind.
PREFIX = "mcp-"
POLL_S = 0.2
WAIT_S_MAX = 30.0


@dataclass(frozen=True, slots=True)
class Proposed:
    """Where a proposed action stands, and the request that people have to answer first."""

    action: ActionResult
    approval: str = ""


def foreign_agent(name: str) -> Actor:
    """Who asks: an agent under the name it gave itself, for whoever started it or let it in."""
    known = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:NAME_MAX] or "client"
    return Actor(signed_in(), "agent", f"{PREFIX}{known.lower()}")


def refuse_who_may_not(app: App, person: str, action: Action) -> None:
    """AuthorityError for who may have nothing changed: no agent of theirs asks for it either."""
    change = Verdict(action, Level.REVIEW, Risk.LOW, (), "it may change something", "")
    if why := app.permissions.may_request(Actor(person, "user"), change):
        raise AuthorityError(why, next_step="Ask an admin for a larger role.")


async def propose_action(app: App, by: Actor, action: Action, *, subject: str = "") -> str:
    """Ask for an action; its id. Whoever serves the hub, or any agent of this home, runs it."""
    from operator_sre.app.workflows import add_workflow, command_workflow

    refuse_who_may_not(app, by.id, action)
    workflow = command_workflow(action, subject=subject)
    record = await add_workflow(app, workflow, origin=Origin.HUB, requester=by)
    return record.id


async def proposed_action(app: App, by: Actor, action: str, *, wait_s: float = 0.0) -> Proposed:
    """What became of an action of this agent; waits so long for its end, or for people's turn."""
    from operator_sre.app.hub import Hub

    record = app.store.workflows.get(action)
    if record is None or record.origin is not Origin.HUB or record.requester != by:
        raise NotFoundError(
            f"There is no action {action[:60]!r} of this agent.",
            next_step="Name the id that propose_action gave.",
        )
    hub, until = Hub(app), app.clock.monotonic() + min(wait_s, WAIT_S_MAX)
    while True:
        result = hub.get_action_result(action, by.agent)
        waits = [one for one in hub.get_pending_actions(by.agent) if one.action == action]
        approval = waits[0].approval.id if waits and waits[0].approval else ""
        if result.state.over or approval or app.clock.monotonic() >= until:
            return Proposed(result, approval)
        await app.clock.sleep(POLL_S)
