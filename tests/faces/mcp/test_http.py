"""`serve_http`: only with a token, by a name of ours, and no more than its role."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolRequestParams

from operator_protocols.domain.entry import Kind
from operator_sre.app import tokens
from operator_sre.app.persons import acting_refusals
from operator_sre.app.tokens import Refusals
from operator_sre.faces.mcp.server import Desk
from operator_sre.faces.mcp.tools import TOOLS, Asking, Document
from tests.contract.samples import approval
from tests.contract_messages.holding import held_to_schema
from tests.faces.mcp.asking import GOOD, Heard, ask_everything, client_of
from tests.faces.mcp.world import Place

BODY = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def url(place: Place) -> Iterator[str]:
    """Where the server listens, in another process; a signal ends it."""
    words = ("--http", "--port", "0", "--json", "--log-level", "error")
    with place.started(*words, stdin=subprocess.DEVNULL) as server:
        told = server.hear().decode()
        held_to_schema(("mcp", *words), told)
        yield json.loads(told)["listening"][0]
        assert server.end(signal.SIGTERM) == (128 + signal.SIGTERM, b"")
    assert "Traceback" not in server.errors, server.errors


def _heard(
    place: Place, url: str, role: str, *, mode: str = "auto", source: str = "127.0.0.1"
) -> Heard:
    async def ask() -> Heard:
        headers = {"authorization": f"Bearer {place.secrets[role]}"}
        door = httpx2.AsyncHTTPTransport(local_address=source)
        async with httpx2.AsyncClient(headers=headers, timeout=60, transport=door) as http:
            transport = streamable_http_client(url, http_client=http)
            async with client_of(transport, mode=mode) as client:
                return await ask_everything(client, hostile=False)

    return asyncio.run(ask())


def test_an_admin_hears_everything(place: Place, url: str) -> None:
    heard = _heard(place, url, "admin")
    assert [name for name, one in heard.answers.items() if one.failed] == []
    assert "run://run-b" in heard.resources
    made = [one for one in place.entries() if one.kind is Kind.WORKFLOW_REQUESTED]
    assert made[-1].actor.agent == "mcp-claude-code"
    assert made[-1].actor.type == "agent"


def test_a_viewer_looks_and_proposes_nothing(place: Place, url: str) -> None:
    before = place.entries()[-1].seq
    heard = _heard(place, url, "viewer", mode="legacy", source="127.0.0.2")
    failed = {name for name, one in heard.answers.items() if one.failed}
    assert failed == {"validate_project", "recommend_patch", "propose_action", "action_result"}
    assert "needs the role approver" in heard.answers["propose_action"].text
    assert "needs the role admin" in heard.answers["validate_project"].text
    (told,) = place.entries(before)
    assert (told.kind, told.actor.id) == (Kind.ACCESS_REFUSED, "127.0.0.2")
    assert told.payload["reasons"] == {"role": 1}
    assert told.payload["admission"]


def test_an_approver_proposes_and_administers_nothing(place: Place, url: str) -> None:
    heard = _heard(place, url, "approver", source="127.0.0.3")
    failed = {name for name, one in heard.answers.items() if one.failed}
    assert failed == {"validate_project"}


def test_nobody_else_is_let_in_and_that_is_on_record(place: Place, url: str) -> None:
    good = {"authorization": f"Bearer {place.secrets['viewer']}", **ACCEPT}
    gone = f"Bearer {place.secrets['revoked']}"
    cases: list[tuple[int, dict[str, Any]]] = [
        (401, {"headers": ACCEPT}),
        (401, {"headers": {**ACCEPT, "authorization": "Bearer operator_nonsense"}}),
        (401, {"headers": {**ACCEPT, "authorization": gone}}),
        (421, {"headers": {**good, "host": "evil.example"}}),
        (403, {"headers": {**good, "origin": "http://evil.example"}}),
        (403, {"headers": {**good, "origin": "http://[x"}}),
        (403, {"headers": {**good, "origin": "null"}}),
        (400, {"headers": good, "params": {"token": place.secrets["viewer"]}}),
        (
            413,
            {"headers": {**good, "content-type": "application/json"}, "content": b"x" * 1_100_000},
        ),
    ]
    with httpx2.Client(timeout=60) as client:
        for status, options in cases:
            told = options if "content" in options else {**options, "json": BODY}
            answer = client.post(url, **told)
            assert answer.status_code == status, (options, answer.text)
            for secret in place.secrets.values():
                assert secret not in answer.text
        assert client.get(url.replace("/mcp", "/other"), headers=good).status_code == 404
        for nonsense in (b"", b"{", b"[]", b"\xff", b"null", b'{"jsonrpc":"2.0"}'):
            answer = client.post(
                url, headers={**good, "content-type": "application/json"}, content=nonsense
            )
            assert 400 <= answer.status_code < 500, (nonsense, answer.text)
    kinds = {one.kind for one in place.entries()}
    assert {Kind.ACCESS_REFUSED, Kind.LISTENER_OPENED} <= kinds
    assert GOOD


def test_beyond_this_machine_it_needs_tls_or_to_be_meant(place: Place) -> None:
    words = ("--http", "--bind", "192.0.2.1", "--port", "0")
    with place.started(*words, stdin=subprocess.DEVNULL) as server:
        assert server.end() == (2, b"")
    assert "--tls-cert" in server.errors


@pytest.mark.asyncio
async def test_whoever_asks_by_a_token_may_no_more_than_its_role(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []

    async def listen(asking: Asking, asked: object) -> Document:
        waits = approval("one", at=asking.home.clock.now())
        heard.append(asking.home.permissions.may_approve(asking.by.id, waits))
        assert acting_refusals() is desk.refusals
        return {}

    monkeypatch.setitem(TOOLS, "show_health", replace(TOOLS["show_health"], call=listen))
    with place.opened() as home:
        desk = Desk(home, Refusals(home))
        for role in ("viewer", "admin"):
            scope = {"token": tokens.check(home, place.secrets[role])}
            context: Any = SimpleNamespace(
                session=SimpleNamespace(client_params=None),
                request=SimpleNamespace(scope=scope, client=None),
            )
            told = await desk.call_tool(context, CallToolRequestParams(name="show_health"))
            assert not told.is_error, told
    assert "viewer" in heard[0]
    assert heard[1] == ""
