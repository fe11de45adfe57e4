"""The figures that Operator keeps of itself, as Prometheus reads them, and where it scrapes them.

What is counted grows; nothing is ever uncounted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from bisect import bisect_left
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.watcher import Watch
from operator_protocols.ports import Clock

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = [
    "BUCKETS_S",
    "CONTENT_TYPE",
    "Channel",
    "CheckCounts",
    "Counted",
    "Figures",
    "Heartbeat",
    "LedgerCounts",
    "MetricsServer",
    "exposition",
    "why_stalled",
]

Rows = Iterable[tuple[tuple[str, ...], float]]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_BYTES_MAX = 8192
REQUEST_S_MAX = 5.0
ANSWER_S_MAX = 30.0
CONNECTIONS_MAX = 32
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
PERMITS_MAX = 10_000
# So many different words for one label; whatever comes on top is counted as "other".
WORDS_MAX = 200
_TICKETS = {
    Kind.TICKET_OPENED: "opened",
    Kind.TICKET_RESOLVED: "resolved",
    Kind.TICKET_ESCALATED: "escalated",
}
log = logging.getLogger(__name__)


@dataclass(slots=True)
class LedgerCounts:
    """Counts of the entries that were written since the start."""

    tickets: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    commands: Counter[tuple[str, str]] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    alerts: Counter[tuple[str, str]] = field(default_factory=Counter)
    untrusted: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    usd: float = 0.0
    _levels: OrderedDict[str, str] = field(default_factory=OrderedDict)

    def take(self, entries: Iterable[Entry]) -> None:
        """Count these, which come behind those before."""
        for entry in entries:
            kind, payload = entry.kind, entry.payload
            if word := _TICKETS.get(kind):
                self.tickets[word] += 1
            elif kind is Kind.RUN_FINISHED:
                self.runs[str(payload.get("state", ""))] += 1
            elif kind in (Kind.REASONING, Kind.SUMMARY):  # a summary costs as well, and is no turn
                spent = payload.get("spent") or {}
                self.turns += kind is Kind.REASONING
                for direction in ("in", "out"):
                    self.tokens[direction] += int(spent.get(f"tokens_{direction}", 0))
                self.usd += float(spent.get("usd", 0.0))
            elif kind is Kind.PERMIT_MINTED:
                self._levels[str(payload.get("permit", ""))] = str(payload.get("level", ""))
                if len(self._levels) > PERMITS_MAX:
                    self._levels.popitem(last=False)
            elif kind is Kind.TOOL_RESULT:
                level = self._levels.pop(str(payload.get("permit", "")), "") or "unknown"
                self.commands[str(payload["result"]["outcome"]), level] += 1
            elif kind is Kind.REFUSED:
                self.refusals[str(payload.get("level") or "unknown")] += 1
            elif kind is Kind.ALERT_FIRED:
                self.alerts[_limit_word(self.alerts, payload["alert"]["trigger"]), "fired"] += 1
            elif kind is Kind.ALERT_CLEARED:
                self.alerts[_limit_word(self.alerts, payload["trigger"]), "cleared"] += 1
            elif kind is Kind.TRIGGER_REFUSED:
                trigger = _limit_word(self.untrusted, payload["trigger"])
                self.untrusted[trigger] += int(payload.get("count", 1))


def _limit_word(known: Mapping[Any, int], word: object) -> str:
    words = {key[0] if isinstance(key, tuple) else key for key in known}
    return str(word) if word in words or len(words) < WORDS_MAX else "other"


@dataclass(slots=True)
class Counted:
    """The checks of one subject."""

    looks: int = 0
    missed: int = 0
    failed: int = 0
    sum_s: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    last_at_s: float = 0.0


class CheckCounts:
    """Looks by subject, gathered from what watchers tell of themselves now and then.

    Of several looks between two of our own the last one stands for all.
    """

    def __init__(self) -> None:
        self.subjects: dict[str, Counted] = {}
        self._before: dict[str, Watch] = {}

    def take(self, watches: Sequence[Watch]) -> None:
        """How every subject is watched by now."""
        for watch in watches:
            name = watch.subject
            if name not in self.subjects and len(self.subjects) >= WORDS_MAX:
                name = "other"
            known = self.subjects.setdefault(name, Counted())
            before = self._before.get(watch.subject)
            if before is None or before.looks > watch.looks:  # the watch started again
                before = Watch(watch.subject, watch.interval_s)
            looks = watch.looks - before.looks
            known.looks += looks
            known.missed += max(0, watch.missed - before.missed)
            known.failed += max(0, watch.failed - before.failed)
            known.sum_s += looks * watch.last_s
            known.buckets[bisect_left(BUCKETS_S, watch.last_s)] += looks
            if watch.last_at is not None:
                known.last_at_s = max(known.last_at_s, watch.last_at.timestamp())
            self._before[watch.subject] = watch
        present = {watch.subject for watch in watches}
        self._before = {name: watch for name, watch in self._before.items() if name in present}


@dataclass(frozen=True, slots=True)
class Channel:
    """What became of messages to one channel."""

    name: str
    sent: int
    failed: int
    lost: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything at one moment; what cannot be asked now is left out."""

    version: str
    ledger: LedgerCounts
    looks: CheckCounts
    store_errors: int = 0
    head: int | None = None
    behind: int | None = None
    approvals: int | None = None
    confirmations: int | None = None
    spans: Mapping[str, int] = field(default_factory=dict)
    tickets: Mapping[tuple[str, str], int] = field(default_factory=dict)
    health: Mapping[str, Health] = field(default_factory=dict)
    firing: Mapping[str, int] = field(default_factory=dict)
    channels: Sequence[Channel] = ()


