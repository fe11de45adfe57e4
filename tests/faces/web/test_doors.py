"""A token opens one door, and what came in by one door is not approved by its own side."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import httpx2
import pytest

from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import ApprovalState, fingerprint_of
from operator_protocols.domain.token import Audience, Role, Token
from operator_protocols.errors import AuthorityError
from operator_sre.app import approvals, confirmations, tokens
from operator_sre.app.approvals import approve
from operator_sre.app.hub import Agent, Hub, foreign_agent
from operator_sre.app.persons import acting_as, myself, signed_in
from operator_sre.app.tokens import PREFIX, Refusals
from operator_sre.codec import from_json, to_json
from operator_sre.faces.mcp.listener import McpFace
from operator_sre.faces.mcp.tools import TOOLS
from operator_sre.faces.servers.admission import Admission, Rates, TokenDesk, names_of
from tests.contract.clock import NOON
from tests.every import every
from tests.faces.web.world import Person, Web

_NUMBERS = count()
ACTION = {"command": "systemctl restart shop", "reasoning": "it is dead"}


def _token(web: Web, person: str, role: Role, door: Audience) -> str:
    """The secret of a token of this person, made once."""
    name = f"{person}-{role}-{door}"
    if name not in web.api.secrets:
        now = web.clock.now()
        until = now + timedelta(days=9)
        token = Token(f"token-{name}", name, role, person, now, until, audience=door)
        web.api.secrets[name] = secret = f"{PREFIX}{name}{'x' * 20}"
        asyncio.run(web.app.store.tokens.add(token, fingerprint=fingerprint_of(secret)))
    return web.api.secrets[name]


def _api(web: Web, secret: str, path: str, body: Any, **headers: str) -> httpx2.Response:
    told = {"authorization": f"Bearer {secret}", "content-type": "application/json", **headers}
    return web.stranger().ask("POST", path, content=json.dumps(body), headers=told)


def _mcp(web: Web, secret: str) -> httpx2.Response:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"let in"})

    rates = Rates(1e9, 1e9, web.clock.monotonic)
    desk = TokenDesk(web.app, Audience.MCP, rates, rates)
    door = Admission(inner, McpFace(desk, names_of(())), Refusals(web.app), names_of(()))

    async def ask() -> httpx2.Response:
        transport = httpx2.ASGITransport(app=door)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post("/mcp", headers={"authorization": f"Bearer {secret}"})

    return asyncio.run(ask())


def _sign_in(web: Web, secret: str) -> httpx2.Response:
    return web.stranger().post("/sign-in", {"token": secret, "next": "/"})


def _metrics(web: Web, secret: str) -> httpx2.Response:
    return web.stranger().get("/metrics", headers={"authorization": f"Bearer {secret}"})


DOORS: dict[Audience, tuple[Callable[[Web, str], httpx2.Response], int, str]] = {
    Audience.API: (_metrics, 200, "operator serve"),
    Audience.MCP: (_mcp, 200, "operator mcp --http"),
    Audience.WEB: (_sign_in, 303, "operator web"),
}


@every("door", list(Audience))
@every("audience", list(Audience))
def test_a_token_opens_its_own_door_and_no_other(
    web: Web, audience: Audience, door: Audience
) -> None:
    opening, status, _ = DOORS[door]
    refused = len(web.api.told(Kind.ACCESS_REFUSED))
    answer = opening(web, _token(web, "ada", Role.ADMIN, audience))
    if audience is door:
        assert answer.status_code == status
        return
    assert answer.status_code == 403
    assert DOORS[audience][2] in answer.text
    assert f"operator tokens create NAME --for {door}" in answer.text
    asyncio.run(web.state.refusals.flush())
    asyncio.run(web.console.api.state.refusals.flush())
    told = web.api.told(Kind.ACCESS_REFUSED)[refused:]
    assert any("audience" in one.payload["reasons"] for one in told)


def test_the_audience_is_on_record_and_shown(web: Web) -> None:
    making = tokens.create(web.app, "mine", Role.VIEWER, audience=Audience.MCP)
    token, _ = asyncio.run(making)
    made = web.api.told(Kind.TOKEN_CREATED)[-1].payload["admits"]
    assert (token.audience, made["audience"]) == (Audience.MCP, "mcp")
    assert 'data-name="for">mcp<' in web.person().get("/settings").text


def test_a_token_from_before_is_for_the_api() -> None:
    known = Token("t", "n", Role.VIEWER, "ada", NOON, NOON)
    told = to_json(known)
    del told["audience"]
    assert from_json(Token, told).audience is Audience.API


def _by_api(web: Web) -> Actor:
    made = _api(web, _token(web, signed_in(), Role.APPROVER, Audience.API), "/v1/actions", ACTION)
    return _requester(web, made.json()["action"]["action"])


def _by_mcp(web: Web) -> Actor:
    with acting_as(signed_in(), role="approver", door=Audience.MCP):
        return foreign_agent("assistant")


def _by_hub(web: Web) -> Actor:
    action = approvals.show_approval(web.app, "wanted").approval.action
    asked = Hub(web.app).request_system_action(Agent("planner"), action)
    return _requester(web, asyncio.run(asked))


def _by_command(web: Web) -> Actor:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("operator_sre.app.persons.is_started_by_runner", lambda: True)
        return myself()


def _by_console(web: Web) -> Actor:
    with acting_as(signed_in(), role="admin", door=Audience.WEB):
        return myself()


def _requester(web: Web, action: str) -> Actor:
    record = web.app.store.workflows.get(action)
    assert record is not None
    return record.requester


PROPOSERS: dict[str, Callable[[Web], Actor]] = {
    "api": _by_api,
    "mcp": _by_mcp,
    "hub": _by_hub,
    "command": _by_command,
    "terminal": lambda web: myself(),
    "console": _by_console,
}
PEOPLE = ("terminal", "console")


def _at_api(web: Web, name: str, person: str, role: Role) -> bool:
    secret, path = _token(web, person, role, Audience.API), f"/v1/approvals/{name}"
    seen = web.stranger().get(path, headers={"authorization": f"Bearer {secret}"})
    answer = _api(web, secret, f"{path}/approve", {}, **{"if-match": seen.headers["etag"]})
    assert answer.status_code in (200, 403), answer.text
    return answer.status_code == 200


def _at_console(web: Web, name: str, person: str, role: Role) -> bool:
    browser = Person(web.console)
    browser.post("/sign-in", {"token": _token(web, person, role, Audience.WEB), "next": "/"})
    place = f"/approvals/{name}"
    return browser.send(place, f"{place}/approve").status_code == 303


def _at_terminal(web: Web, name: str, person: str, role: Role) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("getpass.getuser", lambda: person)
        asyncio.run(approve(web.app, name, reason=""))
    return True


def _at_command(web: Web, name: str, person: str, role: Role) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("operator_sre.app.persons.is_started_by_runner", lambda: True)
        with pytest.raises(AuthorityError):
            asyncio.run(approve(web.app, name, reason=""))
    return False


# Who may approve: at which door, whether they are the owner of the proposal, with which role; then
# what a program proposed, and what a person typed.
TABLE = (
    (_at_terminal, True, Role.ADMIN, True, True),
    (_at_terminal, False, Role.ADMIN, True, True),
    (_at_console, True, Role.ADMIN, True, True),
    (_at_console, True, Role.APPROVER, False, False),
    (_at_console, False, Role.APPROVER, True, True),
    (_at_api, True, Role.ADMIN, False, True),
    (_at_api, True, Role.APPROVER, False, False),
    (_at_api, False, Role.APPROVER, True, True),
    (_at_command, True, Role.ADMIN, False, False),
)


@every("proposer", list(PROPOSERS))
@every("row", list(TABLE))
def test_who_proposed_does_not_approve_by_another_door(web: Web, proposer: str, row: Any) -> None:
    approving, is_own, role, for_programs, for_people = row
    requester = PROPOSERS[proposer](web)
    assert (requester.id, requester.type == "user") == (signed_in(), proposer in PEOPLE)
    name = f"door-{next(_NUMBERS)}"
    web.api.ask_approval(name, requester=requester)
    allowed = approving(web, name, signed_in() if is_own else "bob", role)
    assert allowed is (for_people if proposer in PEOPLE else for_programs)
    state = approvals.show_approval(web.app, name).approval.state
    assert state is (ApprovalState.APPROVED if allowed else ApprovalState.PENDING)


def test_no_tool_of_mcp_answers() -> None:
    assert not [one for one in TOOLS if "approve" in one or "confirm_" in one or "decide" in one]


def test_a_change_that_a_program_proposed_is_confirmed_by_no_program_of_its_owner(web: Web) -> None:
    mine = _token(web, signed_in(), Role.ADMIN, Audience.API)
    asked = _api(web, mine, "/v1/mode", {"mode": "execute", "subjects": ["shop"], "reason": "x"})
    assert asked.status_code == 202, asked.text
    one = asked.json()["confirmation"]
    assert (one["requested_by"]["id"], one["requested_by"]["type"]) == (signed_in(), "api")
    path, yes = f"/v1/confirmations/{one['id']}/approve", {"digest": one["digest"]}
    second = _token(web, signed_in(), Role.APPROVER, Audience.API)
    for secret in (mine, second):
        refused = _api(web, secret, path, yes)
        assert refused.status_code == 403, refused.text
    assert "no token for programs" in _api(web, mine, path, yes).text
    assert confirmations.get(web.app, one["id"]).state == "pending"
    others = _token(web, "bob", Role.ADMIN, Audience.API)
    assert _api(web, others, path, yes).status_code == 200
