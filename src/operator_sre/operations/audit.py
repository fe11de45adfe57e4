"""The ledger and runs: the record of everything that was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.run_record import RunRecord
from operator_sre.app.story import Line, lines_of
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.operations.operation import (
    NUMBER_MAX,
    TEXT_MAX,
    Operation,
    Page,
    Request,
    Route,
    Story,
    Table,
    Tool,
    View,
)

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["OPERATIONS", "SUMMARY", "EntryPage", "Order", "RunPage", "Told", "Transcript"]

SUMMARY = "Read, verify and export the audit log."
VERIFIED_S_MIN = 30.0
Many = Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of rows.")]
TicketNumber = Annotated[
    int | None,
    Meta(
        ge=1,
        le=NUMBER_MAX,
        description="Only entries of this ticket.",
        extra={"api": Meta(ge=1, le=NUMBER_MAX)},
    ),
]
Run = Annotated[
    str,
    Meta(
        max_length=TEXT_MAX,
        description="Only entries of this run.",
        extra={"api": Meta(max_length=100)},
    ),
]
RunId = Annotated[str, Meta(min_length=1, max_length=100, description="The id of a run.")]


class Order(StrEnum):
    """Which end of the ledger comes first."""

    NEWEST = "newest"
    OLDEST = "oldest"


class ListRuns(Request, frozen=True):
    """How many runs, in front of which."""

    before: Annotated[
        str, Meta(max_length=100, description="The id of a run.", extra={"cli": False})
    ] = ""
    limit: Many = 50


class ShowRun(Request, frozen=True):
    """Which run."""

    run: RunId


class ReadTranscript(Request, frozen=True):
    """Which run, and behind which entry."""

    run: RunId
    after: Annotated[int, Meta(ge=0, le=NUMBER_MAX, description="Only entries after this one.")] = 0
    limit: Many = 50


class ListEntries(Request, frozen=True):
    """Which entries, from which end."""

    order: Annotated[
        Order, Meta(description="The order: oldest or newest first.", extra={"api": Meta()})
    ] = Order.NEWEST
    ticket: TicketNumber = None
    run: Run = ""
    place: Annotated[int, Meta(ge=0, le=NUMBER_MAX, description="The last that was seen.")] = 0
    limit: Many = 50


class SearchEntries(Request, frozen=True):
    """A text, and where to look for it."""

    text: Annotated[
        str,
        Meta(
            max_length=TEXT_MAX,
            description="The text; entries must contain all its words.",
            extra={
                "query": "q",
                "api": Meta(min_length=1, max_length=500, description="The words to search for."),
            },
        ),
    ]
    limit: Many = 20
    ticket: TicketNumber = None
    run: Run = ""
    before: Annotated[
        int | None,
        Meta(le=NUMBER_MAX, description="Only entries before this number.", extra={"cli": False}),
    ] = None


class ShowEntry(Request, frozen=True):
    """Which entry."""

    seq: Annotated[int, Meta(ge=1, le=NUMBER_MAX, description="The sequence of an entry.")]


class VerifyLedger(Request, frozen=True):
    """No parameters."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, the newest first."""

    runs: tuple[RunRecord, ...]
    next_cursor: str = ""
    schema_version: str = SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class RunDocument:
    """Show one run."""

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


@dataclass(frozen=True, slots=True)
class EntryPage:
    """Entries; `behind` counts the entries that are not indexed yet."""

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


def read_transcript(app: App, *, run: str, after: int, limit: int) -> Transcript:
    """Entries of a run, with the sentences that they tell."""
    from operator_sre.app.audit import page_of_run

    found = page_of_run(app, run, after=after, limit=limit)
    return Transcript(run, tuple(Told(entry, tuple(lines_of(entry))) for entry in found))


def list_entries(
    app: App, *, order: Order, ticket: int | None, run: str, place: int, limit: int
) -> Sequence[Entry]:
    """Entries from one end of the ledger, behind the last that was seen."""
    from operator_sre.app.audit import EntryPages

    pages = EntryPages(app, ticket, run)
    read = pages.older if order is Order.NEWEST else pages.newer
    return read(place, limit=limit)


def verify(app: App) -> Verified:
    """Walk the whole chain, with its signatures."""
    from operator_sre.app.audit import verify_ledger

    report = verify_ledger(app, progress=lambda count: None)
    damages = tuple(
        DamageLine(damage.seq, damage.kind.value, damage.detail) for damage in report.damages
    )
    return Verified(report.whole, report.entries, damages)


def _runs(found: RunPage, now: datetime) -> View:
    rows = [
        (run.id, run.ticket, run.model, run.state, f"{run.started_at:%m-%d %H:%M:%S}", run.summary)
        for run in found.runs
    ]
    head = ("run", "ticket", "model", "state", "started", "summary")
    return [Table(head, rows, "No runs yet.")]


def _entries(found: EntryPage, now: datetime) -> View:
    return [Story(found.entries, plain=True)] if found.entries else ["Nothing was found."]


_HERE = "operator_sre.operations.audit"
_api_operation = partial(Operation, view=lambda found, now: [], is_command=False)
OPERATIONS = (
    Operation(
        name="audit list",
        help="List runs with their outcome, newest first.",
        request=ListRuns,
        result=RunPage,
        call="operator_sre.app.audit.page_of_runs",
        view=_runs,
        page=Page(key="id", place="before"),
        route=Route("GET", "/v1/runs", "list_all_runs", summary="Runs, the newest first."),
        tool=Tool("list_runs", "List runs", "Lists runs of agents on tickets, the newest first."),
    ),
    _api_operation(
        name="audit run",
        help="Show one run.",
        request=ShowRun,
        result=RunDocument,
        call="operator_sre.app.audit.show_record",
        route=Route("GET", "/v1/runs/{run}", "show_one_run", errors=(404,)),
    ),
    _api_operation(
        name="audit transcript",
        help="The ledger entries of a run in order, each with its sentences.",
        request=ReadTranscript,
        result=Transcript,
        call=f"{_HERE}.read_transcript",
        page=Page(key="entry.seq", place="after"),
        route=Route("GET", "/v1/runs/{run}/transcript", "read_transcript", errors=(404,)),
    ),
    _api_operation(
        name="audit entries",
        help="Entries of the ledger, of a ticket or a run or all.",
        request=ListEntries,
        result=EntryPage,
        call=f"{_HERE}.list_entries",
        page=Page(key="seq", place="place"),
        route=Route("GET", "/v1/audit", "list_entries"),
    ),
    Operation(
        name="audit search",
        help="Search entries by text, newest first.",
        request=SearchEntries,
        result=EntryPage,
        call="operator_sre.app.history.search_entries",
        view=_entries,
        page=Page(key="seq", place="before"),
        arguments=("text",),
        route=Route(
            "GET",
            "/v1/audit/search",
            "search_audit",
            summary="Entries of any kind that have all the words, newest first.",
        ),
    ),
    _api_operation(
        name="audit verify",
        help="Verify the whole chain with its signatures, and report every damage.",
        request=VerifyLedger,
        result=Verified,
        call=f"{_HERE}.verify",
        slow=True,
        route=Route("GET", "/v1/audit/verify", "verify_audit", kept_s=VERIFIED_S_MIN),
    ),
    _api_operation(
        name="audit entry",
        help="One entry of the ledger.",
        request=ShowEntry,
        result=EntryDocument,
        call="operator_sre.app.audit.show_entry",
        route=Route("GET", "/v1/audit/{seq}", "show_one_entry", errors=(404,)),
    ),
)
