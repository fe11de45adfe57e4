"""The ledger: pages of it, one entry, full text, and whether it verifies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.token import Role
from operator_sre.app.audit import show_entry, verify_ledger
from operator_sre.app.history import search_entries
from operator_sre.app.pages import EntryPages
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.answering import answer
from operator_sre.faces.api.doors import Door, ask, ask_long, home_of, opens
from operator_sre.faces.api.paging import LIMIT, Cursor, Limit, cursor_at, number_of, place_of

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["DamageLine", "EntryDocument", "EntryPage", "Order", "Verified", "router"]

SEQ_MAX = 2**63 - 1
TEXT_MAX = 500
VERIFIED_S_MIN = 30.0
router = APIRouter(route_class=Door, prefix="/v1/audit")
Seq = Annotated[int, Path(ge=1, le=SEQ_MAX, description="The sequence of an entry.")]
Ticket = Annotated[int | None, Query(ge=1, le=SEQ_MAX)]
Run = Annotated[str, Query(max_length=100)]
Text = Annotated[str, Query(min_length=1, max_length=TEXT_MAX, description="Any words at all.")]


class Order(StrEnum):
    """Which end of the ledger comes first."""

    NEWEST = "newest"
    OLDEST = "oldest"


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries; `behind` counts those that a search has not looked at yet."""

    entries: tuple[Entry, ...]
    next_cursor: str = ""
    behind: int = 0
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class EntryDocument:
    """One entry."""

    entry: Entry
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class DamageLine:
    """One thing that is wrong with the chain."""

    seq: int
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Verified:
    """Whether the chain holds; looked through at most twice a minute."""

    intact: bool
    checked: int
    damages: tuple[DamageLine, ...]
    schema_version: str = SCHEMA_VERSION


@opens(router, "GET", "", role=Role.VIEWER, answers=EntryPage)
async def list_entries(
    request: Request,
    order: Annotated[Order, Query()] = Order.NEWEST,
    ticket: Ticket = None,
    run: Run = "",
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> Response:
    """Entries of the ledger, of a ticket or a run or all."""
    asked = ("audit", order, ticket, run)
    place = number_of(place_of(cursor, *asked))
    read = _older if order is Order.NEWEST else _newer
    found = await ask(home_of(request), read, ticket, run, place, limit + 1)
    rest = cursor_at(found[limit - 1].seq, *asked) if len(found) > limit else ""
    return answer(EntryPage(tuple(found[:limit]), rest))


@opens(router, "GET", "/search", role=Role.VIEWER, answers=EntryPage)
async def search_audit(
    request: Request,
    q: Text,
    ticket: Ticket = None,
    run: Run = "",
    limit: Limit = LIMIT,
    cursor: Cursor = "",
) -> Response:
    """Entries of any kind that have all the words, newest first."""
    asked = ("search", q, ticket, run)
    before = number_of(place_of(cursor, *asked)) or None
    found = await search_entries(
        home_of(request), q, limit=limit + 1, before=before, ticket=ticket, run=run
    )
    entries = found.entries
    rest = cursor_at(entries[limit - 1].seq, *asked) if len(entries) > limit else ""
    return answer(EntryPage(entries[:limit], rest, found.behind))


@opens(router, "GET", "/verify", role=Role.VIEWER, answers=Verified)
async def verify_audit(request: Request) -> Response:
    """Walk the whole chain, with its signatures: what is damaged, and how."""
    home, state = home_of(request), request.app.state
    # A long walk, which nobody may have us do again and again.
    async with state.verifying:
        now = home.clock.monotonic()
        if state.verified is None or now - state.verified[0] >= VERIFIED_S_MIN:
            report = await ask_long(home, verify_ledger, progress=lambda count: None)
            damages = tuple(
                DamageLine(one.seq, one.kind.value, one.detail) for one in report.damages
            )
            state.verified = (now, Verified(report.whole, report.entries, damages))
    return answer(state.verified[1])


@opens(router, "GET", "/{seq}", role=Role.VIEWER, answers=EntryDocument, errors=[404])
async def show_one_entry(request: Request, seq: Seq) -> Response:
    """One entry of the ledger."""
    return answer(EntryDocument(await ask(home_of(request), show_entry, seq)))


def _older(home: App, ticket: int | None, run: str, place: int, limit: int) -> Sequence[Entry]:
    return EntryPages(home, ticket, run).older(place, limit=limit)


def _newer(home: App, ticket: int | None, run: str, place: int, limit: int) -> Sequence[Entry]:
    return EntryPages(home, ticket, run).newer(place, limit=limit)
