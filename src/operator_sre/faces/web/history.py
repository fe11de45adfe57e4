"""The history page: every command that ran or was refused, with a search."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query, Request, Response

from operator_protocols.domain.command import OUTCOMES, CommandFilter
from operator_protocols.domain.verdict import Level
from operator_protocols.errors import NotFoundError
from operator_sre.app.history import (
    failures,
    list_commands,
    list_patterns,
    parse_filter,
    search_commands,
    show_command,
    show_output,
    statistics,
)
from operator_sre.faces.web.responses import download, home_of, page, part
from operator_sre.faces.web.routes import SEQ_MAX, address, pages_of, router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["router"]

COMMANDS_MAX = 50
ROWS_MAX = 40
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
PLACE = "/history"
PERIODS = ("1h", "24h", "7d", "30d")
router = router_of()
Seq = Annotated[int, Path(ge=1, le=SEQ_MAX)]
Word = Annotated[str, Query(max_length=200)]
Text = Annotated[str, Query(max_length=500)]
Number = Annotated[str, Query(pattern=r"^\d{0,18}$")]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The filters of the page; they also make the address of the next page."""

    q: str = ""
    target: str = ""
    level: str = ""
    outcome: str = ""
    since: str = ""
    ticket: str = ""
    before: str = ""

    def where(self, home: App) -> CommandFilter:
        """The filter. UsageError names what there is."""
        return parse_filter(
            home,
            ticket=int(self.ticket) if self.ticket else None,
            target=self.target,
            level=self.level,
            outcome=self.outcome,
            since=self.since,
        )


@shows(router, PLACE)
async def history(
    request: Request,
    q: Text = "",
    target: Word = "",
    level: Word = "",
    outcome: Word = "",
    since: Word = "",
    ticket: Number = "",
    before: Number = "",
) -> Response:
    """Commands, the newest first."""
    filters = _Asked(q, target, level, outcome, since, ticket, before)
    home, older_than = home_of(request), int(before) if before else None
    where, limit = filters.where(home), COMMANDS_MAX + 1
    if q.strip():
        found = await search_commands(home, q, where, limit=limit, before=older_than)
    else:
        read = asyncio.to_thread(list_commands, home, where, limit=limit, before=older_than)
        found = await read
    shown, older = pages_of(PLACE, filters, found.commands, COMMANDS_MAX)
    facts = {
        "filters": filters,
        "commands": shown,
        "older": older,
        "behind": found.behind,
        # Without a filter, new commands appear as they run.
        "live": filters == _Asked(),
        "levels": list(Level),
        "outcomes": OUTCOMES,
        "periods": PERIODS,
    }
    return await page(request, "history.html", lambda _: facts, title="History")


@shows(router, "/parts/history")
async def newest(request: Request) -> Response:
    """The newest commands, as they come."""

    def facts(home: App) -> Mapping[str, Any]:
        found = list_commands(home, parse_filter(home), limit=COMMANDS_MAX)
        return {"commands": found.commands}

    return await part(request, "parts/history_rows.html", facts)


@shows(router, f"{PLACE}/statistics")
async def figures(request: Request, since: Word = "") -> Response:
    """How often commands ran, how often that went well, and what fails again and again."""

    def facts(home: App) -> Mapping[str, Any]:
        where = parse_filter(home, since=since)
        known = statistics(home, where)
        return {
            "since": since,
            "periods": PERIODS,
            "figures": known,
            "tallies": known.commands[:ROWS_MAX],
            "groups": failures(home, where).by_category,
            "patterns": list_patterns(home)[:ROWS_MAX],
            "address": address,
        }

    return await page(request, "history_statistics.html", facts, title="Statistics")


@shows(router, f"{PLACE}/{{seq}}")
async def command(request: Request, seq: Seq) -> Response:
    """One command: its agent, its approver and its output."""

    def facts(home: App) -> Mapping[str, Any]:
        view = show_command(home, seq)
        return {"command": view.command, "kept": bool(view.stdout_file or view.stderr_file)}

    return await page(request, "history_command.html", facts, title=f"Command {seq}")


@shows(router, f"{PLACE}/{{seq}}/output")
async def output(request: Request, seq: Seq) -> Response:
    """Its whole output, without secrets, as a file."""
    kept: list[bytes] = []
    size = 0

    def take(stream: int, chunk: bytes) -> bool:
        """As much of it as a page may hold; the rest is on the machine where it ran."""
        nonlocal size
        kept.append(chunk[: OUTPUT_BYTES_MAX - size])
        size += len(kept[-1])
        return size < OUTPUT_BYTES_MAX

    await asyncio.to_thread(show_output, home_of(request), seq, take)
    if not kept:
        raise NotFoundError(f"Command {seq} has no output.", next_step="See its exit code.")
    text = b"".join(kept)
    return download(text, f"command-{seq}.txt", "text/plain; charset=utf-8")
