"""The MCP server: tools and resources. Untrusted text is marked and answers are bounded."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.token import Audience, Role, Token
from operator_protocols.errors import AuthorityError, OperatorError
from operator_sre import __version__
from operator_sre.app.hub import foreign_agent
from operator_sre.app.marks import TOO_LONG, Marks
from operator_sre.app.tokens import role_in_force
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.mcp import schemas
from operator_sre.faces.mcp.schemas import output_schema
from operator_sre.faces.mcp.tools import TOOLS, Asking, Document, read_resource
from operator_sre.faces.servers.admission import Caller

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from operator_sre.app.tokens import Refusals
    from operator_sre.app.wiring import App

__all__ = ["Desk", "server_of"]

AT_ONCE_MAX = 8
RESOURCES_MAX = 50
JSON = "application/json"
INSTRUCTIONS = """\
Operator monitors systems, opens a ticket when an invariant breaks, and runs repairs that its gate
permits. You can read everything and propose actions. You cannot approve or confirm anything: only
people can, in a terminal or browser. Start with show_health, list_tickets or next_action.
"""
log = logging.getLogger(__name__)


@dataclass(slots=True)
class Desk:
    """Answers the requests about one home, a few at once."""

    home: App
    refusals: Refusals
    marks: Marks = field(default_factory=Marks)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE_MAX))

    async def list_tools(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """Every tool, with its description and hints."""
        return types.ListToolsResult(tools=list(_describe_tools()))

    async def call_tool(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Call a tool; an error is one sentence without internals."""
        tool = TOOLS.get(params.name)
        if tool is None:
            there = ", ".join(TOOLS)
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool. Known tools: {there}.")
        try:
            request = schemas.read(tool.takes, params.arguments)
            async with self._turns, self._admit(context, tool.role) as asking:
                document = await tool.call(asking, request)
            marked = self._document(document)
            if marked.get("note") == TOO_LONG:
                return _fail(ErrorCategory.BUDGET_EXCEEDED, TOO_LONG, NextAction.RERUN)
            content: list[types.ContentBlock] = [
                types.TextContent(text=json.dumps(marked, ensure_ascii=False))
            ]
            return types.CallToolResult(content=content, structured_content=marked)
        except OperatorError as error:
            return _fail(error.category, str(error), error.next_action)
        except Exception as error:  # noqa: BLE001  a stranger hears no more than that it broke
            log.error("a tool failed: %s: %r", params.name, error)
            words = "Internal error. See the log of the MCP server."
            return _fail(ErrorCategory.AGENT_RUNTIME_EXCEPTION, words, NextAction.RERUN)

    async def list_resources(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Open tickets and the newest runs."""
        from operator_sre.app.audit import page_of_runs
        from operator_sre.app.tickets import list_tickets

        live = ("open", "claimed", "watched", "escalated")
        async with self._admit(context, Role.VIEWER) as asking:
            tickets = await asking(list_tickets, states=live, subject="", limit=RESOURCES_MAX)
            runs = await asking(page_of_runs, limit=RESOURCES_MAX)
        found = [
            (f"ticket://{ticket.id}", f"ticket {ticket.id}, {ticket.state}") for ticket in tickets
        ]
        found += [(f"run://{run.id}", f"run {run.id}, {run.state}") for run in runs]
        return types.ListResourcesResult(
            resources=[types.Resource(uri=uri, name=name, mime_type=JSON) for uri, name in found]
        )

    async def list_templates(
        self, context: ServerRequestContext[Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """The URI templates of tickets and runs."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=uri, name=name, mime_type=JSON)
                for uri, name in (
                    ("ticket://{number}", "a ticket and its entries"),
                    ("run://{run_id}", "a run and its events"),
                )
            ]
        )

    async def read_resource(
        self, context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """A ticket or a run, as one JSON document."""
        uri = str(params.uri)
        kind, _, name = uri.partition("://")
        try:
            async with self._turns, self._admit(context, Role.VIEWER) as asking:
                document = await read_resource(asking, kind, name)
        except OperatorError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None
        text = json.dumps(self._document(document), ensure_ascii=False)
        contents = types.TextResourceContents(uri=params.uri, mime_type=JSON, text=text)
        return types.ReadResourceResult(contents=[contents])

    @asynccontextmanager
    async def _admit(self, context: ServerRequestContext[Any], role: Role) -> AsyncIterator[Asking]:
        """The client, acting as the owner of its token; AuthorityError without the role.

        On stdin and stdout the client acts as the person who started the server.
        """
        params = context.session.client_params
        name = params.client_info.name if params else ""
        request = context.request
        if request is None:
            yield Asking(self.home, foreign_agent(name))
            return
        token: Token = request.scope["token"]
        held = await asyncio.to_thread(role_in_force, self.home, token)
        source = request.client.host if request.client else "somebody"
        caller = Caller(token, held, source, Audience.MCP, self.refusals)
        if message := await caller.lacks(role):
            raise AuthorityError(
                message,
                next_step="Ask a person to create a token: operator tokens create NAME --for mcp.",
            )
        with caller.acting():
            yield Asking(self.home, foreign_agent(name))

    def _document(self, document: Document) -> Document:
        marked = self.marks.document(document)
        return {"schema_version": SCHEMA_VERSION, **marked, "untrusted": self.marks.meaning}


def server_of(desk: Desk) -> Server[dict[str, Any]]:
    """The server of a home, not listening yet."""
    server: Server[dict[str, Any]] = Server(
        "operator",
        version=__version__,
        title="Operator",
        instructions=f"{INSTRUCTIONS}{desk.marks.meaning}",
        on_list_tools=desk.list_tools,
        on_call_tool=desk.call_tool,
        on_list_resources=desk.list_resources,
        on_list_resource_templates=desk.list_templates,
        on_read_resource=desk.read_resource,
    )
    return server


@cache
def _describe_tools() -> tuple[types.Tool, ...]:
    return tuple(
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.says,
            input_schema=schemas.schema_of(tool.takes),
            output_schema=output_schema(tool.title, tool.tells),
            annotations=types.ToolAnnotations(
                title=tool.title,
                read_only_hint=tool.reads,
                destructive_hint=tool.destroys,
                idempotent_hint=tool.reads,
                open_world_hint=tool.outside,
            ),
        )
        for tool in TOOLS.values()
    )


def _fail(category: ErrorCategory, words: str, action: NextAction) -> types.CallToolResult:
    error = {"category": category.value, "message": words, "next_action": action.value}
    content: list[types.ContentBlock] = [types.TextContent(text=words)]
    document = {"schema_version": SCHEMA_VERSION, "error": error}
    return types.CallToolResult(content=content, structured_content=document, is_error=True)
