"""Errors of clients are counted per second, unless another break explains them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Seen, Trouble, Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.client import (
    ALL_CHECKED,
    CLIENT_VIEW,
    ERRORS_PER_S_MAX,
    READS_CHECKED,
    UNCHECKED,
    WINDOW_S_MAX,
    ErrorRates,
    LogErrors,
    LogReader,
    judge_client_errors,
)


def _health(readings: dict[str, Value]) -> Health | None:
    opinion = judge_client_errors(Seen("a", readings))
    return opinion.health if opinion is not None else None


def test_a_rate_needs_two_checks_and_more_than_a_few_errors() -> None:
    rates = ErrorRates()
    assert _health(rates.readings("a", {"login": 900}, 100.0)) is None  # all of it is past
    assert _health(rates.readings("a", {"login": 905}, 102.0)) is Health.HEALTHY
    found = rates.readings("a", {"login": 906, "timeout": 2}, 104.0, example="no entry")
    assert found == {
        "client_errors_per_s": 0.6,
        "client_errors_kind": "login",
        "client_error": "no entry",
    }
    opinion = judge_client_errors(Seen("a", found))
    assert opinion is not None
    assert opinion.detail == "0.6 errors/s of clients: logins rejected (no entry)"
    assert opinion.trouble is Trouble.CREDENTIAL
    assert _health(rates.readings("a", {"login": 906}, 116.0)) is Health.HEALTHY


def test_the_words_of_the_client_view_are_distinct() -> None:
    assert CLIENT_VIEW == "client_view"
    assert len({ALL_CHECKED, READS_CHECKED, UNCHECKED}) == 3
    assert 0 < ERRORS_PER_S_MAX < 1


def test_a_server_that_counts_from_0_again_is_counted_anew() -> None:
    rates = ErrorRates()
    rates.readings("a", {"login": 900}, 100.0)
    assert rates.readings("a", {"login": 20}, 102.0) == {}
    assert rates.readings("b", {"login": 20}, 102.0) == {}


@pytest.mark.parametrize(
    ("checks", "rate"),
    [
        # Seconds of the checks, each with the total so far; the last one is judged.
        ([(0.0, 0), (30.0, 90)], 3.0),
        ([(0.0, 0), (WINDOW_S_MAX, 90)], 1.0),
        # All of it may have happened long ago, by a whole hour of 3 errors per second.
        ([(0.0, 0), (WINDOW_S_MAX + 1.0, 9_000)], None),
        ([(0.0, 0), (3_600.0, 10_800)], None),
        # The check after the gap counts from there.
        ([(0.0, 0), (3_600.0, 10_800), (3_602.0, 10_800)], 0.0),
        ([(0.0, 0), (3_600.0, 10_800), (3_610.0, 10_820)], 2.0),
        # The last seconds before the gap do not count either.
        ([(0.0, 0), (5.0, 500), (3_600.0, 500), (3_605.0, 500)], 0.0),
        # A check within the bound keeps it, while older ones leave.
        ([(0.0, 0), (5.0, 500), (92.0, 500)], 0.0),
    ],
)
def test_errors_from_before_a_long_gap_are_not_current(
    checks: list[tuple[float, int]], rate: float | None
) -> None:
    rates = ErrorRates()
    for at, total in checks:
        found = rates.readings("a", {"login": total}, 100.0 + at)
    assert found.get("client_errors_per_s") == rate


def test_what_another_break_explains_counts_only_a_while_after_it() -> None:
    rates = ErrorRates()
    rates.readings("a", {"timeout": 0}, 100.0)
    during = rates.readings("a", {"timeout": 50}, 102.0, explained=["timeout"])
    just_after = rates.readings("a", {"timeout": 90}, 104.0)
    assert _health(during) is _health(just_after) is Health.HEALTHY
    assert _health(rates.readings("a", {"timeout": 90}, 113.0)) is Health.HEALTHY
    rates.readings("a", {"timeout": 90}, 124.0)
    assert _health(rates.readings("a", {"timeout": 200}, 126.0)) is Health.BROKEN


def test_a_log_is_read_from_its_end_and_from_its_beginning_when_it_was_replaced(
    tmp_path: Path,
) -> None:
    log, reader = tmp_path / "a.log", LogReader()
    assert reader.read_added(str(log)) is None
    log.write_text("old\n")
    assert reader.read_added(str(log)) == []
    with log.open("a") as more:
        more.write("new\nhalf")
    assert reader.read_added(str(log)) == ["new"]
    log.write_text("x\n")
    assert reader.read_added(str(log)) == ["x"]


def test_only_lines_about_clients_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("FATAL shop\n")
    errors = LogErrors({"login": re.compile("FATAL")}, re.compile("operator"))
    target = Target("a", "server", log=str(log))
    assert errors.count(target) == ({"login": 0}, "")
    with log.open("a") as more:
        more.write("FATAL operator\nFATAL shop\nLOG shop\n")
    assert errors.count(target) == ({"login": 1}, "FATAL shop")
    elsewhere = Target("b", "server", log=str(log), runs_at="ssh://db")
    assert errors.count(elsewhere) == ({}, "")


@pytest.mark.parametrize(
    "readings",
    [{"client_errors_per_s": 9.0}, {"client_errors_per_s": 0.5, "client_errors_kind": "login"}],
)
def test_no_kind_and_a_rate_at_the_limit_are_healthy(readings: dict[str, Value]) -> None:
    assert _health(readings) is Health.HEALTHY
