"""The history of commands: pages of it, full text, figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from operator_protocols.domain.command import OUTCOMES, Command
from operator_protocols.domain.token import Role
from operator_protocols.domain.verdict import Level
from operator_sre.app.history import (
    Statistics,
    list_commands,
    search_commands,
    show_command,
    statistics,
    wanted,
)
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.answering import answer
from operator_sre.faces.api.doors import Door, ask, ask_long, home_of, opens
from operator_sre.faces.api.paging import LIMIT, Cursor, Limit, cursor_at, number_of, place_of

__all__ = ["CommandDocument", "CommandPage", "StatisticsDocument", "router"]

SEQ_MAX = 2**63 - 1
router = APIRouter(route_class=Door, prefix="/v1/history")
Seq = Annotated[int, Path(ge=1, le=SEQ_MAX, description="The entry that it began with.")]
Ticket = Annotated[int | None, Query(ge=1, le=SEQ_MAX)]
Word = Annotated[str, Query(max_length=200)]
Since = Annotated[str, Query(max_length=40, description="Such as 30m, 12h, 7d, or a time.")]
Outcome = Annotated[str, Query(pattern=f"^(|{'|'.join(OUTCOMES)})$")]
Text = Annotated[str, Query(min_length=1, max_length=500, description="Any words at all.")]


@dataclass(frozen=True, slots=True)
class CommandPage:
    """Commands, the newest first; `behind` counts entries a search has not looked at yet."""

    commands: tuple[Command, ...]
    next_cursor: str = ""
    behind: int = 0
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class CommandDocument:
    """One command."""

    command: Command
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class StatisticsDocument:
    """Figures over the newest commands."""

    statistics: Statistics
    schema_version: str = SCHEMA_VERSION


@opens(router, "GET", "", role=Role.VIEWER, answers=CommandPage)
async def list_history(
    request: Request,
    ticket: Ticket = None,
    run: Word = "",
    target: Word = "",
    level: Annotated[Level | None, Query()] = None,
    outcome: Outcome = "",
    since: Since = "",
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> Response:
    """Commands, run or refused, the newest first."""
    home = home_of(request)
    asked = ("history", ticket, run, target, level, outcome, since)
    where = wanted(
        home,
        ticket=ticket,
        run=run,
        target=target,
        level=level or "",
        outcome=outcome,
        since=since,
    )
    before = _before(place_of(cursor, *asked))
    found = await ask(home, list_commands, where, limit=limit + 1, before=before)
    return _page(found.commands, limit, asked)


@opens(router, "GET", "/search", role=Role.VIEWER, answers=CommandPage)
async def search_history(
    request: Request,
    q: Text,
    ticket: Ticket = None,
    run: Word = "",
    since: Since = "",
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> Response:
    """Commands whose command, context or output has all the words."""
    home, asked = home_of(request), ("commands", q, ticket, run, since)
    where = wanted(home, ticket=ticket, run=run, since=since)
    before = _before(place_of(cursor, *asked))
    found = await search_commands(home, q, where, limit=limit + 1, before=before)
    return _page(found.commands, limit, asked, found.behind)


@opens(router, "GET", "/stats", role=Role.VIEWER, answers=StatisticsDocument)
async def history_statistics(
    request: Request, ticket: Ticket = None, run: Word = "", since: Since = ""
) -> Response:
    """How often each command ran, and how often that went well."""
    home = home_of(request)
    where = wanted(home, ticket=ticket, run=run, since=since)
    return answer(StatisticsDocument(await ask_long(home, statistics, where)))


@opens(router, "GET", "/{seq}", role=Role.VIEWER, answers=CommandDocument, errors=[404])
async def show_one_command(request: Request, seq: Seq) -> Response:
    """One command."""
    view = await ask(home_of(request), show_command, seq)
    return answer(CommandDocument(view.command))


def _before(place: str) -> int | None:
    return number_of(place) or None


def _page(
    found: tuple[Command, ...], limit: int, asked: Sequence[object], behind: int = 0
) -> Response:
    rest = cursor_at(found[limit - 1].seq, *asked) if len(found) > limit else ""
    return answer(CommandPage(found[:limit], rest, behind))
