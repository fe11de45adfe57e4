"""The ledger: every entry, found by any words, walked through, and taken along."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path as FilePath
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

from fastapi import Path, Query, Request, Response

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.token import Role
from operator_protocols.errors import OperatorError, UsageError
from operator_sre.app.audit import (
    EntryPages,
    Filter,
    Report,
    export_bundle,
    export_text,
    show_entry,
    tail,
    verify_ledger,
)
from operator_sre.app.history import search_entries
from operator_sre.app.story import lines_of, summarize_entry
from operator_sre.codec import to_json
from operator_sre.faces.web.responses import download, home_of, page, part, redirect, session_of
from operator_sre.faces.web.routes import SEQ_MAX, does, pages_of, router_of, shows

if TYPE_CHECKING:
    from operator_sre.app.wiring import App

__all__ = ["Walk", "router"]

ENTRIES_MAX = 60
CLOSE_S_MAX = 10.0
CHUNK_BYTES = 64 * 1024
# A longer value is a digest or a document; the page of the entry has all of it.
PLACE = "/audit"
BUNDLE = "bundle"
MEDIA = {
    BUNDLE: "application/zip",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
router = router_of()
Seq = Annotated[int, Path(ge=1, le=SEQ_MAX)]
Text = Annotated[str, Query(max_length=500)]
Run = Annotated[str, Query(max_length=100)]
Number = Annotated[str, Query(pattern=r"^\d{0,18}$")]


@dataclass(frozen=True, slots=True)
class _Filters:
    """The filters of the page; they also make the address of the next page."""

    q: str = ""
    ticket: str = ""
    run: str = ""
    before: str = ""

    @property
    def number(self) -> int | None:
        """The ticket that is meant."""
        return int(self.ticket) if self.ticket else None


@dataclass(frozen=True, slots=True)
class _Row:
    """An entry, and what it says as a sentence; `quiet` is one of which no story tells."""

    entry: Entry
    text: str
    tone: str = ""
    quiet: bool = False


@dataclass(slots=True)
class Walk:
    """A verification: its progress, who started it, and its result.

    One thread writes the progress and others read it; each value is replaced as a whole, so that
    no lock is needed.
    """

    by: str = ""
    began_at: datetime | None = None
    ended_at: datetime | None = None
    checked: int = 0
    total: int = 0
    report: Report | None = None
    problem: str = ""
    _held: threading.Lock = field(default_factory=threading.Lock)
    _closing: bool = False

    @property
    def running(self) -> bool:
        """Whether a verification runs now."""
        return self._held.locked()

    def begin(self, home: App, by: str) -> bool:
        """Start in the background; False if a verification is already running."""
        if not self._held.acquire(blocking=False):
            return False
        self.by, self.began_at, self.ended_at = by, home.clock.now(), None
        self.checked, self.total, self.report, self.problem = 0, 0, None, ""

        def tell(seq: int) -> None:
            self.checked = seq
            if self._closing:
                raise OperatorError("The console was stopped.")

        def walk() -> None:
            try:
                newest = tail(home, count=1)
                self.total = newest[0].seq if newest else 0
                self.report = verify_ledger(home, progress=tell)
            except OperatorError as error:
                self.problem = error.message
            finally:
                self.ended_at = home.clock.now()
                self._held.release()

        threading.Thread(target=walk, name="walk", daemon=True).start()
        return True

    def close(self) -> None:
        """Stop a running verification before the store is closed."""
        self._closing = True
        if self._held.acquire(timeout=CLOSE_S_MAX):
            self._held.release()


@shows(router, PLACE)
async def audit(
    request: Request, q: Text = "", ticket: Number = "", run: Run = "", before: Number = ""
) -> Response:
    """Entries, the newest first."""
    home, filters = home_of(request), _Filters(q, ticket, run, before)
    behind = 0
    if q.strip():
        place = int(before) if before else None
        searched = await search_entries(
            home, q, limit=ENTRIES_MAX + 1, before=place, ticket=filters.number, run=run
        )
        entries, behind = list(searched.entries), searched.behind
    else:
        pages = EntryPages(home, filters.number, run)
        read = asyncio.to_thread(pages.older, int(before or 0), limit=ENTRIES_MAX + 1)
        entries = list(await read)
    shown, older = pages_of(PLACE, filters, entries, ENTRIES_MAX)
    facts = {
        "filters": filters,
        "rows": [_row(entry) for entry in shown],
        "older": older,
        "behind": behind,
        "live": filters == _Filters(),
        "kinds": sorted(Kind),
        "styles": list(MEDIA),
        "walk": _walk_of(request),
    }
    return await page(request, "audit.html", lambda _: facts, title="Audit")


@shows(router, "/parts/audit")
async def newest(request: Request) -> Response:
    """The end of the ledger, as it grows."""

    def facts(home: App) -> Mapping[str, Any]:
        return {"rows": [_row(entry) for entry in EntryPages(home).older(0, limit=ENTRIES_MAX)]}

    return await part(request, "parts/audit_rows.html", facts)


@shows(router, "/parts/audit/walk")
async def walk(request: Request) -> Response:
    """How far the walk through the chain is."""
    return await part(request, "parts/audit_walk.html", lambda _: {"walk": _walk_of(request)})


@does(router, f"{PLACE}/verify", role=Role.VIEWER)
async def verify(request: Request) -> Response:
    """Begin to walk through the whole chain."""
    started = _walk_of(request).begin(home_of(request), session_of(request).who)
    words = "Verification started." if started else "Verification is already running."
    return redirect(request, words, to=PLACE)


@shows(router, f"{PLACE}/export")
async def export(
    request: Request,
    style: Annotated[str, Query(max_length=20)] = BUNDLE,
    ticket: Number = "",
    run: Run = "",
    kind: Annotated[str, Query(max_length=60)] = "",
) -> Response:
    """Entries to take along: a bundle that verifies by itself, or a text for people."""
    if kind and kind not in set(Kind):
        raise UsageError(f"There is no kind {kind!r}.", next_step="Choose one of the list.")
    if style not in MEDIA:
        raise UsageError(
            f"There is no format {style!r}.", next_step=f"Formats: {', '.join(MEDIA)}."
        )
    wanted = Filter(run=run, ticket=int(ticket) if ticket else None, kind=kind)
    home = home_of(request)
    if style == BUNDLE:
        # The bundle has no name any more while it is read.
        file = tempfile.NamedTemporaryFile(prefix="operator-ledger-")  # noqa: SIM115 - read later
        try:
            await asyncio.to_thread(export_bundle, home, FilePath(file.name), wanted)
        except BaseException:
            file.close()
            raise
        return download(_read(file), "ledger.zip", MEDIA[style])
    lines = export_text(home, style, wanted)
    text = (f"{line}\n".encode("utf-8", "backslashreplace") for line in lines)
    return download(text, f"ledger.{style}", MEDIA[style])


@shows(router, f"{PLACE}/{{seq}}")
async def entry(request: Request, seq: Seq) -> Response:
    """One entry: what it says, its bytes, and how it is chained."""

    def facts(home: App) -> Mapping[str, Any]:
        found = show_entry(home, seq)
        head = tail(home, count=1)[0].seq
        payload = json.dumps(to_json(found.payload), indent=2, ensure_ascii=False)
        return {"row": _row(found), "payload": payload, "next": seq + 1 if seq < head else 0}

    return await page(request, "audit_entry.html", facts, title=f"Entry {seq}")


def _walk_of(request: Request) -> Walk:
    """The walk of this console, which all its viewers share."""
    return cast("Walk", request.app.state.walk)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _row(entry: Entry) -> _Row:
    line = next(iter(lines_of(entry)), None)
    if line is not None:
        return _Row(entry, line.text, line.tone)
    return _Row(entry, summarize_entry(entry), quiet=True)
