"""The figures in the words of Prometheus, in a registry of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from operator_protocols.domain.health import Health
from operator_sre.telemetry.counting import BUCKETS_S, LedgerCounts, LookCounts

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["CONTENT_TYPE", "Channel", "Figures", "exposition"]

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
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    def family(kind: Any, name: str, text: str, labels: Sequence[str], rows: Any) -> Metric:
        made = kind(f"operator_{name}", text, labels=labels)
        for words, value in rows:
            made.add_metric([str(word) for word in words], value)
        metric: Metric = made
        return metric

    def counter(name: str, text: str, labels: Sequence[str], rows: Any) -> Metric:
        return family(CounterMetricFamily, name, text, labels, rows)

    def gauge(name: str, text: str, labels: Sequence[str], rows: Any) -> Metric:
        return family(GaugeMetricFamily, name, text, labels, rows)

    def one(name: str, text: str, value: int | None) -> Iterator[Metric]:
        if value is not None:
            yield gauge(name, text, (), [((), value)])

    looks = now.looks.subjects
    yield gauge("build_info", "Which operator this is.", ("version",), [((now.version,), 1)])
    yield counter("looks", "Looks.", ("subject",), [((n,), c.looks) for n, c in looks.items()])
    yield counter(
        "looks_missed",
        "Looks that were due and did not begin.",
        ("subject",),
        [((n,), c.missed) for n, c in looks.items()],
    )
    yield counter(
        "looks_failed",
        "Looks that came to nothing.",
        ("subject",),
        [((n,), c.failed) for n, c in looks.items()],
    )
    yield gauge(
        "look_last_timestamp_seconds",
        "When the last look came to its end.",
        ("subject",),
        [((n,), c.last_at_s) for n, c in looks.items()],
    )
    took = HistogramMetricFamily(
        "operator_look_duration_seconds", "How long looks take.", labels=("subject",)
    )
    for name, counted in looks.items():
        took.add_metric([name], _cumulative(counted.buckets), counted.sum_s)
    yield took
    yield gauge(
        "subject_health",
        "1 for the health that a subject has.",
        ("subject", "health"),
        [((n, h), int(h is now.health[n])) for n in now.health for h in Health],
    )
    yield gauge("tickets", "Live tickets.", ("state", "severity"), [*now.tickets.items()])
    yield from one("approvals_pending", "Requests that wait for a person.", now.approvals)
    yield from one("ledger_head_seq", "The number of the newest entry.", now.head)
    yield from one("index_behind_entries", "Entries that cannot be searched yet.", now.behind)
    yield gauge(
        "alerts_firing",
        "Alerts from elsewhere.",
        ("trigger",),
        [((n,), c) for n, c in now.firing.items()],
    )
    told = now.ledger
    yield counter(
        "ticket_events", "Tickets, by what became of them.", ("event",), _single(told.tickets)
    )
    yield counter("runs", "Runs that ended.", ("outcome",), _single(told.runs))
    yield counter("commands", "Commands that ended.", ("outcome", "level"), told.commands.items())
    yield counter(
        "refusals", "Commands that were not permitted.", ("level",), _single(told.refusals)
    )
    yield counter("alerts", "Alerts from elsewhere.", ("trigger", "change"), told.alerts.items())
    yield counter(
        "triggers_refused",
        "Notifications that were not trusted.",
        ("trigger",),
        _single(told.untrusted),
    )
    yield counter(
        "store_errors", "Times the store could not be read.", (), [((), now.store_errors)]
    )
    yield counter(
        "notifications",
        "Messages to people.",
        ("channel", "outcome"),
        [
            ((c.name, word), value)
            for c in now.channels
            for word, value in (("sent", c.sent), ("failed", c.failed))
        ],
    )
    yield gauge(
        "notifications_lost",
        "Notices that could not be delivered since a message last was.",
        ("channel",),
        [((c.name,), c.lost) for c in now.channels],
    )


def _single(counts: Mapping[str, int]) -> list[tuple[tuple[str], int]]:
    return [((word,), count) for word, count in counts.items()]


def _cumulative(buckets: Sequence[int]) -> list[tuple[str, float]]:
    made, total = [], 0
    for bound, count in zip([*map(str, BUCKETS_S), "+Inf"], buckets, strict=True):
        total += count
        made.append((bound, float(total)))
    return made
