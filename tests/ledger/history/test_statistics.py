"""Figures about commands."""

from __future__ import annotations

from operator_sre.ledger.history.statistics import (
    FailureGroup,
    FailurePattern,
    Tally,
    category_of,
    failure_groups,
    failure_patterns,
    success_patterns,
    tallies,
)
from tests.ledger.history.attempts import attempt, attempts


def test_a_tally_counts_what_ran_and_what_did_not() -> None:
    history = [
        attempt("df -h", duration_s=1.0),
        attempt("df -h", duration_s=2.0),
        attempt("df -h", exit_code=1, duration_s=6.0),
        attempt("df -h", outcome="timed_out", exit_code=124, duration_s=3.0),
        attempt("df -h", outcome="refused", exit_code=None),
        attempt("df -h", outcome="unknown", exit_code=None, duration_s=99.0),
    ]
    last = history[-1]
    assert tallies(history) == [
        Tally("df -h", last.command_hash, 5, 2, 2, 1, 0.5, 3.0, last.at, last.seq)
    ]


def test_what_never_ended_has_no_rate() -> None:
    (tally,) = tallies([attempt("df -h", outcome="", exit_code=None)])
    assert (tally.total, tally.success_rate, tally.avg_duration_s) == (1, None, None)
    (tally,) = tallies([attempt("mkfs", outcome="refused", exit_code=None)])
    assert (tally.total, tally.refused, tally.success_rate) == (0, 1, None)


def test_the_most_frequent_command_comes_first() -> None:
    history = attempts("a", "b", "b", "c", "b", "c")
    assert [tally.command for tally in tallies(history)] == ["b", "c", "a"]
    assert tallies([]) == []


def test_success_patterns_need_three_runs_that_went_well() -> None:
    history = [
        *attempts(*["good"] * 3),
        *attempts(*["rare"] * 2),
        *attempts(*["bad"] * 3),
        *attempts("bad", exit_code=1),
        *(attempt("never", outcome="refused", exit_code=None) for _ in range(5)),
    ]
    assert [tally.command for tally in success_patterns(history)] == ["good"]
    assert [tally.command for tally in success_patterns(history, runs_min=2)] == ["good", "rare"]


def test_failures_are_grouped_by_category_with_the_newest_as_examples() -> None:
    history = [
        attempt("a", exit_code=127, category="not_found"),
        *(attempt(f"b{n}", exit_code=1) for n in range(5)),
        attempt("fine"),
        attempt("no", outcome="refused", exit_code=None),
    ][::-1]
    first, second = failure_groups(history)
    assert first == FailureGroup("runtime", 5, tuple(one for one in history if one.failed)[:3])
    assert (second.category, second.count) == ("not_found", 1)
    assert category_of(history[-1]) == "not_found"


def test_what_fails_again_and_again_is_one_pattern_whatever_the_numbers() -> None:
    history = [
        attempt("kill -9 100", exit_code=1),
        attempt("kill -9 101", exit_code=1),
        attempt("kill -9 102"),
        attempt("kill -9 103", exit_code=126, category="permission"),
        attempt("once", exit_code=1),
    ]
    last = history[1]
    assert failure_patterns(history) == [
        FailurePattern(("kill -9 {pid}",), "runtime", 2, 4, 0.5, last.at, last.seq)
    ]
    assert len(failure_patterns(history, failures_min=1)) == 3
