"""The figures in the words of Prometheus, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.health import Health
from operator_sre.telemetry.counting import BUCKETS_S, LedgerCounts, LookCounts

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["CONTENT_TYPE", "Channel", "Figures", "exposition"]

Rows = Iterable[tuple[tuple[str, ...], float]]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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
    looks: LookCounts
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
    yield _gauge("build_info", "Which operator this is.", ("version",), [((now.version,), 1)])
    yield from _looking(now)
    yield from _standing(now)
    yield from _happened(now.ledger)
    yield from _told(now)


def _family(kind: Any, name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    made = kind(f"operator_{name}", text, labels=labels)
    for words, value in rows:
        made.add_metric([str(word) for word in words], value)
    metric: Metric = made
    return metric


def _counter(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    return _family(CounterMetricFamily, name, text, labels, rows)


def _gauge(name: str, text: str, labels: Sequence[str], rows: Rows) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    return _family(GaugeMetricFamily, name, text, labels, rows)


def _looking(now: Figures) -> Iterator[Metric]:
    """How watching goes."""
    from prometheus_client.core import HistogramMetricFamily

    looks, by = now.looks.subjects, ("subject",)
    yield _counter("looks", "Looks.", by, [((n,), c.looks) for n, c in looks.items()])
    missed = [((n,), c.missed) for n, c in looks.items()]
    yield _counter("looks_missed", "Looks that were due and did not begin.", by, missed)
    failed = [((n,), c.failed) for n, c in looks.items()]
    yield _counter("looks_failed", "Looks that came to nothing.", by, failed)
    last = [((n,), c.last_at_s) for n, c in looks.items()]
    yield _gauge("look_last_timestamp_seconds", "When the last look ended.", by, last)
    took = HistogramMetricFamily(
        "operator_look_duration_seconds", "How long looks take.", labels=by
    )
    for name, counted in looks.items():
        took.add_metric([name], _cumulative(counted.buckets), counted.sum_s)
    yield took


def _standing(now: Figures) -> Iterator[Metric]:
    """How things stand."""
    health = [((n, h), int(h is now.health[n])) for n in now.health for h in Health]
    what = "1 for the health that a subject has."
    yield _gauge("subject_health", what, ("subject", "health"), health)
    yield _gauge("tickets", "Live tickets.", ("state", "severity"), now.tickets.items())
    yield _gauge("alerts_firing", "Alerts from elsewhere.", ("trigger",), _single(now.firing))
    for name, text, value in (
        ("approvals_pending", "Requests that wait for a person.", now.approvals),
        ("confirmations_pending", "Changes that wait for a person's yes.", now.confirmations),
        ("ledger_head_seq", "The number of the newest entry.", now.head),
        ("index_behind_entries", "Entries that cannot be searched yet.", now.behind),
    ):
        if value is not None:
            yield _gauge(name, text, (), [((), value)])
    errors = [((), now.store_errors)]
    yield _counter("store_errors", "Times the store could not be read.", (), errors)


def _happened(told: LedgerCounts) -> Iterator[Metric]:
    """What the ledger tells."""
    what = "Tickets, by what became of them."
    yield _counter("ticket_events", what, ("event",), _single(told.tickets))
    yield _counter("runs", "Runs that ended.", ("outcome",), _single(told.runs))
    yield _counter("turns", "Turns of minds.", (), [((), told.turns)])
    what = "Tokens that minds were told and said."
    yield _counter("tokens", what, ("direction",), _single(told.tokens))
    yield _counter("cost_usd", "Dollars that minds cost.", (), [((), told.usd)])
    yield _counter("commands", "Commands that ended.", ("outcome", "level"), told.commands.items())
    what = "Commands that were not permitted."
    yield _counter("refusals", what, ("level",), _single(told.refusals))
    yield _counter("alerts", "Alerts from elsewhere.", ("trigger", "change"), told.alerts.items())
    what = "Notifications that were not trusted."
    yield _counter("triggers_refused", what, ("trigger",), _single(told.untrusted))


def _told(now: Figures) -> Iterator[Metric]:
    """What became of messages to people, and of traces."""
    sent = [((c.name, "sent"), c.sent) for c in now.channels]
    failed = [((c.name, "failed"), c.failed) for c in now.channels]
    both = ("channel", "outcome")
    yield _counter("notifications", "Messages to people.", both, [*sent, *failed])
    what = "Notices that could not be delivered since a message last was."
    lost = [((c.name,), c.lost) for c in now.channels]
    yield _gauge("notifications_lost", what, ("channel",), lost)
    what = "Spans, by what became of them."
    yield _counter("spans", what, ("outcome",), _single(now.spans))


def _single(counts: Mapping[str, int]) -> list[tuple[tuple[str], int]]:
    return [((word,), count) for word, count in counts.items()]


def _cumulative(buckets: Sequence[int]) -> list[tuple[str, float]]:
    made, total = [], 0
    for bound, count in zip([*map(str, BUCKETS_S), "+Inf"], buckets, strict=True):
        total += count
        made.append((bound, float(total)))
    return made
