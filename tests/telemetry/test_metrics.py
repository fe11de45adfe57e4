"""Figures only grow, whatever restarts, and labels are bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.watcher import Watch
from operator_sre.telemetry.metrics import (
    BUCKETS_S,
    CONTENT_TYPE,
    WORDS_MAX,
    Channel,
    CheckCounts,
    Counted,
    Figures,
    LedgerCounts,
    exposition,
)
from tests.contract.clock import NOON


def _entry(kind: Kind, **payload: object) -> Entry:
    return Entry(1, NOON, kind, payload, None, "", Actor(), "", "")


def test_commands_are_counted_with_the_level_of_their_permit() -> None:
    counts = LedgerCounts()
    counts.take(
        [
            _entry(Kind.PERMIT_MINTED, permit="p1", level="safe"),
            _entry(Kind.TOOL_RESULT, permit="p1", result={"outcome": "ran"}),
            _entry(Kind.TOOL_RESULT, permit="p0", result={"outcome": "timed_out"}),
            _entry(Kind.REFUSED, level="blocked"),
            _entry(Kind.RUN_FINISHED, state="completed"),
            _entry(Kind.TICKET_OPENED),
            _entry(Kind.OBSERVED),
        ]
    )
    assert counts.commands == {("ran", "safe"): 1, ("timed_out", "unknown"): 1}
    assert (counts.refusals, counts.runs) == ({"blocked": 1}, {"completed": 1})
    assert counts.tickets == {"opened": 1}


def test_what_minds_cost_is_counted_and_a_summary_is_no_turn() -> None:
    counts = LedgerCounts()
    spent = {"tokens_in": 100, "tokens_out": 7, "usd": 0.25}
    counts.take(
        [
            _entry(Kind.REASONING, spent=spent),
            _entry(Kind.REASONING, reasoning="the built-in one costs nothing"),
            _entry(Kind.SUMMARY, spent=spent),
        ]
    )
    assert (counts.turns, counts.usd) == (2, 0.5)
    assert counts.tokens == {"in": 200, "out": 14}
    figures = Figures(
        "1", counts, CheckCounts(), approvals=2, confirmations=3, spans={"sent": 9, "dropped": 1}
    )
    text = exposition(lambda: figures).decode()
    for line in (
        "operator_turns_total 2.0",
        'operator_tokens_total{direction="in"} 200.0',
        'operator_tokens_total{direction="out"} 14.0',
        "operator_cost_usd_total 0.5",
        "operator_approvals_pending 2.0",
        "operator_confirmations_pending 3.0",
        'operator_spans_total{outcome="dropped"} 1.0',
    ):
        assert line in text, line


def test_alerts_are_counted_by_trigger_and_triggers_are_bounded() -> None:
    counts = LedgerCounts()
    for number in range(WORDS_MAX + 50):
        counts.take([_entry(Kind.ALERT_FIRED, alert={"trigger": f"t{number}"})])
    counts.take([_entry(Kind.ALERT_CLEARED, trigger="t0")])
    counts.take([_entry(Kind.TRIGGER_REFUSED, trigger="t0", count=7)])
    assert counts.alerts["other", "fired"] == 50
    assert (counts.alerts["t0", "cleared"], counts.untrusted["t0"]) == (1, 7)


def test_looks_are_counted_once_however_often_they_are_asked_for() -> None:
    counts = CheckCounts()
    watch = Watch("shop", 5.0, NOON, 0.3, looks=2, missed=1)
    counts.take([watch])
    counts.take([watch])
    later = replace(watch, looks=5, last_s=0.02, last_at=NOON + timedelta(seconds=9), failed=1)
    counts.take([later])
    shop = counts.subjects["shop"]
    assert (shop.looks, shop.missed, shop.failed) == (5, 1, 1)
    assert shop.buckets[BUCKETS_S.index(0.5)] == 2
    assert shop.buckets[BUCKETS_S.index(0.025)] == 3
    assert abs(shop.sum_s - 0.66) < 1e-9
    assert shop.last_at_s == later.last_at.timestamp() if later.last_at else False


def test_what_is_watched_anew_goes_on_counting() -> None:
    counts = CheckCounts()
    counts.take([Watch("shop", 5.0, NOON, 0.1, looks=7)])
    counts.take([])
    counts.take([Watch("shop", 5.0, NOON, 0.1, looks=2)])
    counts.take([Watch("shop", 5.0, NOON, 0.1, looks=1)])
    assert counts.subjects["shop"].looks == 10


def test_subjects_are_bounded() -> None:
    counts = CheckCounts()
    counts.take([Watch(f"s{n}", 5.0, NOON, 0.1, looks=1) for n in range(WORDS_MAX + 9)])
    assert counts.subjects["other"].looks == 9
    assert len(counts.subjects) == WORDS_MAX + 1
    assert isinstance(counts.subjects["s0"], Counted)


def test_the_figures_are_told_in_the_words_of_prometheus() -> None:
    ledger, looks = LedgerCounts(), CheckCounts()
    ledger.take([_entry(Kind.RUN_FINISHED, state="failed")])
    looks.take([Watch("shop", 5.0, NOON, 0.3, looks=2)])
    figures = Figures(
        version="1.2.3",
        ledger=ledger,
        looks=looks,
        head=9,
        behind=0,
        approvals=1,
        tickets={("open", "critical"): 2},
        health={"shop": Health.BROKEN},
        channels=[Channel("slack-1", 3, 1, 4)],
    )
    lines = exposition(lambda: figures).decode().splitlines()
    for line in (
        'operator_build_info{version="1.2.3"} 1.0',
        'operator_looks_total{subject="shop"} 2.0',
        'operator_look_duration_seconds_bucket{le="0.25",subject="shop"} 0.0',
        'operator_look_duration_seconds_bucket{le="0.5",subject="shop"} 2.0',
        'operator_look_duration_seconds_bucket{le="+Inf",subject="shop"} 2.0',
        'operator_look_duration_seconds_count{subject="shop"} 2.0',
        'operator_subject_health{health="broken",subject="shop"} 1.0',
        'operator_subject_health{health="healthy",subject="shop"} 0.0',
        'operator_tickets{severity="critical",state="open"} 2.0',
        'operator_runs_total{outcome="failed"} 1.0',
        "operator_approvals_pending 1.0",
        "operator_ledger_head_seq 9.0",
        "operator_index_behind_entries 0.0",
        "operator_store_errors_total 0.0",
        'operator_notifications_total{channel="slack-1",outcome="sent"} 3.0',
        'operator_notifications_lost{channel="slack-1"} 4.0',
    ):
        assert line in lines, line
    assert "0.0.4" in CONTENT_TYPE


def test_what_cannot_be_asked_is_left_out_and_never_zero() -> None:
    text = exposition(lambda: Figures("1", LedgerCounts(), CheckCounts(), store_errors=3)).decode()
    assert "operator_store_errors_total 3.0" in text
    for name in ("operator_ledger_head_seq", "operator_approvals_pending"):
        assert name not in text
