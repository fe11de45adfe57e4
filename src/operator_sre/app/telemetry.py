"""Operator's own telemetry: metrics for Prometheus, a heartbeat, and traces of runs.

One process of a home sends the entries of runs as spans to a collector, without delaying the runs.
Unsent spans wait in the ledger while the collector is down; when there are too many, the oldest are
dropped and counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import TicketState
from operator_protocols.domain.trace import entry_of_span, span_id, trace_id, traced_run
from operator_protocols.domain.watcher import Watch
from operator_protocols.errors import NotFoundError, OperatorError, UsageError
from operator_sre import __version__
from operator_sre.app.confirmations import find as find_confirmations
from operator_sre.app.health import health_of
from operator_sre.app.listeners import is_loopback
from operator_sre.app.secret_store import read_secret
from operator_sre.notify.channel import PREFIX
from operator_sre.telemetry.metrics import (
    CONTENT_TYPE,
    WORDS_MAX,
    Channel,
    CheckCounts,
    Figures,
    Heartbeat,
    LedgerCounts,
    MetricsServer,
    exposition,
)
from operator_sre.telemetry.spans import Collector, Span, provider_named, spans_of

if TYPE_CHECKING:
    from operator_protocols.domain.entry import Cursor
    from operator_protocols.domain.health import Health
    from operator_sre.app.wiring import App

__all__ = [
    "METRICS_TYPE",
    "Meter",
    "Scraped",
    "Sender",
    "TelemetryStatus",
    "Watches",
    "entry_of",
    "run_spans",
    "send_heartbeats",
    "send_spans",
    "serve_metrics",
    "telemetry_status",
    "try_collector",
]

T = TypeVar("T")
Watches = Callable[[], Sequence[Watch]]
METRICS_TYPE = CONTENT_TYPE
FOLLOW_S, AGAIN_S = 1.0, 15.0
BEAT_S_MAX = 10.0
COUNTED_PAGE = 1000
ALERTS_MAX = 10_000
LIVE = tuple(state for state in TicketState if state.live)
CURSOR = "traces"
LEASE_S, RENEW_S = 30.0, 10.0
POLL_S, AWAY_S = 1.0, 5.0
BACK_OFF_S_MAX = 60.0
PAGE = 500
ENTRIES_MAX = 20_000
# So many entries wait for a collector that does not answer; what comes on top ends the oldest.
BEHIND_MAX = 20_000
OPEN_MAX = 1000
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TelemetryStatus:
    """The state of sending. `behind` entries are not read yet; `dropped` spans are lost."""

    endpoint: str
    sent: int
    dropped: int
    behind: int
    problem: str = ""


class Meter:
    """Counts while it follows the ledger, and asks the store for the rest when it is read."""

    def __init__(self, app: App, watches: Watches) -> None:
        self._app = app
        self._watches = watches
        self._ledger = LedgerCounts()
        self._looks = CheckCounts()
        self._errors = 0
        self._seq: int | None = None

    def follow(self) -> None:
        """Count what has come since the last time; from the head on when it is the first."""
        self._looks.take(self._watches())
        entries = self._app.store.entries
        if self._seq is None:
            newest = self._ask(lambda: entries.newest(limit=1))
            self._seq = None if newest is None else newest[0].seq if newest else 0
            return
        while page := self._ask(lambda: entries.after(self._seq or 0, limit=COUNTED_PAGE)):
            self._ledger.take(page)
            self._seq = page[-1].seq

    def figures(self) -> Figures:
        """Everything as it is now."""
        store = self._app.store
        newest = self._ask(lambda: store.entries.newest(limit=1))
        pending = self._ask(lambda: store.approvals.find(states=[ApprovalState.PENDING]))
        tickets = self._ask(lambda: store.tickets.find(states=LIVE)) or ()
        firing = self._ask(lambda: store.alerts.find(firing=True, limit=ALERTS_MAX)) or ()
        triggers = {trigger.name for trigger in self._app.config.triggers}
        traces = self._ask(lambda: telemetry_status(self._app))
        confirmations = self._ask(lambda: find_confirmations(self._app, pending_only=True))
        health: dict[str, Health] = {}
        for watch in self._watches()[:WORDS_MAX]:
            seen = self._ask(partial(health_of, self._app, watch.subject))
            if seen is not None:
                health[watch.subject] = seen.health
        channels = [
            Channel(
                cursor.name.removeprefix(PREFIX),
                *(int(cursor.note.get(word, 0)) for word in ("sent", "failed", "lost")),
            )
            for cursor in (self._ask(lambda: store.cursors.find(PREFIX)) or ())[:WORDS_MAX]
        ]
        return Figures(
            version=__version__,
            ledger=self._ledger,
            looks=self._looks,
            head=None if newest is None else newest[0].seq if newest else 0,
            behind=self._ask(store.search.behind),
            approvals=None if pending is None else len(pending),
            confirmations=None if confirmations is None else len(confirmations),
            spans={"sent": traces.sent, "dropped": traces.dropped} if traces else {},
            tickets=Counter((ticket.state.value, ticket.severity.value) for ticket in tickets),
            health=health,
            firing=Counter(alert.trigger for alert in firing if alert.trigger in triggers),
            channels=channels,
            store_errors=self._errors,
        )

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except OperatorError as error:  # what cannot be asked is left out, and counted
            self._errors += 1
            log.debug("cannot read the store: %s", error)
            return None


@dataclass(slots=True)
class Scraped:
    """Counts what the ledger holds from now on; two who scrape at once wait for each other."""

    meter: Meter
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def text(self) -> bytes:
        """The text that Prometheus scrapes."""
        with self._turn:
            self.meter.follow()
            return exposition(self.meter.figures)


async def serve_metrics(app: App, watches: Watches) -> None:
    """Serve our figures where the setting says, until cancelled; returns where it says nowhere."""
    address = str(app.config.values["metrics"])
    if not address:
        return
    host, _, port = address.rpartition(":")
    meter = Meter(app, watches)

    async def render() -> bytes:
        meter.follow()
        # Reading the store takes a while and must not block requests.
        return await asyncio.to_thread(exposition, meter.figures)

    server = MetricsServer(host.strip("[]"), int(port), content_type=CONTENT_TYPE, render=render)
    while True:
        try:
            async with server:
                log.info("metrics are at http://%s/metrics", address)
                while True:
                    meter.follow()
                    await app.clock.sleep(FOLLOW_S)
        except OSError as error:  # watching goes on without them
            log.error("metrics cannot be served at %s: %s", address, error.strerror or error)
        await app.clock.sleep(AGAIN_S)


async def send_heartbeats(app: App, watches: Watches) -> None:
    """Tell the URL of the setting that we look, until cancelled; returns where there is none."""
    file = str(app.config.values["heartbeat_url_file"])
    if not file:
        return

    async def beat() -> str:
        """Why it was not taken, without a word of where it goes; or ""."""
        import httpx2

        logging.getLogger("httpx2").setLevel(logging.WARNING)  # below that it logs addresses
        try:
            async with (
                asyncio.timeout(BEAT_S_MAX),
                httpx2.AsyncClient(timeout=BEAT_S_MAX) as client,
            ):
                answer = await client.get(read_secret(file).strip())
        except OperatorError as error:
            return str(error)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError) as error:
            return type(error).__name__
        return "" if answer.is_success else f"status {answer.status_code}"

    every_s = app.config.number("heartbeat_s")
    await Heartbeat(watches=watches, beat=beat, clock=app.clock, every_s=every_s).run()


def run_spans(app: App, run: str) -> Sequence[Span]:
    """The finished spans of a run, in the order of their ends."""
    entries = _entries_of(app, run)
    if not entries:
        raise NotFoundError(
            f"There is no run {run[:100]!r}.", next_step="List them with: operator audit list"
        )
    return spans_of(entries, provider_of=_providers(app))


def entry_of(app: App, span: str) -> Entry:
    """The entry that a span began with. NotFoundError when it is none of this home."""
    seq = entry_of_span(span)
    entry = app.store.entries.get(seq) if seq else None
    if entry is None or span_id(traced_run(entry.run, entry.seq), seq) != span:
        raise NotFoundError(
            f"There is no span {span[:60]!r} in this home.",
            next_step="Spans of a run: operator telemetry show RUN",
        )
    return entry


def telemetry_status(app: App) -> TelemetryStatus:
    """How sending goes, by what was written down of it."""
    known = next(
        (cursor for cursor in app.store.cursors.find(CURSOR) if cursor.name == CURSOR), None
    )
    newest = app.store.entries.newest(limit=1)
    note = known.note if known else {}
    return TelemetryStatus(
        endpoint=str(app.config.values["otlp_endpoint"]),
        sent=int(note.get("sent", 0)),
        dropped=int(note.get("dropped", 0)),
        behind=max(0, newest[0].seq - known.seq) if known and newest else 0,
        problem=str(note.get("problem", "")),
    )


def try_collector(app: App) -> str:
    """Send one test span and return its trace. OperatorError when it is not accepted."""
    if not app.config.values["otlp_endpoint"]:
        raise UsageError(
            "No collector for traces is configured.",
            next_step='Add to operator.toml: otlp_endpoint = "http://127.0.0.1:4318"',
        )
    now, run = app.clock.now(), f"test-{app.new_id()[:12]}"
    span = Span("test", trace_id(run), span_id(run, 1), "", now, now, 1, 1)
    collector = _collector(app)
    try:
        problem = collector.send([span])
    finally:
        collector.close()
    if problem:
        error = OperatorError(
            f"Cannot send to the collector at {collector.endpoint!r}: {problem}.",
            next_step="Start the collector, or correct otlp_endpoint.",
        )
        error.category = ErrorCategory.DASHBOARD_UNAVAILABLE
        error.next_action = NextAction.RERUN
        raise error
    return span.trace


async def send_spans(app: App) -> None:
    """Send spans beside other work, until cancelled; whatever is wrong with it is only logged.

    It returns at once where they go nowhere.
    """
    if not app.config.values["otlp_endpoint"]:
        return
    try:
        sender = Sender(app, _collector(app))
    except OperatorError as error:  # a ticket matters more than its trace
        log.error("no traces are sent: %s", error)
        return
    try:
        await sender.run()
    except OperatorError as error:
        log.error("sending of traces has stopped: %s", error)
    finally:
        sender.collector.close()


@dataclass(slots=True)
class Sender:
    """Follows the ledger and sends finished spans."""

    app: App
    collector: Collector
    _calls: OrderedDict[str, Entry] = field(default_factory=OrderedDict, init=False)
    _back_off_s: float = field(default=POLL_S, init=False)

    async def run(self) -> None:
        """Until cancelled; one process at a time."""
        app = self.app
        holder = f"{app.initiator.host}:{app.initiator.process.pid}:{app.new_id()[:8]}"
        while True:
            try:
                cursor = await app.store.cursors.claim(CURSOR, holder, lease_s=LEASE_S)
            except OperatorError as error:
                log.error("no traces are sent: %s", error)
                cursor = None
            if cursor is not None:
                await self._follow(cursor)
            await app.clock.sleep(AWAY_S)

    async def step(self, cursor: Cursor) -> Cursor:
        """Send the next page of spans, if there is one; where the cursor is afterwards."""
        spans, seq, behind = await asyncio.to_thread(self._next, cursor.seq)
        note = dict(cursor.note)
        if seq == cursor.seq:
            self._back_off_s = POLL_S
            return cursor
        problem = await asyncio.to_thread(self.collector.send, spans) if spans else ""
        if not problem:
            note |= {"sent": int(note.get("sent", 0)) + len(spans)}
            if spans:
                note["problem"] = ""
            self._back_off_s = POLL_S
            return replace(cursor, seq=seq, note=note)
        if problem != note.get("problem"):
            log.warning("traces are not sent: %s: %s", self.collector.endpoint, problem)
        note["problem"] = problem
        self._back_off_s = min(2 * self._back_off_s, BACK_OFF_S_MAX)
        if behind <= BEHIND_MAX:
            return replace(cursor, note=note)
        note["dropped"] = int(note.get("dropped", 0)) + len(spans)
        return replace(cursor, seq=seq, note=note)

    async def _follow(self, cursor: Cursor) -> None:
        """Until another has the cursor, or the store is away."""
        cursors, clock = self.app.store.cursors, self.app.clock
        kept_at = clock.monotonic()
        try:
            while True:
                after = await self.step(cursor)
                if after != cursor or clock.monotonic() - kept_at > RENEW_S:
                    if not await cursors.keep(after, lease_s=LEASE_S):
                        return
                    kept_at = clock.monotonic()
                done = after.seq > cursor.seq
                cursor = after
                pause_s = 0.0 if done else self._back_off_s
                while pause_s > 0:  # and the lease is kept meanwhile
                    await clock.sleep(min(pause_s, RENEW_S))
                    pause_s -= RENEW_S
                    if pause_s > 0:
                        await cursors.keep(cursor, lease_s=LEASE_S)
        except OperatorError as error:
            log.error("traces are delayed: %s", error)
        finally:
            with contextlib.suppress(OperatorError):
                await cursors.release(cursor)

    def _next(self, after: int) -> tuple[Sequence[Span], int, int]:
        """Spans that ended in the next page, the last entry of it, and how many wait behind."""
        store = self.app.store
        page = store.entries.after(after, limit=PAGE)
        if not page:
            return (), after, 0
        newest = store.entries.newest(limit=1)
        last = page[-1].seq
        found: list[Span] = []
        providers = _providers(self.app)
        ended = {entry.run: None for entry in page if entry.run and entry.kind in _ENDS}
        for run in ended:
            made = spans_of(_entries_of(self.app, run), provider_of=providers)
            found += [span for span in made if after < span.ended <= last]
        for entry in page:  # commands that belong to no run
            if entry.run or entry.kind not in (Kind.TOOL_CALL, Kind.TOOL_RESULT, Kind.REFUSED):
                continue
            permit = str(entry.payload.get("permit"))
            if entry.kind is Kind.TOOL_CALL:
                self._calls[permit] = entry
                if len(self._calls) > OPEN_MAX:
                    self._calls.popitem(last=False)
            elif entry.kind is Kind.REFUSED:
                found += spans_of([entry])
            elif (call := self._calls.get(permit)) is not None:
                found += spans_of([call, entry])
        return found, last, newest[0].seq - last


_ENDS = frozenset(
    {
        *(Kind.REASONING, Kind.TOOL_RESULT, Kind.REFUSED, Kind.PROOF),
        *(Kind.APPROVAL_DECIDED, Kind.RUN_FINISHED),
    }
)


def _entries_of(app: App, run: str) -> list[Entry]:
    found: list[Entry] = []
    while len(found) < ENTRIES_MAX:
        page = app.store.entries.after(found[-1].seq if found else 0, limit=PAGE, run=run)
        found += page
        if len(page) < PAGE:
            break
    return found


def _providers(app: App) -> Callable[[str], str]:
    known = {
        name: configured.provider
        for configured in app.config.models
        for name in (configured.name, configured.model)
    }
    return lambda model: known.get(model) or provider_named(model)


def _collector(app: App) -> Collector:
    endpoint = str(app.config.values["otlp_endpoint"])
    file = str(app.config.values["otlp_token_file"])
    url = urlsplit(endpoint)
    if file and url.scheme != "https" and not is_loopback(url.hostname or ""):
        raise UsageError(
            f"The token for {endpoint!r} would be sent unencrypted.",
            next_step="Use https, or a collector on this machine.",
        )
    token = read_secret(file).strip() if file else ""
    return Collector(endpoint, __version__, token)
