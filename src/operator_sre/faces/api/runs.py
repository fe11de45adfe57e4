"""Runs: one mind's work on one ticket, and its transcript."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.domain.token import Role
from operator_sre.app.pages import page_of_run, page_of_runs, show_record
from operator_sre.app.story import Line, lines_of
from operator_sre.contract.messages import SCHEMA_VERSION
from operator_sre.faces.api.answering import answer
from operator_sre.faces.api.doors import Door, ask, home_of, opens
from operator_sre.faces.api.paging import LIMIT, Cursor, Limit, cursor_at, number_of, place_of

__all__ = ["RunDocument", "RunPage", "Told", "Transcript", "router"]

router = APIRouter(route_class=Door, prefix="/v1/runs")
Id = Annotated[str, Path(min_length=1, max_length=100, description="The id of a run.")]


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, the newest first."""

    runs: tuple[RunRecord, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class RunDocument:
    """One run."""

    run: RunRecord
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class Told:
    """An entry, and what it says in sentences."""

    entry: Entry
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Transcript:
    """A part of what happened in a run, oldest first."""

    run_id: str
    entries: tuple[Told, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@opens(router, "GET", "", role=Role.VIEWER, answers=RunPage)
async def list_all_runs(request: Request, limit: Limit = LIMIT, cursor: Cursor = "") -> Response:
    """Runs, the newest first."""
    before = place_of(cursor, "runs")
    found = await ask(home_of(request), page_of_runs, limit=limit + 1, before=before)
    rest = cursor_at(found[limit - 1].id, "runs") if len(found) > limit else ""
    return answer(RunPage(tuple(found[:limit]), rest))


@opens(router, "GET", "/{run}", role=Role.VIEWER, answers=RunDocument, errors=[404])
async def show_one_run(request: Request, run: Id) -> Response:
    """One run."""
    return answer(RunDocument(await ask(home_of(request), show_record, run)))


@opens(router, "GET", "/{run}/transcript", role=Role.VIEWER, answers=Transcript, errors=[404])
async def read_transcript(
    request: Request, run: Id, limit: Limit = LIMIT, cursor: Cursor = ""
) -> Response:
    """What happened in it, in order: entries of the ledger, with the sentences they tell."""
    home, place = home_of(request), place_of(cursor, "transcript", run)
    found = await ask(home, page_of_run, run, after=number_of(place), limit=limit + 1)
    rest = cursor_at(found[limit - 1].seq, "transcript", run) if len(found) > limit else ""
    told = tuple(Told(one, tuple(lines_of(one))) for one in found[:limit])
    return answer(Transcript(run, told, rest))