def exposition(figures: Callable[[], Figures]) -> bytes:
    """The text that Prometheus scrapes."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Collector:
        def collect(self) -> Iterator[Metric]:
            return _families(figures())

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return generate_latest(registry)


def _families(now: Figures) -> Iterator[Metric]:
    from prometheus_client.core import HistogramMetricFamily

    yield _gauge("build_info", "Version of this Operator.", ("version",), [((now.version,), 1)])
    # How watching goes.
    looks, by = now.looks.subjects, ("subject",)
    yield _counter("looks", "Looks.", by, [((n,), c.looks) for n, c in looks.items()])
    missed = [((n,), c.missed) for n, c in looks.items()]
    yield _counter("looks_missed", "Checks that were due but did not start.", by, missed)
    failed = [((n,), c.failed) for n, c in looks.items()]
    yield _counter("looks_failed", "Checks that failed.", by, failed)
    last = [((n,), c.last_at_s) for n, c in looks.items()]
    yield _gauge("look_last_timestamp_seconds", "When the last check ended.", by, last)
    took = HistogramMetricFamily("operator_look_duration_seconds", "Duration of checks.", labels=by)
    for name, counted in looks.items():
        sums = accumulate(map(float, counted.buckets))
        bounds = (*map(str, BUCKETS_S), "+Inf")
        took.add_metric([name], list(zip(bounds, sums, strict=True)), counted.sum_s)
    yield took
    # How things stand.
    health = [((n, h), int(h is now.health[n])) for n in now.health for h in Health]
    text = "1 for the current health of the subject."
    yield _gauge("subject_health", text, ("subject", "health"), health)
    yield _gauge("tickets", "Live tickets.", ("state", "severity"), now.tickets.items())
    yield _gauge("alerts_firing", "Alerts from elsewhere.", ("trigger",), _single(now.firing))
    for name, text, value in (
        ("approvals_pending", "Approval requests that are pending.", now.approvals),
        ("confirmations_pending", "Changes with a pending confirmation.", now.confirmations),
        ("ledger_head_seq", "Sequence number of the newest entry.", now.head),
        ("index_behind_entries", "Entries that are not indexed yet.", now.behind),
    ):
        if value is not None:
            yield _gauge(name, text, (), [((), value)])
    errors = [((), now.store_errors)]
    yield _counter("store_errors", "Failed reads of the store.", (), errors)
    # What the ledger tells, and what became of messages to people and of traces.
    ledger, channels = now.ledger, now.channels
    by_direction, untrusted = ("direction",), _single(ledger.untrusted)
    sent = [((c.name, "sent"), c.sent) for c in channels]
    unsent = [((c.name, "failed"), c.failed) for c in channels]
    counters: tuple[tuple[str, str, tuple[str, ...], Rows], ...] = (
        ("ticket_events", "Tickets, by outcome.", ("event",), _single(ledger.tickets)),
        ("runs", "Runs that ended.", ("outcome",), _single(ledger.runs)),
        ("turns", "Turns of models.", (), [((), ledger.turns)]),
        (
            "tokens",
            "Tokens sent to and received from models.",
            by_direction,
            _single(ledger.tokens),
        ),
        ("cost_usd", "Cost of models in dollars.", (), [((), ledger.usd)]),
        ("commands", "Commands that finished.", ("outcome", "level"), ledger.commands.items()),
        ("refusals", "Commands that were not permitted.", ("level",), _single(ledger.refusals)),
        ("alerts", "Alerts from elsewhere.", ("trigger", "change"), ledger.alerts.items()),
        (
            "triggers_refused",
            "Untrusted alert notifications.",
            ("trigger",),
            untrusted,
        ),
        ("notifications", "Messages to people.", ("channel", "outcome"), [*sent, *unsent]),
    )
    for name, text, labels, rows in counters:
        yield _counter(name, text, labels, rows)
    text = "Notices that could not be delivered since the last delivered message."
    yield _gauge("notifications_lost", text, ("channel",), [((c.name,), c.lost) for c in channels])
    yield _counter("spans", "Spans, by outcome.", ("outcome",), _single(now.spans))


def _family(kind: Any, name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    family = kind(f"operator_{name}", text, labels=labels)
    for words, value in rows:
        family.add_metric([str(word) for word in words], value)
    metric: Metric = family
    return metric


def _counter(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return _family(CounterMetricFamily, name, text, labels, rows)


def _gauge(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return _family(GaugeMetricFamily, name, text, labels, rows)


def _single(counts: Mapping[str, int]) -> list[tuple[tuple[str], int]]:
    return [((word,), count) for word, count in counts.items()]


class MetricsServer:
    """Answers `GET /metrics`, for the length of an `async with`."""

    def __init__(
        self, host: str, port: int, *, content_type: str, render: Callable[[], Awaitable[bytes]]
    ) -> None:
        self._host, self._port = host, port
        self._content_type = content_type
        self._render = render
        self._open = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> MetricsServer:
        self._server = await asyncio.start_server(
            self._talk, self._host, self._port, limit=REQUEST_BYTES_MAX
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                status, kind, body = await self._answer(reader)
                head = (
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                    "Connection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            log.debug("a scrape was abandoned")
        finally:
            self._open -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
        text = "text/plain; charset=utf-8"
        if self._open > CONNECTIONS_MAX:
            return "503 Service Unavailable", text, b"Too many at once.\n"
        try:
            async with asyncio.timeout(REQUEST_S_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.LimitOverrunError, ValueError):
            return "431 Request Header Fields Too Large", text, b"That is too much.\n"
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method != b"GET":
            return "405 Method Not Allowed", text, b"Only GET.\n"
        if path != b"/metrics":
            return "404 Not Found", text, b"The figures are at /metrics.\n"
        return "200 OK", self._content_type, await self._render()


# So many intervals may pass without a check before the monitor counts as stalled.
INTERVALS_MAX = 3.0
SLACK_S = 15.0


def why_stalled(watches: Sequence[Watch], since: datetime, now: datetime) -> str:
    """Why we are not really looking, or "". Pure; `since` is when watching began."""
    if not watches:
        return "nothing is watched"
    for watch in watches:
        last = watch.last_at or since
        if (now - last).total_seconds() > INTERVALS_MAX * watch.interval_s + SLACK_S:
            return f"the last check of {watch.subject} is too old"
    if not any(watch.last_at for watch in watches):
        return "no check has finished yet"
    return ""


@dataclass(slots=True)
class Heartbeat:
    """Calls `beat` every so often. `beat` says why it could not, or ""."""

    watches: Callable[[], Sequence[Watch]]
    beat: Callable[[], Awaitable[str]]
    clock: Clock
    every_s: float
    problem: str = ""

    async def run(self) -> None:
        """Beat until cancelled; a failure is logged once, and the next beat is sent as usual."""
        since = self.clock.now()
        while True:
            why = why_stalled(self.watches(), since, self.clock.now())
            if why:
                why = f"no heartbeat, because {why}"
            elif why := await self.beat():
                why = f"the heartbeat was not accepted: {why}"
            if why and why != self.problem:
                log.warning("%s", why)
            self.problem = why
            # Soon again until the first one, so that a restart is not taken for a death.
            await self.clock.sleep(min(1.0, self.every_s) if why else self.every_s)
