"""A real client of the protocol, which asks everything there is to ask and keeps the answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation, Tool

from operator_sre.operations import all_operations
from tests.faces.mcp.world import FAILED, RUN

__all__ = ["CLIENT", "GOOD", "Asked", "Heard", "ask_everything", "client_of"]

CLIENT = Implementation(name="Claude Code", version="1")
# Arguments with which each tool has an answer.
GOOD: Mapping[str, dict[str, Any]] = {
    "validate_project": {"project_dir": "/nowhere"},
    "summarize_run": {"run_id": RUN},
    "explain_failure": {"run_id": FAILED},
    "explain_denial": {"action": "rm -rf /"},
    "recommend_patch": {"request": "allow host example.com"},
    "run_timeline": {"run_id": RUN},
    "next_action": {},
    "list_tickets": {},
    "show_ticket": {"number": 3},
    "list_runs": {},
    "show_health": {},
    "search_history": {"text": "uptime"},
    "propose_action": {"command": "uptime", "reasoning": "to see how it does"},
    "pending_approvals": {},
    "pending_confirmations": {},
    **{one.tool.name: {} for one in all_operations() if one.tool and not one.arguments},
}


@dataclass(frozen=True)
class Asked:
    """One answer: whether it is an error, its document, and its text."""

    failed: bool
    document: dict[str, Any]
    text: str


@dataclass
class Heard:
    """All that a client was told."""

    tools: dict[str, Tool] = field(default_factory=dict)
    instructions: str = ""
    answers: dict[str, Asked] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    hostile: list[Asked] = field(default_factory=list)


def client_of(server: Any, *, mode: str = "auto") -> Client:
    """A client under a name of its own."""
    if isinstance(server, StdioServerParameters):
        # Its default is the stderr of the moment it was imported, which pytest has closed by now.
        server = stdio_client(server, errlog=sys.__stderr__ or sys.stderr)
    return Client(server, client_info=CLIENT, read_timeout_seconds=60, mode=mode)


async def ask_everything(client: Client, *, hostile: bool) -> Heard:
    """Every tool with arguments that make sense, or with hostile ones too, and every resource."""
    heard = Heard(instructions=client.instructions or "")
    heard.tools = {one.name: one for one in (await client.list_tools()).tools}
    for name, given in GOOD.items():
        heard.answers[name] = await _call(client, name, given)
    made = heard.answers["propose_action"].document.get("action_id", "none")
    heard.answers["action_result"] = await _call(client, "action_result", {"action_id": made})
    for one in (await client.list_resources()).resources:
        heard.resources[str(one.uri)] = await _read(client, str(one.uri))
    for template in (await client.list_resource_templates()).resource_templates:
        heard.resources[template.uri_template] = template.name
    for uri in ("ticket://999", "ticket://-1", "run://nope", "file:///etc/passwd", "x://y"):
        try:
            heard.refused[uri] = await _read(client, uri)
        except MCPError as error:
            heard.refused[uri] = f"refused: {error}"
    try:
        await client.call_tool("approve", {"id": "wanted"})
    except MCPError as error:
        heard.refused["approve"] = f"refused: {error}"
    for name in heard.tools if hostile else ():
        for given in _hostile(name):
            heard.hostile.append(await _call(client, name, given))
    return heard


def _hostile(name: str) -> list[dict[str, Any]]:
    """What somebody would try who wants a decision out of a tool that has none."""
    decide = {"approve": True, "decision": "approved", "by": "root", "yes": True}
    good = dict(GOOD.get(name, {"action_id": "x"}))
    words = dict.fromkeys(good, "wanted; operator approvals approve wanted")
    return [
        {**good, **decide},
        {**good, "confirmation_id": "asked", "state": "approved"},
        {**good, "role": "admin", "token": "operator_x"},
        {key: {"$approve": "wanted"} for key in good} or {"": None},
        dict.fromkeys(good, 2**70) or {"x": 2**70},
        words if good else {"id": "wanted"},
    ]


async def _call(client: Client, name: str, given: dict[str, Any]) -> Asked:
    told = await client.call_tool(name, given)
    text = told.content[0].text  # type: ignore[union-attr]
    return Asked(told.is_error, told.structured_content, text)


async def _read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    text: str = content.text  # type: ignore[union-attr]
    json.loads(text)
    return text
