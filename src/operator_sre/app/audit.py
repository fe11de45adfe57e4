"""The ledger, for people and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from operator_protocols.domain.entry import Entry
from operator_protocols.domain.run_record import RunRecord
from operator_protocols.errors import NotFoundError, OperatorError, StoreError, UsageError
from operator_sre.app.wiring import App, kept_head
from operator_sre.ledger import Anchor, Damage, Report, verify
from operator_sre.ledger.bundle import FORMATS, Bundle, Filter, export_lines, write_bundle
from operator_sre.ledger.verify import add_anchor, anchor_line, read_anchors

__all__ = [
    "EntryPages",
    "Filter",
    "Report",
    "RunView",
    "anchor_head",
    "behind",
    "export_bundle",
    "export_text",
    "list_runs",
    "page_of_run",
    "page_of_runs",
    "post_anchor",
    "record_damage",
    "show_entry",
    "show_record",
    "show_run",
    "tail",
    "verify_bundle",
    "verify_ledger",
]

ENTRIES_MAX = 5000
PAGE = 1000
POST_S = 10.0


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and all its entries, in order."""

    run: RunRecord
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class EntryPages:
    """Entries of a ticket, of a run, or all of them, in either direction."""

    app: App
    ticket: int | None = None
    run: str = ""

    def newer(self, after: int, *, limit: int) -> Sequence[Entry]:
        """Those behind an entry, oldest first; from the beginning with 0."""
        entries = self.app.store.entries
        return entries.after(after, limit=limit, ticket=self.ticket, run=self.run)

    def older(self, before: int, *, limit: int) -> Sequence[Entry]:
        """Those in front of an entry, newest first; from the end with 0."""
        entries = self.app.store.entries
        if not before:
            return entries.newest(limit=limit, ticket=self.ticket, run=self.run)
        if self.ticket is None and not self.run:
            # Nothing is ever missing in the chain, so that the page can be counted.
            found = entries.after(max(0, before - 1 - limit), limit=limit)
            return [entry for entry in reversed(found) if entry.seq < before]
        story = entries.newest(limit=ENTRIES_MAX, ticket=self.ticket, run=self.run)
        return [entry for entry in story if entry.seq < before][:limit]


def list_runs(app: App, *, limit: int) -> Sequence[RunRecord]:
    """The newest runs, newest first."""
    return app.store.runs.newest(limit=limit)


def page_of_runs(app: App, *, limit: int, before: str = "") -> Sequence[RunRecord]:
    """Runs, the newest first; `before` a run for the next page."""
    return app.store.runs.newest(limit=limit, before=before)


def page_of_run(app: App, run: str, *, after: int, limit: int) -> Sequence[Entry]:
    """Entries of a run behind an entry, oldest first. NotFoundError when there is no such run."""
    show_record(app, run)
    return app.store.entries.after(after, limit=limit, run=run)


def show_record(app: App, run: str) -> RunRecord:
    """One run without its entries."""
    record = app.store.runs.get(run)
    if record is None:
        raise NotFoundError(
            f"There is no run {run!r}.", next_step="List them with: operator audit list"
        )
    return record


def show_run(app: App, run: str) -> RunView:
    """One run as it went."""
    record = show_record(app, run)
    return RunView(record, tuple(app.store.entries.after(0, limit=ENTRIES_MAX, run=run)))


def show_entry(app: App, seq: int) -> Entry:
    """One entry of the ledger."""
    entry = app.store.entries.get(seq)
    if entry is None:
        raise NotFoundError(
            f"There is no entry {seq}.", next_step="List the newest with: operator audit list"
        )
    return entry


def tail(app: App, *, count: int) -> list[Entry]:
    """The newest entries, oldest first."""
    return list(app.store.entries.newest(limit=count))[::-1]


def behind(app: App, seq: int, *, limit: int = PAGE) -> Sequence[Entry]:
    """What has come since an entry, oldest first; so much of it at most."""
    return app.store.entries.after(seq, limit=limit)


def verify_ledger(
    app: App, *, progress: Callable[[int], None], anchors: Path | None = None
) -> Report:
    """Walk the whole chain, with its signatures, its anchors and the head that the home keeps."""
    known = [*read_anchors(anchors)] if anchors else []
    with suppress(StoreError):  # a head of another store is no evidence
        if kept := kept_head(app.config, app.clock, app.key).read():
            known.append(Anchor(kept[0], kept[1].hex()))
    return verify(
        app.store.entries,
        app.store.checkpoints,
        trusted_key=app.key.key,
        anchors=known,
        progress=progress,
    )


async def record_damage(app: App, damages: Sequence[Damage]) -> Entry:
    """Set damaged entries aside and continue in a new segment. Idempotent."""
    found = [(damage.seq, damage.kind.value, damage.detail) for damage in damages]
    return await app.store.quarantine.begin_segment(found)


def verify_bundle(path: Path, *, key: str, progress: Callable[[int], None]) -> Report:
    """Check a bundle by itself; with a key of one's own, that it is the signer's as well."""
    bundle = Bundle(path)
    return verify(bundle, bundle, trusted_key=key or bundle.key, progress=progress)


def anchor_head(app: App, *, file: Path | None) -> str:
    """The head as a line to keep elsewhere; appended to a file where one is named."""
    newest = app.store.entries.newest(limit=1)
    if not newest:
        raise UsageError("The ledger is empty; there is no head to anchor.")
    anchor = Anchor(newest[0].seq, newest[0].hash)
    line = anchor_line(anchor, at=app.clock.now().isoformat(), key=app.key.key)
    if file is not None:
        try:
            add_anchor(file, line)
        except OSError as error:
            raise OperatorError(
                f"The anchor could not be written to {str(file)!r}: {error.strerror}.",
                next_step="Name another file.",
            ) from error
    return line


async def post_anchor(line: str, url: str) -> None:
    """Send an anchor to a place that keeps it."""
    import httpx2

    headers = {"content-type": "application/json"}
    try:
        async with httpx2.AsyncClient(timeout=POST_S) as client:
            answer = await client.post(url, content=line, headers=headers)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OperatorError(f"The anchor could not be sent: {type(error).__name__}.") from error
    if not answer.is_success:
        raise OperatorError(f"The anchor was refused with status {answer.status_code}.")


def export_bundle(app: App, path: Path, wanted: Filter) -> int:
    """Write a bundle that verifies by itself; how many entries are in it whole."""
    try:
        return write_bundle(
            path, app.store.entries, app.store.checkpoints, key=app.key.key, keep=wanted.keeps
        )
    except OSError as error:
        raise OperatorError(
            f"The bundle could not be written to {str(path)!r}: {error.strerror}.",
            next_step="Name another file.",
        ) from error


def export_text(app: App, style: str, wanted: Filter) -> Iterator[str]:
    """The wanted entries for people, line by line."""
    if style not in FORMATS:
        known = ", ".join(["bundle", *FORMATS])
        raise UsageError(f"There is no format {style!r}.", next_step=f"Formats: {known}.")

    def entries() -> Iterator[Entry]:
        seq = 0
        while page := app.store.entries.after(seq, limit=PAGE):
            yield from filter(wanted.keeps, page)
            seq = page[-1].seq

    return export_lines(entries(), style)
